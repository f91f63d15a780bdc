//go:build kubelet

package kubelettest

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/flanneltest"
	"github.com/tulle-net/tulle/subnet"
)

// flannelImages are the images that flannel's own manifest names.
func flannelImages(t testing.TB, f flanneltest.Flannel) [][]byte {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	daemon := image{name: "ghcr.io/flannel-io/flannel:v0.28.9", entrypoint: []string{"/opt/bin/flanneld"}, files: map[string]string{
		"opt/bin/install-conf": f.InstallConf,
	}}
	daemon.addProgram(t, "opt/bin/flanneld", f.Flanneld)
	for _, name := range []string{"iptables", "ip6tables", "nft", "ip"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			t.Fatal(err)
		}
		daemon.addProgram(t, "usr/sbin/"+filepath.Base(path), path)
		if base := filepath.Base(path); base != name {
			daemon.files["usr/sbin/"+name] = "->" + base
			daemon.files["usr/sbin/"+name+"-save"] = "->" + base
			daemon.files["usr/sbin/"+name+"-restore"] = "->" + base
		}
	}
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil || len(extensions) == 0 {
		t.Fatalf("cannot find the extensions of iptables: %v", err)
	}
	for _, path := range extensions {
		daemon.files[path[1:]] = path
	}
	plugin := image{name: "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel3", files: map[string]string{
		"flannel": f.CNIPlugin, "bin/cp": "->busybox",
	}}
	plugin.addProgram(t, "bin/busybox", busybox)
	return [][]byte{daemon.archive(t), plugin.archive(t)}
}

// cniPlugins copies the standard plugins to where kubeadm's packages install them.
func (n *node) cniPlugins() {
	n.t.Helper()
	kerneltest.Run(n.t, n.command("sh", "-c", `mkdir -p /opt/cni/bin && cd /usr/lib/cni && cp bridge host-local loopback portmap /opt/cni/bin`))
}

// newFlannel returns a cluster with flannel's own DaemonSet.
func newFlannel(t testing.TB) *kubernetes {
	t.Helper()
	f, err := flanneltest.Find()
	if err != nil {
		t.Fatal(err)
	}
	k := newKubernetes(t, 2, "10.244.0.0/16")
	k.load(flannelImages(t, f)...)
	for _, n := range k.nodes {
		n.cniPlugins()
	}
	k.installFlannel()
	return k
}

// installFlannel applies flannel's manifest, and waits until it is rolled out.
func (k *kubernetes) installFlannel() {
	k.t.Helper()
	f, err := flanneltest.Find()
	if err != nil {
		k.t.Fatal(err)
	}
	k.kubectl("apply -f " + f.Manifest)
	k.kubectl("rollout status -n kube-flannel daemonset/kube-flannel-ds --timeout " + patience.String())
	k.awaitNodes("Ready", "True")
}

// TestFlannel replaces flannel with tulle while pods run, and tulle with flannel again.
func TestFlannel(t *testing.T) {
	k := newFlannel(t)
	one, two := k.nodes[0], k.nodes[1]
	from, to := k.addPod("one", one), k.addPod("two", two)
	gone := k.addPod("gone", one)
	k.Reach(from.Pod, to.Pod)
	manifest := k.loadTulle()
	seen := make(addresses)
	seen.distinct(t, from, to, gone)

	k.step(t, "to tulle", func(t *testing.T) {
		pings := k.bothWays(from, to)
		k.documented("kubectl -n kube-flannel delete daemonset kube-flannel-ds")
		k.apply(manifest)
		k.documented("kubectl -n tulle-system rollout status daemonset/tulled")
		three, four := k.addPod("three", one), k.addPod("four", two)
		seen.distinct(t, three, four)
		for _, pair := range [][2]*pod{{three, four}, {four, three}, {three, to}, {to, three}, {from, four}, {three, from}} {
			k.Reach(pair[0].Pod, pair[1].Pod)
		}
		wantNoneLost(t, pings)
		k.kubectl("delete pod gone --wait")
		if _, err := os.Stat(one.path("/var/lib/cni/networks/cbr0/" + gone.Addr[subnet.IPv4].String())); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the address of a deleted pod is still in use: %v", err)
		}
		for _, n := range k.nodes {
			if rules := kerneltest.Run(t, n.command("iptables-save")); strings.Contains(rules, "FLANNEL") {
				t.Errorf("%s has rules of flannel's:\n%s", n.Name, rules)
			}
			t.Logf("%s\n%s", k.status(t, n), n.NS.IP(t, "-o -d link show type vxlan"))
		}
	})
	k.step(t, "and back", func(t *testing.T) {
		pings := k.bothWays(from, to)
		k.documented("kubectl -n tulle-system delete daemonset tulled")
		k.installFlannel()
		five, six := k.addPod("five", one), k.addPod("six", two)
		seen.distinct(t, five, six)
		for _, pair := range [][2]*pod{{five, six}, {six, five}, {five, to}, {from, six}} {
			k.Reach(pair[0].Pod, pair[1].Pod)
		}
		wantNoneLost(t, pings)
	})
}

// addresses are the addresses of all pods, and which pod has each.
type addresses map[netip.Addr]string

func (seen addresses) distinct(t *testing.T, pods ...*pod) {
	t.Helper()
	for _, p := range pods {
		a := p.Addr[subnet.IPv4]
		if other, taken := seen[a]; taken {
			t.Errorf("%s and %s both have %s", p.name, other, a)
		}
		seen[a] = p.name
	}
}

// TestFlannelNodeByNode runs nodes of both kinds side by side.
func TestFlannelNodeByNode(t *testing.T) {
	k := newFlannel(t)
	one, two := k.nodes[0], k.nodes[1]
	from, to := k.addPod("one", one), k.addPod("two", two)
	seen := make(addresses)
	seen.distinct(t, from, to)
	pings := k.bothWays(from, to)
	k.step(t, "both", func(t *testing.T) {
		k.documented("kubectl -n kube-flannel patch daemonset kube-flannel-ds")
		k.kubectl("rollout status -n kube-flannel daemonset/kube-flannel-ds --timeout " + patience.String())
		const selector = "        kubernetes.io/os: linux\n"
		manifest := k.loadTulle()
		if !strings.Contains(manifest, selector) {
			t.Fatalf("%s has no %q", tulleManifest, selector)
		}
		k.apply(strings.Replace(manifest, selector, selector+"        cni-daemon: tulle\n", 1))
	})
	for _, n := range k.nodes {
		k.step(t, n.Name, func(t *testing.T) {
			k.documented("kubectl label node NODE cni-daemon=tulle", "NODE", n.Name)
			k.documented("until kubectl -n tulle-system wait pod", "NODE", n.Name)
			t.Log(k.documented("kubectl -n tulle-system exec POD -- /tulled peers", "POD", k.tulled(n).Metadata.Name))
			three, four := k.addPod("three-"+n.Name, one), k.addPod("four-"+n.Name, two)
			seen.distinct(t, three, four)
			for _, pair := range [][2]*pod{{three, four}, {four, three}, {three, to}, {to, three}, {from, four}, {four, from}} {
				k.Reach(pair[0].Pod, pair[1].Pod)
			}
			t.Log(k.status(t, n))
		})
	}
	wantNoneLost(t, pings)
}
