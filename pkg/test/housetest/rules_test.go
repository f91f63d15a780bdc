package housetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRules passes each rule what breaks it (want), and what looks similar and does
// not.
func TestRules(t *testing.T) {
	const own = module + "/"
	importing := func(name string, paths ...string) string {
		text := "// Package " + name + " is a room.\npackage " + name + "\n"
		for _, p := range paths {
			text += fmt.Sprintf("import _ %q\n", p)
		}
		return text
	}
	table := func(rows ...string) string {
		text := "# Design\n\n| room | what it holds | imports |\n|---|---|---|\n"
		for _, row := range rows {
			name, imports, _ := strings.Cut(row, "|")
			text += "| `" + name + "` | things | " + imports + " |\n"
		}
		return text
	}
	tests := []struct {
		rule  rule
		name  string
		files map[string]string
		want  []string // beginnings of "at: what"
	}{
		{settings, "a flag in a text", map[string]string{
			"pkg/options/table.go":          "package options\n\nvar t = []flag{{Name: \"iface\"}}\n",
			"pkg/cmd/tulle-controller/c.go": "package main\n\nvar t = []flag{{Name: \"limit\"}, {Name: \"cluster-cidr\"}}\n",
			"pkg/cloud/c.go":                "package cloud\n\nconst a = \"--limit=1 --cluster-cidr\"\n",
			"pkg/daemon/d.go":               "package daemon\n\nconst a = \"--iface\"\n",
			"network/n.go":                  "package network\n\n// a is like --iface.\nconst a = \"set --iface=x\" + \"--bip --iface-other\"\n",
			"network/n_test.go":             "package network\n\nconst b = \"--iface\"\n",
		}, []string{"network/n.go:4: names --iface", "pkg/cloud/c.go:3: names --limit"}},
		{imports, "what a row lists", map[string]string{
			roomsPage:                    table("subnet/|the standard library", "pkg/kernel/|–", "backend/NAME/|`subnet`", "pkg/daemon/|`pkg/kernel`, `subnet`", "main.go|`backend/NAME`, `pkg/daemon`", "dist/…|the standard library", "pkg/test/…|any"),
			"subnet/lease.go":            importing("subnet", "net/netip", own+"pkg/kernel", "k8s.io/klog/v2"),
			"pkg/kernel/k.go":            importing("kernel", "golang.org/x/sys/unix"),
			"pkg/kernel/k_test.go":       importing("kernel", own+"pkg/daemon"),
			"pkg/kernel/kerneltest/k.go": importing("kerneltest", own+"pkg/daemon"),
			"backend/vxlan/v.go":         importing("vxlan", own+"subnet", own+"backend/ipip"),
			"backend/vxlan/v_windows.go": importing("vxlan", own+"pkg/kernel"),
			"pkg/daemon/d.go":            importing("daemon", own+"subnet", own+"pkg/kernel", module, own+"subnet/etcd"),
			"main.go":                    importing("main", own+"backend/vxlan", own+"pkg/daemon", own+"subnet"),
			"dist/image/main.go":         importing("main", "k8s.io/klog/v2"),
			"pkg/test/lab/lab.go":        importing("lab", own+"pkg/daemon"),
		}, []string{
			"backend/vxlan/v.go:4: backend/vxlan imports backend/ipip, which its row does not list",
			"backend/vxlan/v_windows.go:3: backend/vxlan imports pkg/kernel, which",
			"dist/image/main.go:3: dist/image imports k8s.io/klog/v2; it may import the standard library only",
			"main.go:5: . imports subnet, which its row does not list",
			"pkg/daemon/d.go:5: pkg/daemon imports ., which", "pkg/daemon/d.go:6: pkg/daemon imports subnet/etcd, which",
			"subnet/lease.go:4: subnet imports pkg/kernel, which", "subnet/lease.go:5: subnet imports k8s.io/klog/v2; ",
		}},
		{imports, "a row for each room, and a room for each row", map[string]string{
			roomsPage:                 table("pkg/a/|–", "pkg/b/|`pkg/a`, `pkg/c`", "pkg/c/|`pkg/a`", "pkg/gone/|–", "pkg/odd/|something") + "\nMore.\n",
			"pkg/a/a.go":              importing("a"),
			"pkg/b/b.go":              importing("b", own+"pkg/c"),
			"pkg/c/c.go":              importing("c", own+"pkg/a"),
			"pkg/odd/odd.go":          importing("odd"),
			"api/api.go":              importing("api"),
			"pkg/a/sub/s.go":          importing("sub"),
			"pkg/a/testdata/broken":   "not Go",
			"pkg/a/testdata/other.go": importing("other", module),
		}, []string{
			roomsPage + ": not a row of the table of rooms: | `pkg/odd/`", roomsPage + ": pkg/b does not import pkg/a", roomsPage + ": there is no room pkg/gone",
			"api/api.go: the table of rooms has no row for api", "pkg/a/sub/s.go: the table of rooms has no row for pkg/a/sub",
			"pkg/b/b.go:3: pkg/b imports pkg/c, which is not above it",
		}},
		{imports, "no page", map[string]string{"pkg/a/a.go": importing("a")}, []string{roomsPage + ": there is no such page"}},

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
			"bin/tulled":     "\x00",
			"tulled":         "\x7fELF\x00",
			"tools/a.sh":     "true\n",
		}, []string{"main_test.go: ", "node.go: ", "tools/a.sh: ", "tulled: "}},

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

		{bubbles, "bubbles", map[string]string{
			"a/a_test.go":                   "package a\nimport \"testing/synctest\"\nvar a = synctest.Wait\nvar b = synctest.Test\n",
			"pkg/test/bubbletest/bubble.go": "package bubbletest\nimport \"testing/synctest\"\nvar a = synctest.Test\n",
		}, []string{"a/a_test.go:4: uses synctest.Test"}},

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

		{prose, "phrases", map[string]string{
			"a/a.go":       "package a\n\n// Freeze has the ser" + "ver do nothing.\nfunc Freeze() {}\n// It is of no\n// u" + "se.\n",
			"docs/page.md": "no" + "body\nNoBody\n",
			"LICENSE":      "no" + "body\n",
			"go.sum":       "a" + "new\n",
		}, []string{`a/a.go:3: has "Freeze has the server do"`, `a/a.go:5: has "is of no `, `docs/page.md:1: has "nob`}},

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

// TestOpenRefusesBrokenGo checks that a file that go cannot read is an error, and not
// a file without faults.
func TestOpenRefusesBrokenGo(t *testing.T) {
	for _, name := range []string{"a/a.go", "a/a_test.go"} {
		_, err := open(fstest.MapFS{name: {Data: []byte("package a\nfunc {")}})
		if err == nil || !strings.Contains(err.Error(), name+":2") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}
