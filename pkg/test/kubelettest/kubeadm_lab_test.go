//go:build kubelet

package kubelettest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// kubeadmCluster is a cluster that kubeadm made. Its first node is the control plane,
// whose servers run in static pods.
type kubeadmCluster struct {
	*kubernetes
	kubeadm string
	servers [][]byte // images of the control plane
	proxy   []byte   // image of kube-proxy
}

// joinToken is the token with which a node authenticates itself.
const joinToken = "tullet.0123456789abcdef"

// initConfig is kubeadm's config for the first node. The placeholders are the node's
// addresses, etcd's URL, and the configs of kubelet and kube-proxy. Kubeadm sets who
// may send requests to the kubelet.
const initConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %[1]s}
bootstrapTokens: [{token: ` + joinToken + `}]
nodeRegistration: ` + registration + `
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: ` + kubetest.Version + `
networking: {podSubnet: 10.244.0.0/16}
etcd: {external: {endpoints: ["%[4]s"]}}
---
%[5]s
---
%[6]s
`

const registration = `{name: %[2]s, criSocket: "unix:///run/containerd/containerd.sock", kubeletExtraArgs: [{name: node-ip, value: "%[3]s"}]}`

// joinConfig is kubeadm's config for another node.
const joinConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {token: ` + joinToken + `, apiServerEndpoint: "%[1]s:6443", unsafeSkipCAVerification: true}}
nodeRegistration: ` + registration + `
`

// kubeletOfKubeadm starts the kubelet as the unit of kubeadm's packages does.
const kubeletOfKubeadm = `#!/bin/sh
. /var/lib/kubelet/kubeadm-flags.env
exec %s/kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
	--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf $KUBELET_KUBEADM_ARGS
`

// newKubeadm makes a cluster with a number of nodes.
func newKubeadm(t testing.TB, nodes int) *kubeadmCluster {
	t.Helper()
	k := &kubeadmCluster{
		kubernetes: &kubernetes{t: t, programs: kubetest.NodePrograms(t), group: fmt.Sprintf("tulle-kubelet-%d-", os.Getpid())},
		kubeadm:    kubetest.Kubeadm(t),
	}
	k.podProgram = podProgram(t)
	k.images = podImages(t, k.podProgram)
	k.servers, k.proxy = serverImages(t), proxyImage(t, k.programs)
	k.Cluster = clustertest.New(t, clustertest.Options{Hosts: nodes})
	t.Cleanup(func() { removeGroups(t, k.group+"*") })
	etcd := etcdtest.Start(t, etcdtest.Options{Namespace: k.EtcdHost().NS.Name, Addresses: []netip.Addr{clustertest.EtcdAddrs(1)[0]}})
	first := k.add(k.Hosts[0])
	first.load(k.servers...)
	kubelet := strings.NewReplacer("authentication: {webhook: {enabled: false}, anonymous: {enabled: true}}\n", "", "authorization: {mode: AlwaysAllow}\n", "").Replace(kubeletConfig)
	proxy := strings.Replace(proxyConfig, "clientConnection: {kubeconfig: KUBECONFIG}\n", "", 1)
	h := first.Host
	config := fmt.Sprintf(initConfig, h.Addr[0], h.Name, h.Addr[0], etcd.Endpoints()[0], kubelet, proxy)
	k.runKubeadm(first, config, "init", "--skip-phases=preflight,addon/coredns")
	admin, err := os.ReadFile(first.path("/etc/kubernetes/admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	k.kubeconfig = writeFile(t, t.TempDir(), "admin.conf", string(admin))
	for _, h := range k.Hosts[1:] {
		k.joinNode(h)
	}
	return k
}

// add boots a host that has not joined a cluster.
func (k *kubeadmCluster) add(h *clustertest.Host) *node {
	k.t.Helper()
	dir := k.t.TempDir()
	n := bootNode(k.t, h, k.group+h.Name, [][]string{
		containerdService(k.t, dir), {writeFile(k.t, dir, "kubelet", fmt.Sprintf(kubeletOfKubeadm, k.programs))},
	})
	n.load(append(k.images, k.proxy)...)
	k.nodes = append(k.nodes, n)
	return n
}

// joinNode makes a host a node of the cluster.
func (k *kubeadmCluster) joinNode(h *clustertest.Host) *node {
	k.t.Helper()
	n := k.add(h)
	k.runKubeadm(n, fmt.Sprintf(joinConfig, k.nodes[0].Addr[0], h.Name, h.Addr[0]), "join", "--skip-phases=preflight")
	return n
}

// runKubeadm runs kubeadm on a node with a config.
func (k *kubeadmCluster) runKubeadm(n *node, config string, args ...string) string {
	k.t.Helper()
	path := writeFile(k.t, k.t.TempDir(), "kubeadm.yaml", config)
	return kerneltest.Run(k.t, n.command(append([]string{k.kubeadm}, append(args, "--config", path)...)...))
}

// onNode returns a shell command that root runs on a node. The command finds the
// cluster's programs, and a folder of others.
func (k *kubeadmCluster) onNode(n *node, programs, command string) *exec.Cmd {
	cmd := n.command("sh", "-c", command)
	cmd.Env = append(cmd.Env, "PATH="+programs+":"+k.programs+":"+filepath.Dir(k.kubeadm)+":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "KUBECONFIG=/etc/kubernetes/admin.conf")
	return cmd
}

// serverImages returns the images of the control plane, under the names that kubeadm
// writes into its manifests.
func serverImages(t testing.TB) (all [][]byte) {
	t.Helper()
	servers, nodes := kubetest.ServerPrograms(t), kubetest.NodePrograms(t)
	for _, path := range []string{servers + "/kube-apiserver", servers + "/kube-controller-manager", nodes + "/kube-scheduler"} {
		name := filepath.Base(path)
		im := image{name: kubeadmImage(name), files: map[string]string{"usr/bin/" + name: path}}
		all = append(all, im.archive(t))
	}
	return all
}

// proxyImage returns the image of kube-proxy, with the nft that it runs.
func proxyImage(t testing.TB, programs string) []byte {
	t.Helper()
	im := image{name: kubeadmImage("kube-proxy"), files: map[string]string{"usr/local/bin/kube-proxy": programs + "/kube-proxy"}}
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	im.addProgram(t, "usr/sbin/nft", nft)
	return im.archive(t)
}

func kubeadmImage(name string) string { return "registry.k8s.io/" + name + ":" + kubetest.Version }

// documentedOn runs the only command of a page that begins with the given words, on a
// node.
func (k *kubeadmCluster) documentedOn(n *node, programs, beginning string) string {
	k.t.Helper()
	return kerneltest.Run(k.t, k.onNode(n, programs, commandIn(k.t, installPage, beginning)))
}
