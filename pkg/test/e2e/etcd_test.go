package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// sameLeases waits until etcd has exactly these keys.
func (w *world) sameLeases(want map[string]string) {
	w.t.Helper()
	w.eventually(func() error {
		now, err := w.readLeases()
		if err != nil {
			return err
		}
		for key, value := range want {
			if now[key] != value {
				return fmt.Errorf("%s is %q and was %q", key, now[key], value)
			}
		}
		if len(now) != len(want) {
			return fmt.Errorf("the keys are %v, and were %v", now, want)
		}
		return nil
	})
}

// follows checks that the daemons follow changes in etcd: the routes of a node appear
// and disappear with its lease.
func (w *world) follows() {
	w.t.Helper()
	const subnets = "10.5.250.0"
	w.lend(leasesKey+subnets+"-24", `{"PublicIP":"198.18.0.250","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:fa"}}`)
	w.eventually(func() error { return w.allHave(subnets, true) })
	w.delete(leasesKey + subnets + "-24")
	w.eventually(func() error { return w.allHave(subnets, false) })
}

// allHave returns an error unless every kernel has an object of the subnet, or, without
// want, no kernel has one.
func (w *world) allHave(subnets string, want bool) error {
	for _, h := range w.Hosts {
		if text := h.Kernel(); strings.Contains(text, subnets) != want {
			return fmt.Errorf("%s holds\n%s", h.Name, text)
		}
	}
	return nil
}

// TestEtcdStopped stops etcd for a minute. No packet is lost, and the network
// continues when etcd is back.
func TestEtcdStopped(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, dualConfig)
	leases, kernels := w.leases(), w.kernels()
	pings := w.pings(w.Hosts[0], w.Hosts[1])
	w.etcd.Member(0).Stop()
	for range 6 {
		pings.more(1000) // a request is sent every 10 ms
	}
	if now := w.kernels(); now != kernels {
		t.Errorf("with etcd away the kernels hold\n%s\nand held\n%s", now, kernels)
	}
	w.etcd.Member(0).Restart()
	w.follows()
	pings.wantLost(0)
	w.sameLeases(leases)
	for _, h := range w.Hosts {
		// There is one line for each operation and hint, however often the operation
		// was retried. The number of hints depends on how the last calls failed.
		logged := make(map[string]int)
		for line := range strings.Lines(w.daemons[h].Log()) {
			if _, failure, ok := strings.Cut(line, `"Store operation failed; retrying"`); ok {
				hint, _, _ := strings.Cut(failure, " (")
				logged[hint]++
			}
		}
		if len(logged) == 0 || slices.Max(slices.Collect(maps.Values(logged))) > 1 {
			t.Errorf("%s logged these failures: %v\n%s", h.Name, logged, w.daemons[h].Log())
		}
	}
}

// TestEtcdFrozen freezes etcd, which then accepts connections and never answers.
func TestEtcdFrozen(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, dualConfig)
	leases := w.leases()
	pings := w.pings(w.Hosts[0], w.Hosts[1])
	w.etcd.Member(0).Freeze()
	w.daemons[w.Hosts[0]].WaitLog("Store operation failed")
	w.etcd.Member(0).Thaw()
	w.follows()
	pings.wantLost(0)
	w.sameLeases(leases)
}

// TestLeaderLost kills the leader of three members. Once it is back, the test freezes
// another.
func TestLeaderLost(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 3, dualConfig)
	leases := w.leases()
	pings := w.pings(w.Hosts[0], w.Hosts[1])
	leader := w.etcd.Leader()
	leader.Kill()
	w.follows()
	leader.Restart()
	next := w.etcd.Leader()
	next.Freeze()
	w.follows()
	next.Thaw()
	w.follows()
	pings.wantLost(0)
	w.sameLeases(leases)
}

// TestPartitionedNodeCatchesUp cuts one node off from etcd and from nothing else.
// Meanwhile a peer joins, and etcd compacts the history that the node missed.
func TestPartitionedNodeCatchesUp(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	leases := w.leases()
	one := w.Hosts[0]
	pings := w.pings(one, w.Hosts[1])
	at := clustertest.EtcdAddrs(1)[0]
	one.Cut(at)
	w.lend(leasesKey+"10.5.251.0-24", `{"PublicIP":"198.18.0.251","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:fb"}}`)
	w.daemons[one].WaitLog("Store operation failed")
	w.delete(leasesKey + "10.5.251.0-24")
	w.etcd.Compact()
	one.Heal(at)
	w.follows()
	pings.wantLost(0)
	w.sameLeases(leases)
	if err := w.allHave("10.5.251.0", false); err != nil {
		t.Error(err)
	}
}

// TestEtcdEmptied deletes all leases, then all of etcd's data, and then restores an
// old backup. Every node gets its subnet again, and no packet is lost.
func TestEtcdEmptied(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, vxlan)
	leases := w.leases()
	backup := w.etcd.Snapshot()
	pings := w.pings(w.Hosts[0], w.Hosts[1])

	w.delete(leasesKey, clientv3.WithPrefix())
	w.sameLeases(leases)

	own := w.key(w.Hosts[2])
	w.delete(leasesKey + own)
	w.sameLeases(leases)

	// Writes after the backup are lost.
	w.lend(leasesKey+"10.5.252.0-24", `{"PublicIP":"198.18.0.252","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:fc"}}`)
	w.eventually(func() error { return w.allHave("10.5.252.0", true) })
	w.etcd.Restore(backup)
	w.sameLeases(leases)
	w.eventually(func() error { return w.allHave("10.5.252.0", false) })
	w.follows()

	w.etcd.Wipe()
	w.eventually(func() error { _, err := w.readLeases(); return err })
	w.put(configKey, vxlan)
	w.sameLeases(leases)
	w.follows()
	pings.wantLost(0)
	w.Matrix()
}

// TestInvalidKeysHarmNoLease writes keys and values into the network that a node never
// writes.
func TestInvalidKeysHarmNoLease(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	one := w.Hosts[0]
	own := w.key(one)
	subnets, err := subnet.ParseKey(own)
	if err != nil {
		t.Fatal(err)
	}
	inside := fmt.Sprintf("%s-25", subnets[subnet.IPv4].Addr())
	attrs := `{"PublicIP":"198.18.0.240","PublicIPv6":"fd00:18::f0","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:f0"},"BackendV6Data":{"VNI":1,"VtepMAC":"3a:00:00:00:00:f1"}}`
	leases, kernels := w.leases(), w.kernels()
	pings := w.pings(one, w.Hosts[1])
	// With the one below, these are at most the ten that the log names individually.
	rubbish := []struct{ key, value string }{
		{"10.5.201.0-24&fd00:5:0:201::-64", "not JSON"},
		{"10.5.202.0-24&fd00:5:0:202::-64", `{"PublicIP":"nonsense"}`},
		{"10.5.203.0-24&fd00:5:0:203::-64", strings.Repeat("x", 1e6)},
		{"10.5.204.0-24&fd00:5:0:204::-64", strings.ReplaceAll(attrs, "3a:00:00:00:00:f0", "ff:ff:ff:ff:ff:ff")},
		{"stray", "key"},
		{"0.0.0.0-0", attrs},
		{inside, attrs},
		{"10.5.0.0-16&fd00:5::-48", attrs},
		{"10.5.205.0-24&fd00:5:0:205::-64", strings.NewReplacer("198.18.0.240", "198.18.0.1", "fd00:18::f0", "fd00:18::1").Replace(attrs)},
		{"10.5.206.0-24&fd00:5:0:206::-64", strings.ReplaceAll(attrs, "198.18.0.240", "10.5.206.1")},
	}
	// This replaces the lease of a living node, which writes it again. Its peers keep
	// the lease that they read before.
	w.put(leasesKey+own, "not JSON")
	for _, h := range w.Hosts[1:] {
		w.daemons[h].WaitLog(fmt.Sprintf("key=%q", own))
	}
	w.sameLeases(leases)
	for _, r := range rubbish {
		w.lend(leasesKey+r.key, r.value)
	}
	for _, h := range w.Hosts {
		for _, r := range rubbish {
			if h != one && (strings.Contains(r.key, ":205::") || r.key == inside) {
				continue // invalid for the first host alone; the others take it for a node that joined later
			}
			w.daemons[h].WaitLog(fmt.Sprintf("key=%q", r.key))
		}
	}
	// Each host logs each rejection once, also after a restart.
	w.daemons[one].Kill()
	w.restart(one)
	pings.more(20)
	pings.wantLost(0)
	for _, r := range rubbish {
		w.delete(leasesKey + r.key)
	}
	w.eventually(func() error {
		if now := w.kernels(); now != kernels {
			return fmt.Errorf("the kernels hold\n%s\nand held\n%s", now, kernels)
		}
		return nil
	})
	w.sameLeases(leases)
	for _, h := range w.Hosts[1:] {
		for _, r := range rubbish {
			lines := 0
			for line := range strings.Lines(w.daemons[h].Log()) {
				// Another line reports that no host answers there.
				if strings.Contains(line, fmt.Sprintf("key=%q", r.key)) && !strings.Contains(line, "Probes of a peer") {
					lines++
				}
			}
			if lines > 1 {
				t.Errorf("%s logged %d lines about %s:\n%s", h.Name, lines, r.key, w.daemons[h].Log())
			}
		}
	}
}

// TestOneAddressTwiceIsReported starts a second host with the public IP of a living one. The
// daemon reports that, and changes nothing of the first.
func TestOneAddressTwiceIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, vxlan)
	for _, h := range w.Hosts[:2] {
		w.start(h)
	}
	for _, h := range w.Hosts[:2] {
		h.AddPod()
	}
	w.Matrix()
	leases := w.leases()
	pings := w.pings(w.Hosts[0], w.Hosts[1])
	d := w.start(w.Hosts[2], "--public-ip=198.18.0.1")
	d.WaitLog("another node has this node's public IP")
	pings.more(50)
	pings.wantLost(0)
	if now := w.leases(); !maps.Equal(now, leases) {
		t.Errorf("the keys are %v, and were %v", now, leases)
	}
	// With another address, it joins.
	d.Stop()
	w.start(w.Hosts[2])
	w.Hosts[2].AddPod()
	w.Matrix()
}

// TestReservationIsUsedAndStays reserves a subnet for a node's address. The node uses it, and it
// stays a reservation.
func TestReservationIsUsedAndStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, vxlan)
	w.put(leasesKey+"10.5.111.0-24", `{"PublicIP":"198.18.0.1"}`)
	for _, h := range w.Hosts {
		w.start(h)
	}
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	if key := w.key(w.Hosts[0]); key != "10.5.111.0-24" {
		t.Errorf("the node leased %s", key)
	}
	w.ask(func(ctx context.Context) error {
		r, err := w.client.Get(ctx, leasesKey+"10.5.111.0-24")
		if err == nil && (len(r.Kvs) != 1 || r.Kvs[0].Lease != 0) {
			t.Errorf("the reservation is %v", r)
		}
		return err
	})
}

// TestSubnetTaken gives a node's key to another living node. The daemon yields,
// reports it, and restarts with another subnet.
func TestSubnetTaken(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, vxlan)
	one := w.Hosts[0]
	own := w.key(one)
	w.lend(leasesKey+own, `{"PublicIP":"198.18.0.240","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:f0"}}`)
	w.daemons[one].WaitLog("SUBNET LOST")
	w.daemons[one].WaitLog("SUBNET CHANGED")
	w.eventually(func() error {
		if now := w.key(one); now == own {
			return fmt.Errorf("the env file still has %s", own)
		}
		return nil
	})
	// The bridge still has the old subnet, and the log names the fix.
	w.daemons[one].WaitLog("ip link delete cni0")
}

// TestRebootWithoutEtcd boots a host while etcd is down. The host keeps its subnet and
// reaches its peers.
func TestRebootWithoutEtcd(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	one := w.Hosts[0]
	leases, key := w.leases(), w.key(one)
	w.daemons[one].Stop() // the daemon saves its snapshot
	before := one.Kernel()
	w.etcd.Member(0).Stop()
	reboot(t, one)
	w.start(one).WaitLog("Store unreachable; using the saved network")
	w.eventually(func() error {
		if now := one.Kernel(); now != before {
			return fmt.Errorf("the kernel holds\n%s\nand held\n%s", now, before)
		}
		return nil
	})
	w.Matrix()
	if now := w.key(one); now != key {
		t.Errorf("the subnet was %s and is %s", key, now)
	}
	pings := w.pings(one, w.Hosts[1])
	w.etcd.Member(0).Restart()
	w.follows()
	pings.wantLost(0)
	w.sameLeases(leases)
}

// reboot removes from a host what a reboot removes, except for its pods.
func reboot(t *testing.T, h *clustertest.Host) {
	t.Helper()
	for _, link := range []string{"tulle.1", "tulle6.1"} {
		h.NS.IP(t, "link delete "+link)
	}
	remove(t, h.SubnetFile)
	remove(t, h.CNIConfFile)
}

// TestEtcdReturnsEmpty stops etcd for so long that nodes rarely try to reach it, and
// brings it back without data. All nodes notice that early enough to write their leases
// again before a peer drops one of them.
func TestEtcdReturnsEmpty(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 4, 1, vxlan)
	leases := w.leases()
	var pings []*streams
	for i := range w.Hosts {
		pings = append(pings, w.pings(w.Hosts[i], w.Hosts[(i+1)%len(w.Hosts)]))
	}
	w.etcd.Member(0).Stop()
	pings[0].more(4000) // a request is sent every 10 ms
	w.etcd.Wipe()
	w.eventually(func() error { _, err := w.readLeases(); return err })
	w.put(configKey, vxlan)
	w.sameLeases(leases)
	pings[0].more(100)
	for _, s := range pings {
		s.wantLost(0)
	}
}
