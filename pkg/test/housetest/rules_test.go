package housetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Each rule is shown what breaks it (want) and what comes close and does not.
func TestRules(t *testing.T) {
	const own = module + "/"
	importing := func(name string, paths ...string) string {
		text := "// Package " + name + " is a room.\npackage " + name + "\n"
		for _, p := range paths {
			text += fmt.Sprintf("import _ %q\n", p)
		}
		return text
	}
	tests := []struct {
		rule  rule
		name  string
		files map[string]string
		want  []string // beginnings of "at: what"
	}{
		{imports, "main", map[string]string{
			"main.go": importing("main", own+"backend/vxlan", own+"backend", own+"pkg/command", own+"pkg/daemon", own+"subnet"),
		}, []string{
			"main.go:6: . imports github.com/tulle-net/tulle/pkg/daemon; ",
			"main.go:7: . imports github.com/tulle-net/tulle/subnet; ",
		}},
		{imports, "commands", map[string]string{
			"pkg/command/command.go": importing("command", own+"pkg/daemon", own+"pkg/kernel", own+"network", own+"backend", own+"subnet", own+"subnet/etcd"),
			"pkg/daemon/daemon.go":   importing("daemon", own+"subnet/etcd", own+"network", own+"pkg/kernel", own+"backend", "k8s.io/klog/v2", own+"pkg/command", own+"backend/vxlan"),
			"pkg/clock/clock.go":     importing("clock", own+"pkg/daemon"),
		}, []string{
			"pkg/clock/clock.go:3: ", "pkg/command/command.go:8: ",
			"pkg/daemon/daemon.go:8: pkg/daemon imports github.com/tulle-net/tulle/pkg/command; ",
			"pkg/daemon/daemon.go:9: pkg/daemon imports github.com/tulle-net/tulle/backend/vxlan; ",
		}},
		{imports, "no package imports main", map[string]string{
			"network/node.go":      importing("network", module),
			"pkg/status/status.go": importing("status", "fmt", module),
		}, []string{
			"network/node.go:3: network imports github.com/tulle-net/tulle; ",
			"pkg/status/status.go:4: pkg/status imports github.com/tulle-net/tulle; ",
		}},
		{imports, "network", map[string]string{
			"network/node.go": importing("network", own+"backend", own+"backend/vxlan", own+"subnet", own+"pkg/reconcile", own+"network/outputs",
				own+"pkg/kernel", own+"subnet/etcd"),
			"network/outputs/o.go": importing("outputs", own+"pkg/kernel/sysctl"),
		}, []string{
			"network/node.go:8: network imports github.com/tulle-net/tulle/pkg/kernel; ",
			"network/node.go:9: network imports github.com/tulle-net/tulle/subnet/etcd; ",
			"network/outputs/o.go:3: network/outputs imports github.com/tulle-net/tulle/pkg/kernel/sysctl; ",
		}},
		{imports, "backend", map[string]string{
			"backend/backend.go": importing("backend", own+"subnet", own+"pkg/netstate", own+"backend/vxlan", own+"pkg/hostif"),
		}, []string{
			"backend/backend.go:5: backend imports github.com/tulle-net/tulle/backend/vxlan; ",
			"backend/backend.go:6: ",
		}},
		{imports, "a backend", map[string]string{
			"backend/wg/wg.go": importing("wg", own+"backend", own+"subnet", own+"pkg/netstate", own+"backend/wg/keys", "golang.org/x/crypto/curve25519",
				own+"backend/vxlan", own+"network", own+"pkg/kernel", own+"pkg/reconcile", own+"subnet/etcd"),
			"backend/wg/wg_windows.go": importing("wg", own+"pkg/hostif"),
			"backend/wg/wg_test.go":    importing("wg", own+"pkg/kernel", own+"pkg/kernel/kerneltest", own+"backend/vxlan"),
		}, []string{
			"backend/wg/wg.go:8: backend/wg imports github.com/tulle-net/tulle/backend/vxlan; ",
			"backend/wg/wg.go:9: ", "backend/wg/wg.go:10: ", "backend/wg/wg.go:11: ", "backend/wg/wg.go:12: ",
			"backend/wg/wg_windows.go:3: backend/wg imports github.com/tulle-net/tulle/pkg/hostif; ",
		}},
		{imports, "subnet", map[string]string{
			"subnet/lease.go": importing("subnet", "net/netip", "encoding/json", own+"pkg/netstate", own+"subnet/etcd", "k8s.io/klog/v2"),
		}, []string{
			"subnet/lease.go:5: subnet imports github.com/tulle-net/tulle/pkg/netstate; ",
			"subnet/lease.go:6: subnet imports github.com/tulle-net/tulle/subnet/etcd; ",
			"subnet/lease.go:7: subnet imports k8s.io/klog/v2; ",
		}},
		{imports, "a store", map[string]string{
			"subnet/etcd/store.go": importing("etcd", own+"subnet", "go.etcd.io/etcd/client/v3", own+"subnet/kube", own+"pkg/netstate"),
		}, []string{"subnet/etcd/store.go:5: ", "subnet/etcd/store.go:6: "}},
		{imports, "netstate", map[string]string{
			"pkg/netstate/state.go": importing("netstate", "net/netip", own+"subnet", "golang.org/x/sys/unix"),
		}, []string{"pkg/netstate/state.go:4: ", "pkg/netstate/state.go:5: pkg/netstate imports golang.org/x/sys/unix; "}},
		{imports, "reconcile", map[string]string{
			"pkg/reconcile/loop.go": importing("reconcile", own+"pkg/netstate", "k8s.io/klog/v2", own+"subnet", own+"backend", own+"pkg/kernel"),
		}, []string{"pkg/reconcile/loop.go:5: ", "pkg/reconcile/loop.go:6: ", "pkg/reconcile/loop.go:7: "}},
		{imports, "kernel", map[string]string{
			"pkg/kernel/dump.go":          importing("kernel", own+"pkg/netstate", own+"pkg/kernel/sysctl", "golang.org/x/sys/unix", own+"subnet"),
			"pkg/kernel/kerneltest/fk.go": importing("kerneltest", own+"pkg/kernel", own+"pkg/reconcile"),
		}, []string{"pkg/kernel/dump.go:6: ", "pkg/kernel/kerneltest/fk.go:4: "}},
		{imports, "small things", map[string]string{
			"pkg/hostif/h.go":  importing("hostif", own+"pkg/kernel", own+"subnet", own+"network", own+"backend"),
			"pkg/netstated.go": importing("pkg", own+"pkg/netstate"),
		}, []string{"pkg/hostif/h.go:5: pkg/hostif imports github.com/tulle-net/tulle/network; ", "pkg/hostif/h.go:6: "}},
		{imports, "a room without a row", map[string]string{
			"api/api.go":              importing("api"),
			"networks/n.go":           importing("networks"),
			"pkg/x/testdata/broken":   "not Go",
			"pkg/x/testdata/other.go": importing("other", module),
		}, []string{"api/api.go: the table rooms has no row for api", "networks/n.go: "}},

		{helpers, "helpers", map[string]string{
			"network/node.go":             importing("network", own+"subnet/storetest"),
			"main.go":                     importing("main", own+"pkg/kernel/kerneltest", "testing/fstest"),
			"network/node_test.go":        importing("network", own+"subnet/storetest"),
			"pkg/kernel/kerneltest/fk.go": importing("kerneltest", own+"pkg/netstate/netstatetest"),
			"pkg/status/status.go":        importing("status", own+"pkg/test/clock"),
			"pkg/test/clock/clock.go":     importing("clock", own+"pkg/test/etcdtest"),
		}, []string{"pkg/status/status.go:3: pkg/status imports pkg/test/clock outside", "main.go:3: . imports pkg/kernel/kerneltest outside a test", "network/node.go:3: network imports subnet/storetest outside"}},

		{netlink, "modules", map[string]string{
			"pkg/hostif/h.go":               importing("hostif", "github.com/vishvananda/netlink", "example.org/netlinks", own+"pkg/netlink"),
			"backend/vxlan/v_test.go":       importing("vxlan", "github.com/vishvananda/netlink/nl", "github.com/vishvananda/netns"),
			"pkg/kernel/dump.go":            importing("kernel", "github.com/vishvananda/netlink"),
			"pkg/kernel/kerneltest/ns.go":   importing("kerneltest", "github.com/vishvananda/netns"),
			"pkg/kernels/dump.go":           importing("kernels", "github.com/mdlayher/netlink"),
			"pkg/kernel/kerneltest/fk.json": "{}",
		}, []string{"backend/vxlan/v_test.go:3: ", "backend/vxlan/v_test.go:4: ", "pkg/hostif/h.go:3: pkg/hostif imports github.com/vishvananda/netlink", "pkg/kernels/dump.go:3: "}},
		{netlink, "by hand", map[string]string{
			"pkg/hostif/h.go": "package hostif\nimport (\n\tsys \"golang.org/x/sys/unix\"\n\t\"syscall\"\n)\n" +
				"var a = sys.AF_NETLINK\nvar b = syscall.NetlinkRIB\nvar c = sys.AF_INET\nvar unix struct{ RTM_NEWLINK int }\nvar d = unix.RTM_NEWLINK\n",
			"pkg/kernel/k.go": "package kernel\nimport \"golang.org/x/sys/unix\"\nvar a = unix.RTM_NEWROUTE\n",
		}, []string{"pkg/hostif/h.go:6: pkg/hostif uses unix.AF_NETLINK", "pkg/hostif/h.go:7: pkg/hostif uses syscall.NetlinkRIB"}},

		{top, "files", map[string]string{
			"main.go":        importing("main"),
			"main_test.go":   importing("main"),
			"node.go":        importing("main"),
			"README.md":      "# x\n",
			"network/a.go":   importing("network"),
			"dist/x/main.go": importing("main"),
		}, []string{"main_test.go: ", "node.go: "}},

		{packageDoc, "docs", map[string]string{
			"a/a.go":      "// Package a is good.\npackage a\n",
			"a/more.go":   "package a\n",
			"b/b.go":      "//go:build linux\n\npackage b\n",
			"c/c.go":      "// Copyright\n\npackage c\n",
			"d/d.go":      "// d is a room.\npackage d\n",
			"e/e_test.go": "// Package e is a test.\npackage e\n",
			"f/f.go":      "package f\n",
			"f/f_test.go": "// Package f is a test.\npackage f\n",
			"g/main.go":   "// Command g runs.\npackage main\n",
			"h/main.go":   "package main\n",
			"i/readme":    "package i\n",
		}, []string{"b: ", "c: ", "d: ", "e: ", "f: ", "h: "}},

		{fileSize, "lines", map[string]string{
			"a/a.go":      "package a\n" + strings.Repeat("\n", maxLines-1),
			"a/b.go":      "package a\n" + strings.Repeat("\n", maxLines),
			"a/b_test.go": "package a\n" + strings.Repeat("\n", maxLines),
			"a/gen.go":    "// Code generated by x. DO NOT EDIT.\npackage a\n" + strings.Repeat("\n", maxLines),
			"a/a.txt":     strings.Repeat("\n", maxLines+1),
		}, []string{"a/b.go: 501 lines"}},

		{noSkip, "skips", map[string]string{
			"a/a_test.go":    "package a\nimport \"testing\"\nfunc TestA(tt *testing.T) {\n\ttt.Skip()\n\ttt.Run(\"\", func(tt *testing.T) { tt.Skipf(\"\") })\n}\n",
			"a/b_test.go":    "package a\nfunc b(x interface{ SkipNow() }) { x.SkipNow() }\n",
			"a/a.go":         "package a\nfunc c(r interface{ Skip() }) { r.Skip() }\n",
			"atest/atest.go": "package atest\nimport \"testing\"\nfunc Need(tb testing.TB) { tb.Skip() }\n",
			"a/c_test.go":    "package a\nimport \"io/fs\"\nvar _ = fs.SkipDir\n// tb.Skip()\nconst _ = `tb.Skip()`\n",
		}, []string{"a/a_test.go:4: calls Skip", "a/a_test.go:5: calls Skipf", "a/b_test.go:2: calls SkipNow", "atest/atest.go:3: calls Skip"}},

		{noSleep, "sleeps", map[string]string{
			"a/a_test.go":    "package a\nimport \"time\"\nvar a = time.Sleep\n",
			"a/b_test.go":    "package a\nimport clock \"time\"\nvar b = clock.Sleep\nvar c = clock.Second\n",
			"a/a.go":         "package a\nimport \"time\"\nvar d = time.Sleep\n",
			"a/c_test.go":    "package a\nvar time struct{ Sleep func(int) }\nvar e = time.Sleep\n",
			"atest/atest.go": "package atest\nimport (\n\t_ \"testing\"\n\t\"time\"\n)\nvar d = time.Sleep\n",
		}, []string{"a/a_test.go:3: ", "a/b_test.go:3: uses time.Sleep", "atest/atest.go:6: "}},

		{shown, "tests", map[string]string{
			"a/b/b_test.go": "package b\nfunc TestIt() {}\nfunc FuzzIt() {}\ntype x int\nfunc (x) TestNot() {}\n",
			"a/b/b.go":      "package b\nfunc TestFake() {}\n",
			"docs/page.md":  "as `b.TestIt` and `b.FuzzIt` show, and b.TestFalse\n`b.TestNot`, `b.TestFake` and `c.TestIt`\n",
			"docs/page.txt": "`b.TestGone`\n",
		}, []string{"docs/page.md:2: there is no b.TestFake", "docs/page.md:2: there is no b.TestNot", "docs/page.md:2: there is no c.TestIt"}},

		{links, "links", map[string]string{
			"README.md":             "# It's `a` page!\n[a](Documentation/a.md#what-it-is) [b](#its-a-page) [c](dist/x) [d](https://example.org/#x)\n[e](Documentation/gone.md) [f](Documentation/a.md#not-code) [g](#gone)\n",
			"Documentation/a.md":    "# a\n## What it is\n```\n# Not code\n```\n[a](../README.md) [b](b.md#b)\n",
			"Documentation/b.md":    "### b\n",
			"Documentation/b.txt":   "[a](gone.md)\n",
			"dist/x/y":              "\n",
			"dist/x/README.md":      "[a](../x) [b](../../LICENSE) ![c](c.png) ![d](d.png)\n",
			"dist/x/c.png":          "\xff\x00",
			"Documentation/x/z.md":  "\n",
			"Documentation/readme2": "\n",
		}, []string{"Documentation/b.md: README.md does not link it", "README.md:3: there is no #gone", "README.md:3: there is no Documentation/a.md#not-code", "README.md:3: there is no Documentation/gone.md", "dist/x/README.md:1: there is no ../../LICENSE", "dist/x/README.md:1: there is no d.png"}},

		{words, "words", map[string]string{
			"README.md":        "see \n`/wo" + "rk/main/x`, a /wo" + "rking path\n",
			".ci/run":          "cd /ro" + "ot/go/pkg\ncd /ro" + "ot/gopher\ncd \"$TMP/wo" + "rk/x\"; cd ${tmp}/wo" + "rk/; cd ./wo" + "rk/\n",
			"dist/Dockerfile":  "FROM x\nENV A=https://Proxy.go" + "lang.org,direct\nRUN curl http://deb.deb" + "ian.org/\n",
			"a/a.go":           "package a\n\nconst npm = \"registry.npm" + "js.org\"\n",
			"docs/golang":      "https://golang.org/ https://www.debian.org/ https://network.example/\n",
			".git/config":      "/wo" + "rk/main\n",
			"bin/tulled":       "/wo" + "rk/main\n",
			"dist/logo.png":    "\xff /wo" + "rk/main\n",
			"dist/logo.ico":    "\x00 /wo" + "rk/main\n",
			"network/bin/text": "=/wo" + "rk/main\n",
		}, []string{
			".ci/run:1: has /ro" + "ot/go", "README.md:2: has /wo" + "rk/", "a/a.go:3: has registry.npm" + "js.org",
			"dist/Dockerfile:2: has Proxy.go" + "lang.org", "dist/Dockerfile:3: has deb.deb" + "ian.org", "network/bin/text:1: ",
		}},
	}
	for _, test := range tests {
		t.Run(test.rule.name+"/"+test.name, func(t *testing.T) {
			root := make(fstest.MapFS)
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			h, err := open(root)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range test.rule.check(h) {
				got = append(got, f.at+": "+f.what)
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(test.want))
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}

	for _, r := range rules {
		caught := false
		for _, test := range tests {
			caught = caught || test.rule.name == r.name && len(test.want) > 0
		}
		if !caught {
			t.Errorf("no case shows that the rule %q can fail", r.name)
		}
	}
}

// A file that go cannot read is an error, never a file without faults.
func TestOpenRefusesBrokenGo(t *testing.T) {
	for _, name := range []string{"a/a.go", "a/a_test.go"} {
		_, err := open(fstest.MapFS{name: {Data: []byte("package a\nfunc {")}})
		if err == nil || !strings.Contains(err.Error(), name+":2") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}
