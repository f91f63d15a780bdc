//go:build kube

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// lives waits until the daemons follow changes again, and checks that they logged each
// fault no more often than they may.
func (k *kubeWorld) lives(said map[*clustertest.Host]int) {
	k.t.Helper()
	k.follows()
	for _, h := range k.Hosts {
		k.says(h, "!NOT READY")
		k.storeWorks(h)
		// Both watches, the writer and the holder of the lease may each log it once for
		// each kind of reason.
		if n := k.storeFailures(h) - said[h]; n > 12 {
			k.t.Errorf("%s logged %d failing operations of the store:\n%s", h.Name, n, k.daemons[h].Log())
		}
	}
}

// storeFailures returns how many failing operations a daemon has logged.
func (k *kubeWorld) storeFailures(h *clustertest.Host) int {
	return strings.Count(k.daemons[h].Log(), "Store operation failed")
}

// underFaults injects faults into a network under pings, one after the other. No fault
// may lose a packet. After each, the kernels hold the same as before.
func underFaults(t *testing.T, k *kubeWorld, faults ...kubeFault) {
	t.Helper()
	keys, kernels := k.keys(), k.kernels()
	said, err := k.published()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			before := k.t
			k.t = t
			defer func() { k.t = before }()
			failures := make(map[*clustertest.Host]int)
			for _, h := range k.Hosts {
				failures[h] = k.storeFailures(h)
			}
			pings := k.everyPair()
			pings.more(10)
			f.happens(pings)
			k.lives(failures)
			k.samePublished(said)
			pings.more(10)
			pings.quiet(t)
			k.sameKeys(keys)
			k.eventually(func() error {
				if now := k.kernels(); now != kernels {
					return fmt.Errorf("the kernels hold\n%s\nand held\n%s", now, kernels)
				}
				return nil
			})
		})
		if t.Failed() {
			return
		}
	}
}

// kubeFault is a fault of a network.
type kubeFault struct {
	name    string
	happens func(pings *streams)
}

// quiet ends streams, none of which may have lost a request.
func (s *streams) quiet(t *testing.T) {
	t.Helper()
	sent := 0
	for _, each := range s.each {
		r := each.Stop()
		sent += r.Sent
		if r.Lost > 0 {
			t.Errorf("requests were lost: %s", r)
		}
	}
	t.Logf("%d pings in %d streams", sent, len(s.each))
}

// fails waits until tulled status on hosts reports that the store fails, with the
// reason.
func (k *kubeWorld) fails(hosts []*clustertest.Host, why string) {
	k.t.Helper()
	for _, h := range hosts {
		k.says(h, "failing:", why, "!NOT READY")
	}
}

// storeWorks waits until no operation of a host's store fails.
func (k *kubeWorld) storeWorks(h *clustertest.Host) {
	k.t.Helper()
	k.eventually(func() error {
		var r status.Report
		err := k.commandJSON(h, &r, "status")
		if err == nil && len(r.Store.Failing) > 0 {
			err = fmt.Errorf("%s: %v", h.Name, r.Store.Failing)
		}
		return err
	})
}

// TestKubeServerFaults injects faults of an API server, and of the path to it.
func TestKubeServerFaults(t *testing.T) {
	t.Parallel()
	k := newKubeNetwork(t, 3, dualNetwork, false)
	at := clustertest.EtcdAddrs(1)[0]
	one, two := k.Hosts[0], k.Hosts[1]
	underFaults(t, k,
		kubeFault{"killed", func(pings *streams) {
			k.api.Kill()
			k.fails(k.Hosts, "nothing listens")
			k.api.Restart()
		}},
		kubeFault{"killed, and the history forgotten", func(pings *streams) {
			k.api.Kill()
			k.api.Etcd.Compact()
			k.api.Restart()
		}},
		kubeFault{"etcd killed", func(pings *streams) {
			k.api.Etcd.Member(0).Kill()
			pings.more(300)
			k.api.Etcd.Member(0).Restart()
			k.api.Ready()
		}},
		kubeFault{"frozen", func(pings *streams) {
			k.api.Freeze()
			k.fails(k.Hosts, "no answer in time")
			k.api.Thaw()
		}},
		kubeFault{"cut off without a word", func(pings *streams) {
			one.Cut(at)
			k.fails([]*clustertest.Host{one}, "")
			k.stranger("unseen", 251)
			k.eventually(func() error { return k.hasOf(two, "10.5.251.0", true) })
			k.unregister("unseen")
			one.Heal(at)
		}},
		kubeFault{"not allowed", func(pings *streams) {
			for _, h := range k.Hosts {
				k.api.Allow("tulle-" + h.Name)
			}
			// A watch that has begun continues; writes are refused.
			k.annotate(one.Name, map[string]string{"tulle": "{}"})
			k.fails([]*clustertest.Host{one}, "the API server does not allow it")
			k.api.Kill()
			k.api.Restart()
			k.fails(k.Hosts, "the API server does not allow it")
			k.says(two, "get, list and watch nodes")
			for _, h := range k.Hosts {
				k.api.Allow("tulle-"+h.Name, kubeRules...)
			}
		}},
		kubeFault{"a daemon restarted while it is away", func(pings *streams) {
			k.eventually(func() error {
				_, err := os.Stat(two.StateDir + "/snapshot")
				return err
			})
			k.api.Kill()
			for _, h := range k.Hosts[1:] {
				k.daemons[h].Kill()
			}
			k.start(two).WaitLog("Store unreachable; using the saved network")
			k.says(two, "nothing listens", "!NOT READY")
			k.api.Restart()
			k.restart(k.Hosts[2])
		}},
	)
	sane(t, k)
}

// hasOf returns an error unless a host's kernel has an object of a subnet or, without
// want, has none.
func (k *kubeWorld) hasOf(h *clustertest.Host, subnet string, want bool) error {
	if text := h.Kernel(); strings.Contains(text, subnet) != want {
		return fmt.Errorf("%s holds\n%s", h.Name, text)
	}
	return nil
}

// TestKubeNodeFaults makes the changes to Nodes that people and controllers make.
func TestKubeNodeFaults(t *testing.T) {
	t.Parallel()
	k := newKubeNetwork(t, 3, dualNetwork, false)
	one, two := k.Hosts[0], k.Hosts[1]
	data := k.node(two.Name).Metadata.Annotations[notes+"backend-data"]
	again := func(h *clustertest.Host) []string { return k.node(h.Name).Spec.PodCIDRs }
	underFaults(t, k,
		kubeFault{"a stranger's garbled", func(pings *streams) {
			k.stranger("stranger2", 251)
			k.eventually(func() error { return k.allHave("10.5.251.0", true) })
			for _, bad := range []map[string]string{
				{"backend-data": "{"}, {"backend-data": strings.Repeat("x", 100<<10)}, {"public-ip": "nonsense"},
				{"backend-type": strings.Repeat("y", 100<<10)}, {"kube-subnet-manager": ""},
			} {
				k.annotate("stranger2", bad)
				k.follows()
			}
			k.unregister("stranger2")
			// It lingers, like every lease that disappears.
			k.eventually(func() error { return k.allHave("10.5.251.0", false) })
		}},
		kubeFault{"a Node of the same podCIDR", func(pings *streams) {
			k.makeNode("copy", map[string]string{
				notes + "kube-subnet-manager": "true", notes + "backend-type": "vxlan", notes + "public-ip": "198.18.0.252", notes + "public-ipv6": "fd00:18::fc",
				notes + "backend-data": data, notes + "backend-v6-data": data,
			}, nil, again(two)...)
			k.follows()
			k.unregister("copy")
		}},
		kubeFault{"deleted, and made again with the same podCIDR", func(pings *streams) {
			cidrs := again(one)
			k.unregister(one.Name)
			k.fails([]*clustertest.Host{one}, "Node host1 is gone")
			k.register(one, cidrs...)
			k.annotated(one.Name, "kube-subnet-manager", "true")
			k.available(one, true)
		}},
	)

	// A node restores its own annotations. While they are unreadable, its peers keep what
	// they read before.
	own := k.node(one.Name).Metadata.Annotations
	garble := func(pings *streams, all map[string]string) {
		for name, value := range all {
			k.annotate(one.Name, map[string]string{name: value})
			k.annotated(one.Name, name, own[notes+name])
		}
		pings.more(20)
		pings.wantLost(0)
		k.Matrix()
	}
	garble(k.everyPair(), map[string]string{
		"backend-data": "{", "backend-v6-data": strings.Repeat("x", 100<<10), "public-ip": "nonsense", "kube-subnet-manager": "false", "tulle": "x",
	})
	// Otherwise the peers trust the Node, and no other host is affected.
	garble(k.pings(two, k.Hosts[2]), map[string]string{
		"backend-type": "nonsense", "public-ip": "198.51.100.1", "backend-v6-data": "",
	})

	// The Node is deleted and re-created with another podCIDR. The daemon then uses
	// that one.
	was := k.node(one.Name).Spec.PodCIDRs
	pings := k.pings(two, k.Hosts[2])
	k.unregister(one.Name)
	k.register(one, "10.5.180.0/24", "fd00:5:0:180::/64")
	k.eventually(func() error {
		if now, err := subnetsOf(one); err != nil || now[subnet.IPv4].String() != "10.5.180.0/24" || now[subnet.IPv6].String() != "fd00:5:0:180::/64" {
			return fmt.Errorf("the subnet is %v: %v", now, err)
		}
		return nil
	})
	k.annotated(one.Name, "kube-subnet-manager", "true")
	k.daemons[one].WaitLog("SUBNET LOST")
	k.says(one, "NOT READY", "which is outside this node's subnet 10.5.180.0/24", "ip link delete cni0")
	for _, h := range k.Hosts[1:] {
		k.eventually(func() error { return k.hasOf(h, "10.5.180.0", true) })
		k.eventually(func() error { return k.hasOf(h, strings.TrimSuffix(was[0], "/24"), false) })
	}
	var events struct {
		Items []struct{ Reason, Message string }
	}
	k.eventually(func() error {
		if err := k.api.Try("GET", "/api/v1/namespaces/default/events", nil, &events); err != nil {
			return err
		}
		if text := fmt.Sprint(events.Items); !strings.Contains(text, "SubnetChanged") || !strings.Contains(text, "10.5.180.0") {
			return fmt.Errorf("the events are %s", text)
		}
		return nil
	})
	pings.wantLost(0)
	// Its containers are re-created.
	one.NS.IP(t, "link del cni0")
	one.NS.IP(t, "link del veth1")
	one.Pods = nil
	one.AddPod()
	k.Matrix()
	k.says(one, "!NOT READY")
	k.available(one, true)

	// People set public IPs and remove them.
	ip := func(h *clustertest.Host) string { return h.Addr[subnet.IPv4].String() }
	one.NS.IP(t, "addr add 198.18.0.201/16 dev eth0")
	pings = k.everyPair()
	k.annotate(one.Name, map[string]string{"public-ip-overwrite": "198.18.0.201"})
	k.annotated(one.Name, "public-ip", "198.18.0.201")
	k.eventually(func() error { return k.hasOf(two, "198.18.0.201", true) })
	k.annotate(one.Name, map[string]string{"public-ip-overwrite": ""})
	k.annotated(one.Name, "public-ip", ip(one))
	pings.more(20)
	pings.wantLost(0)
	// This one also becomes the source address, so the tunnels are re-created.
	k.annotate(one.Name, map[string]string{"node-public-ip": "198.18.0.201"})
	k.annotated(one.Name, "public-ip", "198.18.0.201")
	k.annotate(one.Name, map[string]string{"node-public-ip": "nonsense"})
	k.annotated(one.Name, "public-ip", ip(one))
	k.annotate(one.Name, map[string]string{"node-public-ip": ""})
	k.eventually(func() error { return k.hasOf(two, "198.18.0.201", false) })
	k.Matrix()

	// One family's podCIDR changes, and the other's stays.
	pings = k.pings(two, one)
	n := k.node(one.Name)
	k.unregister(one.Name)
	k.register(one, n.Spec.PodCIDRs[0], "fd00:5:0:181::/64")
	k.eventually(func() error {
		if now, err := subnetsOf(one); err != nil || now[subnet.IPv4].String() != "10.5.180.0/24" || now[subnet.IPv6].String() != "fd00:5:0:181::/64" {
			return fmt.Errorf("the subnet is %v: %v", now, err)
		}
		return nil
	})
	k.eventually(func() error { return k.hasOf(two, "fd00:5:0:181::", true) })
	if r := pings.each[subnet.IPv4].Stop(); r.Lost > 0 {
		t.Errorf("over IPv4, which did not change: %s", r)
	}
	pings.each[subnet.IPv6].Stop()

	// The config loses a family. The daemons need a restart to follow.
	k.configure(network4)
	for _, h := range k.Hosts {
		k.says(h, "restart needed")
		k.daemons[h].Stop()
	}
	pings = k.pings(two, k.Hosts[2])
	for _, h := range k.Hosts {
		k.restart(h)
		k.annotated(h.Name, "backend-v6-data", "")
		k.annotated(h.Name, "public-ipv6", "")
	}
	k.follows()
	if r := pings.each[subnet.IPv4].Stop(); r.Lost > 0 {
		t.Errorf("over IPv4, which did not change: %s", r)
	}
	pings.each[subnet.IPv6].Stop()
}
