package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// TestCloneLeavesFirstHostAlone starts a clone of a host under a flood of pings.
// Later it gives the clone a machine-id of its own.
func TestCloneLeavesFirstHostAlone(t *testing.T) {
	t.Parallel()
	for name, copies := range map[string]func(from, to *clustertest.Host){
		"of an image":                        func(from, to *clustertest.Host) {},
		"with its state folder":              func(from, to *clustertest.Host) { copyState(t, from, to, false) },
		"with its state folder and hardware": func(from, to *clustertest.Host) { copyState(t, from, to, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, 1, vxlan)
			first, other, clone := w.Hosts[0], w.Hosts[1], w.Hosts[2]
			w.startClone(first)
			w.start(other)
			for _, h := range []*clustertest.Host{first, other} {
				h.AddPod()
				w.daemons[h].WaitLog("Kernel in sync with all peers")
			}
			w.Reach(first.Pods[0], other.Pods[0])
			w.Reach(other.Pods[0], first.Pods[0])
			w.daemons[first].Stop() // the daemon saves its snapshot
			w.startClone(first).WaitLog("Kernel in sync with all peers")
			leases := w.leases()
			flood := w.flood(first, other)
			flood.more(500)
			copies(first, clone)
			w.startClone(clone).WaitLog("Kernel in sync with all peers")
			flood.more(2000)
			for key, value := range leases {
				if now := w.leases()[key]; now != value {
					t.Errorf("the lease %s was %s and is %s", key, value, now)
				}
			}
			clone.AddPod()
			w.Matrix()
			w.wantClones(1, first, other, clone)
			if log := w.daemons[clone].Log(); strings.Count(log, sharedID) != 1 || !strings.Contains(log, `node="host3 (198.18.0.3)" other="host1 (198.18.0.1)"`) || !strings.Contains(log, "systemd-machine-id-setup") {
				t.Errorf("the clone logs\n%s", log)
			}
			if log := w.daemons[first].Log(); strings.Contains(log, sharedID) {
				t.Errorf("the first host logs\n%s", log)
			}
			w.wantCloneShown(clone, first)
			w.silent(first, "CLONE")

			// It keeps its identity.
			key := w.key(clone)
			w.daemons[clone].Stop()
			w.startClone(clone).WaitLog("Kernel in sync with all peers")
			w.wantClones(1, first, other, clone)
			w.wantCloneShown(clone, first)

			// With a machine-id of its own it keeps its subnet, and reports nothing more.
			w.daemons[clone].Stop()
			clone.SetMachineID(strings.Repeat("5", 32))
			d := w.startKnown(clone)
			d.WaitLog("Kernel in sync with all peers")
			w.wantClones(0, first, other, clone)
			w.silent(clone, "CLONE")
			if now := w.key(clone); now != key || strings.Contains(d.Log(), sharedID) {
				t.Errorf("with a machine-id of its own it has %s, and had %s; it logs\n%s", now, key, d.Log())
			}
			w.Matrix()
			flood.wantLost(0)
			w.wantHistory()
		})
	}
}

// wantCloneShown waits until the status of a clone names the host with the same ID.
func (w *world) wantCloneShown(clone, first *clustertest.Host) {
	w.t.Helper()
	w.says(clone, "CLONE", "another machine has this machine's ID: "+first.Name+" (198.18.0.1)", "systemd-machine-id-setup")
	w.eventually(func() error {
		var r status.Report
		if err := w.commandJSON(clone, &r, "status"); err != nil {
			return err
		}
		if c := r.Clone; c == nil || c.Name != first.Name || len(c.Addresses) != 1 || !strings.Contains(c.Fix, "systemd-machine-id-setup") || !strings.HasPrefix(r.NodeID, c.ID+"~") {
			return fmt.Errorf("the status of %s is %+v, %+v", clone.Name, r, c)
		}
		return nil
	})
}

// TestCloneWhileFirstHostIsDown starts a clone of a host that is down, and then that
// host. Both keep their leases in whatever order they restart.
func TestCloneWhileFirstHostIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, vxlan)
	first, other, clone := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	w.startClone(first)
	w.start(other)
	for _, h := range []*clustertest.Host{first, other} {
		h.AddPod()
	}
	w.Matrix()
	key := w.key(first)
	w.daemons[first].Kill()
	first.Unplug()
	w.startClone(clone).WaitLog("Kernel in sync with all peers")
	clone.AddPod()
	first.Plug()
	for _, order := range [][]*clustertest.Host{{first}, {clone}, {first, clone}, {clone, first}} {
		for _, h := range order {
			if w.daemons[h].Running() {
				w.daemons[h].Kill()
			}
		}
		for _, h := range order {
			w.startClone(h).WaitLog("Kernel in sync with all peers")
		}
		w.Matrix()
		w.wantClones(1, first, other, clone)
		if now := w.key(first); now != key {
			t.Errorf("the first host had %s and has %s", key, now)
		}
	}
	w.wantHistory()
}

// TestClonesAtOnce starts clones at the same time that wait for a config.
func TestClonesAtOnce(t *testing.T) {
	for _, hardware := range []bool{false, true} {
		t.Run(fmt.Sprintf("with state folder and hardware %t", hardware), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 8, 1, "")
			for _, h := range w.Hosts {
				h.SetMachineID(imageID)
			}
			if hardware {
				// One of them has run before, and has no lease.
				one := w.Hosts[0]
				w.startClone(one).WaitLog("Waiting for the network config")
				w.daemons[one].Stop()
				for _, h := range w.Hosts[1:] {
					copyState(t, one, h, true)
				}
			}
			t.Log(w.rushOf(dualConfig, func(h *clustertest.Host) { w.startClone(h) }))
			w.wantClones(len(w.Hosts)-1, w.Hosts...)
			w.wantHistory()
		})
	}
}

// TestClonesThatWantOthersAtOnce starts several clones at the same time with an etcd
// that lost its data. All had leases before. They do not compete for a key, so each
// publishes the shared ID and the MAC that derives from it. Only later do they find
// that out.
func TestClonesThatWantOthersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, 1, "")
	for _, h := range w.Hosts {
		env := fmt.Sprintf("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.%d.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n", 10*h.Number)
		if err := os.WriteFile(h.SubnetFile, []byte(env), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(w.rushOf(vxlan, func(h *clustertest.Host) { w.startClone(h) }))
	for _, h := range w.Hosts {
		if key, want := w.key(h), fmt.Sprintf("10.5.%d.0-24", 10*h.Number); key != want {
			t.Errorf("%s has %s, and had %s", h.Name, key, want)
		}
	}
	w.wantClones(len(w.Hosts)-1, w.Hosts...)
	w.wantHistory()
}

// TestCloneIgnoresCopiedSnapshot boots a clone with everything that the first host has,
// while etcd is down. The clone does not use the saved network, and so does not take
// that host's place.
func TestCloneIgnoresCopiedSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, vxlan)
	first, other, clone := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	w.startClone(first)
	w.start(other)
	for _, h := range []*clustertest.Host{first, other} {
		h.AddPod()
	}
	w.Matrix()
	w.daemons[first].Stop() // the daemon saves its snapshot
	w.startClone(first).WaitLog("Kernel in sync with all peers")
	flood := w.flood(first, other)
	w.etcd.Member(0).Stop()
	copyState(t, first, clone, true)
	d := w.startClone(clone)
	d.WaitLog("the node that saved it lives elsewhere")
	flood.more(500)
	w.etcd.Member(0).Restart()
	d.WaitLog("Kernel in sync with all peers")
	clone.AddPod()
	w.Matrix()
	flood.wantLost(0)
	w.wantClones(1, first, other, clone)
	w.wantHistory()
}

// TestFlannelsOfOneImage replaces flannel on three nodes that share a machine-id, one
// after another, under a flood of pings.
func TestFlannelsOfOneImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, vxlan)
	for _, h := range w.Hosts {
		h.SetMachineID(imageID)
	}
	w.layFlannel()
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	leases := w.leases()
	flood := w.flood(w.Hosts...)
	flood.more(200)
	for range 2 { // the second time, tulled replaces tulled
		for _, h := range []*clustertest.Host{w.Hosts[1], w.Hosts[0], w.Hosts[2]} {
			if d := w.daemons[h]; d != nil {
				d.Stop()
			}
			w.startKnown(h).WaitLog("Kernel in sync with all peers")
			flood.more(500)
		}
	}
	flood.wantLost(0)
	w.wantClones(2, w.Hosts...)
	now := w.leases()
	for key, value := range leases {
		if !strings.HasPrefix(now[key], strings.TrimSuffix(value, "}")) {
			t.Errorf("the lease %s was %s and is %s", key, value, now[key])
		}
	}
	w.Matrix()
	w.wantHistory()
}

// layFlannel sets each host up as flannel does.
func (w *world) layFlannel() {
	w.t.Helper()
	subnetOf := func(h *clustertest.Host) string { return fmt.Sprintf("10.5.%d.0", 10*h.Number) }
	mac := func(h *clustertest.Host) string { return fmt.Sprintf("3a:00:00:00:00:%02x", h.Number) }
	for _, h := range w.Hosts {
		at := h.Addr[0].String()
		w.lend(leasesKey+subnetOf(h)+"-24", fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"%s"}}`, at, mac(h)))
		h.NS.IP(w.t, fmt.Sprintf("link add flannel.1 address %s mtu 1450 type vxlan id 1 local %s dev %s dstport 8472 nolearning", mac(h), at, clustertest.Uplink))
		h.NS.IP(w.t, "addr add "+subnetOf(h)+"/32 dev flannel.1")
		h.NS.IP(w.t, "link set flannel.1 up")
		h.NS.Sysctl(w.t, "net/ipv4/ip_forward", "1")
		for _, peer := range w.Hosts {
			if peer == h {
				continue
			}
			h.NS.IP(w.t, "neigh replace "+subnetOf(peer)+" lladdr "+mac(peer)+" dev flannel.1 nud permanent")
			h.NS.Bridge(w.t, "fdb append "+mac(peer)+" dev flannel.1 dst "+peer.Addr[0].String())
			h.NS.IP(w.t, "route add "+subnetOf(peer)+"/24 via "+subnetOf(peer)+" dev flannel.1 onlink")
		}
		env := fmt.Sprintf("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=%s/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n", strings.TrimSuffix(subnetOf(h), "0")+"1")
		if err := os.WriteFile(h.SubnetFile, []byte(env), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}
