//go:build kubelet

package kubelettest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestLife exposes tulle's DaemonSet to the events of a cluster's life.
func TestLife(t *testing.T) {
	k := newKubernetes(t, 2, "10.244.0.0/16")
	one, two := k.nodes[0], k.nodes[1]
	var from, to *pod
	k.step(t, "installation", func(t *testing.T) {
		k.awaitNodes("Ready", "False")
		k.apply(k.loadTulle())
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		k.awaitNodes("NetworkUnavailable", "False")
		from, to = k.addPod("one", one), k.addPodAt("two", two, 9090)
		k.Reach(from.Pod, to.Pod)
		k.Reach(to.Pod, from.Pod)
		for _, n := range k.nodes {
			t.Log(k.status(t, n))
		}
	})
	k.step(t, "services", func(t *testing.T) { services(t, k, from, to) })
	k.step(t, "rollout", func(t *testing.T) {
		pings := k.bothWays(from, to)
		k.kubectl("rollout restart -n " + tulleNamespace + " daemonset/" + tulleName)
		k.awaitTulle()
		wantNoneLost(t, pings)
	})
	k.step(t, "crash", func(t *testing.T) {
		pings := k.bothWays(from, to)
		id := containerID(k.tulled(one), tulleContainer)
		kerneltest.Run(t, one.command("kill", "-9", one.process(id)))
		k.awaitRestart(one, id)
		wantNoneLost(t, pings)
	})
	k.step(t, "a node comes and goes", func(t *testing.T) { comesAndGoes(t, k, from) })
	k.wantNoComplaint(t)
	k.step(t, "hang", func(t *testing.T) {
		pings := k.bothWays(from, to)
		id := containerID(k.tulled(one), tulleContainer)
		kerneltest.Run(t, one.command("kill", "-STOP", one.process(id)))
		k.awaitRestart(one, id)
		wantNoneLost(t, pings)
	})
	k.step(t, "crash without the API server", func(t *testing.T) {
		// Read the ID while the API server answers.
		id := containerID(k.tulled(one), tulleContainer)
		k.server.Kill()
		pings := k.bothWays(from, to)
		kerneltest.Run(t, one.command("kill", "-9", one.process(id)))
		k.eventually(func() error {
			if k.readyz(one) == nil {
				return fmt.Errorf("tulled has not exited")
			}
			return nil
		})
		k.eventually(func() error { return k.readyz(one) })
		wantNoneLost(t, pings)
		kerneltest.Run(t, one.command("ip", "route", "delete", netip.PrefixFrom(to.Addr[subnet.IPv4], 24).Masked().String()))
		k.Reach(from.Pod, to.Pod)
		k.server.Restart()
		k.awaitTulle()
	})
	k.step(t, "reboot", func(t *testing.T) {
		two.reboot()
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		again := k.findPodAfter(to)
		k.Reach(from.Pod, again.Pod)
		k.Reach(k.addPod("more", two).Pod, from.Pod)
		t.Log(k.status(t, two))
	})
	k.step(t, "another subnet", func(t *testing.T) { anotherSubnet(t, k, from) })
}

// TestBothFamilies installs a dual-stack network, and removes it at the end.
func TestBothFamilies(t *testing.T) {
	k := newKubernetes(t, 2, "10.244.0.0/16", "fd00:10:244::/56")
	const one, both = `"Network": "10.244.0.0/16"`, `"Network": "10.244.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:10:244::/56"`
	manifest := k.loadTulle()
	if !strings.Contains(manifest, one) {
		t.Fatalf("%s has no %s", tulleManifest, one)
	}
	manifest = strings.Replace(manifest, one, both, 1)
	k.step(t, "rollout", func(t *testing.T) {
		k.apply(manifest)
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		from, to := k.addPod("one", k.nodes[0]), k.addPod("two", k.nodes[1])
		for f, a := range to.Addr {
			if !a.IsValid() {
				t.Fatalf("a pod has no %s address", subnet.Family(f))
			}
		}
		k.Reach(from.Pod, to.Pod)
		k.Reach(to.Pod, from.Pod)
		pings := append(k.bothWays(from, to), k.Ping(from.Pod, to.Pod, subnet.IPv6), k.Ping(to.Pod, from.Pod, subnet.IPv6))
		k.kubectl("rollout restart -n " + tulleNamespace + " daemonset/" + tulleName)
		k.awaitTulle()
		wantNoneLost(t, pings)
		k.wantNoComplaint(t)
		t.Log(k.status(t, k.nodes[0]))
	})
	k.step(t, "uninstall", func(t *testing.T) {
		k.documented("kubectl -n tulle-system patch daemonset tulled --type=json")
		k.eventually(func() error {
			// A pod that is still being created has no log.
			said, err := k.documentedCommand("kubectl -n tulle-system logs").CombinedOutput()
			if n := bytes.Count(said, []byte("this host has nothing of tulle's")); err == nil && n < len(k.nodes) {
				err = fmt.Errorf("%d nodes report that they are clean", n)
			}
			if err != nil {
				err = fmt.Errorf("%w: %s", err, said)
			}
			return err
		})
		cmd := k.kubectlCommand("delete", "-f", "-")
		cmd.Stdin = strings.NewReader(manifest)
		kerneltest.Run(t, cmd)
		for _, n := range k.nodes {
			left := n.NS.IP(t, "-o link show type vxlan") + n.NS.IP(t, "route show proto 84") + n.NS.IP(t, "-6 route show proto 84")
			tables := kerneltest.Run(t, n.command("nft", "list", "tables"))
			files := kerneltest.Run(t, n.command("ls", "-A", "/etc/cni/net.d", "/run/flannel"))
			if left != "" || strings.Contains(tables, "tulle") || strings.Contains(files, "conflist") || strings.Contains(files, "subnet.env") {
				t.Errorf("%s still has: %s\n%s\n%s", n.Name, left, tables, files)
			}
		}
	})
}

// services checks that pods are reachable in each way that Kubernetes offers.
func services(t *testing.T, k *kubernetes, from, to *pod) {
	k.apply(fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {type: NodePort, selector: {app: %[1]s}, ports: [{port: 80, targetPort: %[2]s}]}
`, to.name, podPort))
	var service struct {
		Spec struct {
			ClusterIP string
			Ports     []struct{ NodePort int }
		}
	}
	k.get("service "+to.name, &service)
	answers := func(address, what string, command func(args ...string) *exec.Cmd) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error {
			out, err := command("get", "http://"+address+"/").CombinedOutput()
			if err == nil && string(out) != what {
				err = fmt.Errorf("not %s", what)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", address, err, out)
			}
			return err
		})
	}
	inPod := func(args ...string) *exec.Cmd {
		return k.kubectlCommand(append([]string{"exec", from.name, "--", "/pod"}, args...)...)
	}
	onNode := func(n *node) func(args ...string) *exec.Cmd {
		return func(args ...string) *exec.Cmd { return n.command(append([]string{k.podProgram}, args...)...) }
	}
	one, two := k.nodes[0], k.nodes[1]
	itself := to.Addr[subnet.IPv4].String() + ":" + podPort
	answers(itself, to.name, inPod)
	answers(itself, to.name, onNode(one))
	answers(itself, to.name, onNode(two))
	service.Spec.ClusterIP += ":80"
	answers(service.Spec.ClusterIP, to.name, inPod)
	answers(service.Spec.ClusterIP, to.name, onNode(one))
	answers(fmt.Sprintf("%s:%d", one.Addr[subnet.IPv4], service.Spec.Ports[0].NodePort), to.name, onNode(two))
	onHost := two.Addr[subnet.IPv4].String() + ":9090"
	answers(onHost, to.name, onNode(one))
	answers(onHost, to.name, inPod)

	// A host outside the pods' network answers only masqueraded packets.
	outside := clustertest.EtcdAddrs(1)[0].String() + ":" + podPort
	k.EtcdHost().Start(clustertest.Command{Argv: []string{k.podProgram}}, "serve", outside)
	answers(outside, k.EtcdHost().Name, inPod)
}

// comesAndGoes adds a node, and removes it permanently.
func comesAndGoes(t *testing.T, k *kubernetes, from *pod) {
	others := k.nodes
	three := k.join(k.AddHosts(1)[0])
	k.awaitNodes("Ready", "True")
	k.awaitTulle()
	p := k.addPod("three", three)
	k.Reach(from.Pod, p.Pod)
	k.Reach(p.Pod, from.Pod)

	three.daemon.Kill()
	k.nodes = others
	k.kubectl("delete node " + three.Name)
	k.eventually(func() error {
		if now := peers(t, k, others[0]); len(now) != len(others)-1 {
			return fmt.Errorf("its peers are %s", now)
		}
		return nil
	})
}

// anotherSubnet registers a node again while another node has its podCIDR.
func anotherSubnet(t *testing.T, k *kubernetes, from *pod) {
	two := k.nodes[1]
	type nodeObject struct{ Spec struct{ PodCIDR string } }
	var was nodeObject
	k.get("node "+two.Name, &was)
	k.kubectl("delete node " + two.Name)
	k.apply("{apiVersion: v1, kind: Node, metadata: {name: other}, spec: {podCIDR: " + was.Spec.PodCIDR + ", podCIDRs: [" + was.Spec.PodCIDR + "]}}")
	kerneltest.Run(t, two.command("busybox", "killall", "-9", "kubelet"))
	k.eventually(func() error {
		var is nodeObject
		err := k.tryGet("node "+two.Name, &is)
		if err == nil && (is.Spec.PodCIDR == "" || is.Spec.PodCIDR == was.Spec.PodCIDR) {
			err = fmt.Errorf("%s has podCIDR %q", two.Name, is.Spec.PodCIDR)
		}
		return err
	})
	k.awaitNodes("Ready", "True")
	var p *pod
	k.eventually(func() error {
		name := fmt.Sprintf("again-%d", rand.Uint32())
		p = k.addPod(name, two)
		if netip.MustParsePrefix(was.Spec.PodCIDR).Contains(p.Addr[subnet.IPv4]) {
			return fmt.Errorf("%s has %s of the old subnet", name, p.Addr[subnet.IPv4])
		}
		return nil
	})
	k.Reach(from.Pod, p.Pod)
	k.Reach(p.Pod, from.Pod)
	k.awaitTulle()
	t.Log(k.status(t, two))
}

// peers returns the peers as a node's daemon sees them.
func peers(t *testing.T, k *kubernetes, n *node) []json.RawMessage {
	t.Helper()
	text := kerneltest.Run(t, k.inTulled(n, "/tulled", "peers", "--output=json"))
	var answer struct{ Peers []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return answer.Peers
}

func (k *kubernetes) bothWays(a, b *pod) []*clustertest.Stream {
	k.t.Helper()
	return []*clustertest.Stream{k.Ping(a.Pod, b.Pod, subnet.IPv4), k.Ping(b.Pod, a.Pod, subnet.IPv4)}
}

func wantNoneLost(t *testing.T, pings []*clustertest.Stream) {
	t.Helper()
	for _, p := range pings {
		r := p.Stop()
		t.Log(r)
		if r.Lost > 0 {
			t.Error("pings were lost")
		}
	}
}

// awaitRestart waits until a container other than id is the node's daemon, and is
// ready.
func (k *kubernetes) awaitRestart(n *node, id string) {
	k.t.Helper()
	k.eventually(func() error {
		now := k.tulled(n).Status.ContainerStatuses
		if len(now) != 1 || strings.HasSuffix(now[0].ContainerID, id) || !now[0].Ready {
			return fmt.Errorf("tulled does not run again: %+v", now)
		}
		return nil
	})
	k.awaitTulle()
}

// findPodAfter waits until the pod runs again in another container.
func (k *kubernetes) findPodAfter(p *pod) *pod {
	k.t.Helper()
	k.eventually(func() error {
		var object podObject
		if err := k.tryGet("pod "+p.name, &object); err != nil {
			return err
		}
		if id := containerID(object, "pod"); id == "" || id == p.container {
			return fmt.Errorf("%s still runs in its first container", p.name)
		}
		return nil
	})
	return k.findPod(p.name)
}
