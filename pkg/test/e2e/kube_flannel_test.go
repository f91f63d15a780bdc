//go:build kube && flannel

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// startKubeFlannel runs flanneld on a host that has a Node, and waits until it
// handles its peers.
func (k *kubeWorld) startKubeFlannel(h *clustertest.Host) {
	k.t.Helper()
	found, err := flannel()
	if err != nil {
		k.t.Fatal(err)
	}
	d := h.Start(clustertest.Command{Argv: []string{found.Flanneld}, Env: []string{"NODE_NAME=" + h.Name}},
		"--kube-subnet-mgr", "--kubeconfig-file="+k.token(h).kubeconfig, "--net-config-path="+k.config, "--subnet-file="+h.SubnetFile)
	k.daemons[h] = d
	d.WaitLog("Running backend")
}

// flannelNotes returns flannel's annotations of all Nodes.
func (k *kubeWorld) flannelNotes(h *clustertest.Host) map[string]string {
	k.t.Helper()
	all := make(map[string]string)
	for name, value := range k.node(h.Name).Metadata.Annotations {
		if short, ok := strings.CutPrefix(name, notes); ok && !strings.HasPrefix(short, "tulle") {
			all[short] = value
		}
	}
	return all
}

// leadsToAll returns an error unless the kernel of a host has routes to all others.
func (k *kubeWorld) leadsToAll(h *clustertest.Host) error {
	text := h.Kernel()
	for _, peer := range k.Hosts {
		subnets, err := subnetsOf(peer)
		if err != nil {
			return err
		}
		for _, s := range subnets {
			if s.IsValid() && peer != h && !strings.Contains(text, s.String()+" via ") {
				return fmt.Errorf("%s has no route to %s", h.Name, s)
			}
		}
	}
	return nil
}

// TestKubeFlannel runs daemons of both kinds in one cluster. It replaces flanneld with
// tulled on a host, and tulled with flanneld again, under a flood of pings.
func TestKubeFlannel(t *testing.T) {
	for name, config := range map[string]string{
		"vxlan": network4, "vxlan of both": dualNetwork,
		"host-gw of both": strings.Replace(dualNetwork, "vxlan", "host-gw", 1),
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubeWorld(t, 4, config, false)
			one, tulles := k.Hosts[0], k.Hosts[2:]
			for _, h := range k.Hosts {
				k.register(h)
			}
			for _, h := range k.Hosts {
				k.given(h)
			}
			k.startKubeFlannel(one)
			k.startKubeFlannel(k.Hosts[1])
			for _, h := range tulles {
				k.start(h)
			}
			for _, h := range k.Hosts {
				h.AddPod()
			}
			k.reachTulle(tulles...)
			k.answers(one, k.Hosts[1])
			for _, h := range tulles {
				if log := k.daemons[h].Log(); strings.Contains(log, "Rejected a lease") || strings.Contains(log, "Peer unroutable") {
					t.Errorf("%s rejects leases of Nodes:\n%s", h.Name, log)
				}
			}
			var kernel string
			k.eventually(func() error {
				kernel = withoutWriter(one.Kernel())
				return k.leadsToAll(one)
			})
			said, key := k.flannelNotes(one), k.key(one)

			flood := k.floods(one)
			k.daemons[one].Kill()
			flood.more(1000)
			k.restart(one)
			flood.more(1000)
			flood.wantLost(0)
			// The annotations and the kernels include the tunnels' MACs.
			if now := k.flannelNotes(one); fmt.Sprint(now) != fmt.Sprint(said) || k.key(one) != key {
				t.Errorf("%s publishes %v, and %s published %v", k.key(one), now, key, said)
			}
			if now := withoutWriter(one.Kernel()); now != kernel {
				t.Errorf("the kernel holds\n%s\nand held\n%s", now, kernel)
			}
			k.reachTulle(tulles...)
			k.answers(one, k.Hosts[1])

			flood = k.floods(one)
			k.daemons[one].Stop()
			flood.more(1000)
			k.startKubeFlannel(one)
			k.eventually(func() error { return k.leadsToAll(one) })
			flood.more(1000)
			if strings.Contains(one.Kernel(), "flannel.1") {
				k.eventually(func() error { return rewritten(one) })
				one.NS.IP(t, "route flush proto 84")
				flood.more(1000)
			}
			flood.wantLost(0)
			if now := k.flannelNotes(one); fmt.Sprint(now) != fmt.Sprint(said) || k.key(one) != key {
				t.Errorf("%s publishes %v, and %s published %v", k.key(one), now, key, said)
			}
			if now := withoutWriter(one.Kernel()); now != kernel {
				t.Errorf("the kernel holds\n%s\nand held\n%s", now, kernel)
			}
			k.reachTulle(tulles...)
			subnets, err := subnetsOf(one)
			if err != nil {
				t.Fatal(err)
			}
			k.daemons[one].Kill()
			k.unregister(one.Name)
			k.eventually(func() error {
				for _, h := range tulles {
					if text := h.Kernel(); strings.Contains(text, subnets[subnet.IPv4].Addr().String()) {
						return fmt.Errorf("%s still has objects of the lease %s:\n%s", h.Name, key, text)
					}
				}
				return nil
			})
		})
	}
}
