package e2e

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// TestStandingFaultsAreNamed runs daemons with faults that are not on the path to one
// peer.
func TestStandingFaultsAreNamed(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, vxlan)
	here, there := w.Hosts[0], w.Hosts[1]
	timed := func(name string, h int, words ...string) {
		t.Helper()
		began := time.Now()
		w.says(w.Hosts[h], words...)
		t.Logf("%s: named after %.1f s", name, time.Since(began).Seconds())
	}

	// The other hosts cannot reach its interface.
	third := w.AddHosts(1)[0]
	third.NS.IP(t, "link add lan1 type veth peer name lan2")
	third.NS.IP(t, "addr add 198.19.50.1/24 dev lan1")
	third.NS.IP(t, "link set lan1 up")
	third.NS.IP(t, "link set lan2 up")
	// eth0 neither answers ARP requests for the address of lan1, nor sends them from it.
	third.NS.Sysctl(t, "net/ipv4/conf/all/arp_ignore", "1")
	third.NS.Sysctl(t, "net/ipv4/conf/all/arp_announce", "2")
	w.start(third, "--iface=lan1")
	timed("wrong interface", 2, "no peer answers: this host sends to them through eth0, but its uplink is lan1 with 198.19.50.1", "--iface")
	w.daemons[third].Stop()
	w.delete(leasesKey + w.key(third))

	// A foreign tunnel has the VNI and port of ours.
	fourth := w.AddHosts(1)[0]
	fourth.NS.IP(t, "link add overlay0 type vxlan id 1 dstport 8472 local 198.18.0.9 nolearning")
	w.start(fourth)
	timed("foreign vxlan", 3, "another device has VNI 1 on port 8472; find it with «ip -d link show type vxlan»")

	// Another node keeps this node's subnet.
	key := leasesKey + w.key(there)
	w.daemons[there].Freeze()
	w.delete(key)
	w.lend(key, `{"PublicIP":"198.18.0.77","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}}`)
	w.daemons[there].Thaw()
	timed("lease lost", 1, "outside this node's subnet")

	// Docker sets this policy, and tulled may not change it.
	w.daemons[here].Stop()
	if out, err := here.NS.Command("iptables", "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.start(here, "--iptables-forward-rules=false")
	timed("Docker DROP", 0, "FORWARD", "foreign")
	_ = subnet.IPv4
}
