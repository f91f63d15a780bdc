//go:build kube

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// TestKubeHostsJoinTheNetwork joins the hosts of a cluster to its network, in flannel's format.
func TestKubeHostsJoinTheNetwork(t *testing.T) {
	t.Parallel()
	k := newKubeNetwork(t, 3, dualNetwork, false)
	for _, h := range k.Hosts {
		subnets, err := subnetsOf(h)
		if err != nil {
			t.Fatal(err)
		}
		n := k.node(h.Name)
		if want := fmt.Sprintf("%s,%s", subnets[subnet.IPv4], subnets[subnet.IPv6]); want != strings.Join(n.Spec.PodCIDRs, ",") {
			t.Errorf("%s leased %s, and its podCIDRs are %v", h.Name, want, n.Spec.PodCIDRs)
		}
		mac := func(link string) string {
			_, rest, _ := strings.Cut(h.NS.IP(t, "-o link show dev "+link), "link/ether ")
			word, _, _ := strings.Cut(rest, " ")
			return word
		}
		for name, want := range map[string]string{
			"kube-subnet-manager": "true", "backend-type": "vxlan",
			"backend-data":    `{"VNI":1,"VtepMAC":"` + mac("tulle.1") + `"}`,
			"backend-v6-data": `{"VNI":1,"VtepMAC":"` + mac("tulle6.1") + `"}`,
			"public-ip":       h.Addr[subnet.IPv4].String(), "public-ipv6": h.Addr[subnet.IPv6].String(),
		} {
			if got := n.Metadata.Annotations[notes+name]; got != want {
				t.Errorf("%s of %s is %s, and not %s", name, h.Name, got, want)
			}
		}
	}
	one := k.Hosts[0]
	k.says(one, "ready", "host1", "peers:", "in sync", "default route")
	k.storeWorks(one)
	k.browse(one).shows("/readyz", 200, "readyz check passed")
	k.follows()
	out, code := k.command(one, "leases", "--kube-subnet-mgr", "--kubeconfig-file="+k.token(one).kubeconfig, "--net-config-path="+k.config)
	for _, h := range k.Hosts {
		if subnets := strings.Join(k.node(h.Name).Spec.PodCIDRs, " "); code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), subnets+" "+h.Name) {
			t.Errorf("tulled leases exits with code %d, and does not list %s of %s:\n%s", code, subnets, h.Name, out)
		}
	}
	k.unregister(known)
	k.eventually(func() error { return k.allHave("10.5.250.0", false) })

	// Changes of the file take effect without a restart.
	pings := k.everyPair()
	k.configure(strings.Replace(dualNetwork, `"vxlan"`, `"vxlan", "DirectRouting": true`, 1))
	k.eventually(func() error {
		for i, h := range k.Hosts {
			subnets, err := subnetsOf(k.Hosts[(i+1)%3])
			if err != nil {
				return err
			}
			if text := h.Kernel(); !strings.Contains(text, fmt.Sprintf("route unicast %s via %s dev eth0", subnets[subnet.IPv4], k.Hosts[(i+1)%3].Addr[subnet.IPv4])) {
				return fmt.Errorf("%s holds\n%s", h.Name, text)
			}
		}
		return nil
	})
	k.configure("{")
	for _, h := range k.Hosts {
		k.daemons[h].WaitLog("Network config unusable; keeping the previous one")
	}
	pings.more(20)
	pings.wantLost(0)

	// The daemon rejects a network that does not contain the podCIDRs.
	keys := k.keys()
	k.configure(strings.Replace(dualNetwork, "10.5.0.0/16", "10.77.0.0/16", 1))
	k.says(one, "restart needed", "does not allow this node's subnet")
	k.sameKeys(keys)
	k.configure(dualNetwork)
	k.says(one, "!restart needed")
	k.Matrix()
	k.sameKeys(keys)
}

// TestKubeWaitsForItsPodCIDR checks that a daemon waits for a Node, then for a podCIDR,
// and then for one inside the network. Meanwhile it is not ready and reports the
// reason. It continues as soon as it can.
func TestKubeWaitsForItsPodCIDR(t *testing.T) {
	t.Parallel()
	k := newKubeWorld(t, 2, dualNetwork, false)
	one, two := k.Hosts[0], k.Hosts[1]
	waits := func(parts ...string) {
		t.Helper()
		k.says(one, append(parts, "NOT READY")...)
		k.browse(one).shows("/readyz", 503, "lease failed")
		if _, code := k.command(one, "status"); code == 0 {
			t.Error("status exits with code 0")
		}
	}
	k.start(one)
	waits("there is no Node host1", "NODE_NAME")

	// Without a controller's podCIDR: in one family only, as in a cluster of IPv4.
	k.register(one, "10.5.200.0/24")
	waits("host1 has no IPv6 podCIDR", "--allocate-node-cidrs", "--cluster-cidr", "kubectl patch node host1")
	k.unregister(one.Name)
	k.register(one, "10.9.1.0/24", "fd00:5:0:77::/64")
	waits("10.9.1.0/24", "10.5.0.0/16", "--cluster-cidr")
	if n := k.node(one.Name); n.Metadata.Annotations[notes+"kube-subnet-manager"] != "" {
		t.Errorf("it publishes a lease that it cannot have: %v", n.Metadata.Annotations)
	}
	k.unregister(one.Name)
	k.register(one) // the cluster assigns some
	k.register(two)
	k.start(two)
	one.AddPod()
	two.AddPod()
	k.Matrix()
	k.available(one, true)
	k.says(one, "ready", "in sync")
}
