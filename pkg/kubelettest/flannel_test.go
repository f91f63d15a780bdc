//go:build kubelet

package kubelettest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tulle-net/tulle/pkg/flanneltest"
)

// flannelImages are as flannel's own manifest names them.
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
		t.Fatalf("there are no extensions of iptables: %v", err)
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

// cniPlugins puts the standard plugins where kubeadm's packages do.
func (n *node) cniPlugins() {
	n.t.Helper()
	run(n.t, n.command("sh", "-c", `mkdir -p /opt/cni/bin && cd /usr/lib/cni && cp bridge host-local loopback portmap /opt/cni/bin`))
}

func newFlannel(t testing.TB) *kubernetes {
	t.Helper()
	f, err := flanneltest.Find()
	if err != nil {
		t.Fatal(err)
	}
	k := newKubernetes(t, 2, "10.244.0.0/16")
	images := flannelImages(t, f)
	for _, n := range k.nodes {
		n.cniPlugins()
		n.load(images...)
	}
	manifest, err := os.ReadFile(f.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	k.apply(string(manifest))
	k.awaitNodes("Ready", "True")
	return k
}

func TestFlannelAlone(t *testing.T) {
	k := newFlannel(t)
	one, other := k.addPod("one", k.nodes[0]), k.addPod("other", k.nodes[1])
	k.Reach(one.Pod, other.Pod)
	t.Log(k.kubectl("get pods -A -o wide"))
}
