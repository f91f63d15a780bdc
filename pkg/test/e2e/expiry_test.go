package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestExpiredLeasesAreReported cuts nodes off from etcd, and from nothing else, for
// longer than their leases last. Two are cut off at once: they keep each other's lease,
// and traffic between them continues. A third joins after that and is then cut off,
// too, so only the node that still reaches etcd knows it, and drops it. All report that
// they are not ready, and distinguish the two cases.
func TestExpiredLeasesAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, 1, vxlan)
	one, two, stays, late := w.Hosts[0], w.Hosts[1], w.Hosts[2], w.Hosts[3]
	start := func(h *clustertest.Host) {
		w.start(h, "--subnet-lease-ttl=2m", "--subnet-lease-renew-margin=1", "--probe-interval=1", "--healthz-port=10256")
	}
	for _, h := range w.Hosts {
		// The lab's default route is on the link, so hosts that have dropped each other
		// still resolve each other's overlay addresses by ARP.
		h.NS.IP(t, "route replace default via 198.18.254.254 dev "+clustertest.Uplink)
	}
	for _, h := range []*clustertest.Host{one, two, stays} {
		start(h)
	}
	for _, h := range []*clustertest.Host{one, two, stays} {
		h.AddPod()
	}
	w.Matrix()
	w.cutOff(one)
	w.cutOff(two)
	pings := w.PingEvery(one.Pods[0], two.Pods[0], subnet.IPv4, 100*time.Millisecond)
	start(late)
	late.AddPod()
	w.Reach(late.Pods[0], stays.Pods[0])
	leases := w.leases()
	w.cutOff(late)

	cut := []*clustertest.Host{one, two, late}
	for _, event := range []string{
		"Store operation failed", "Lease ended; no renewal reached the store in time",
		fmt.Sprintf(`"Probes of a peer fail" key=%q`, w.key(stays)), // for it has dropped them
	} {
		for _, h := range cut {
			w.daemons[h].WaitLog(event)
		}
	}
	for h, want := range map[*clustertest.Host]struct {
		peers string
		works bool
	}{
		one:  {"1 of the 2 peers probed since then still answer", true},
		two:  {"1 of the 2 peers probed since then still answer", true},
		late: {"no peer answers: they have dropped this node", false},
	} {
		w.saysLeaseEnded(h, want.peers, want.works)
	}
	w.browse(stays).shows("/metrics", 200, "\ntulle_ready 1\n", "\ntulle_peers 0\n")
	if r := pings.Stop(); r.Lost > 0 {
		t.Error(r)
	}

	for _, h := range cut {
		w.reconnect(h)
	}
	for _, h := range cut {
		w.daemons[h].WaitLog("Lease renewed after its end")
		w.browse(h).shows("/readyz", 200, "readyz check passed")
		w.browse(h).shows("/metrics", 200, "\ntulle_ready 1\n", `tulle_ready_check{check="lease"} 1`)
	}
	w.Matrix()
	w.sameLeases(leases)
}

// cutOff cuts a host off from etcd, in both directions.
func (w *world) cutOff(h *clustertest.Host) {
	w.t.Helper()
	h.Cut(w.EtcdHost().Addr[subnet.IPv4])
	w.EtcdHost().Cut(h.Addr[subnet.IPv4])
}

// reconnect undoes cutOff.
func (w *world) reconnect(h *clustertest.Host) {
	w.t.Helper()
	w.EtcdHost().Heal(h.Addr[subnet.IPv4])
	h.Heal(w.EtcdHost().Addr[subnet.IPv4])
}

// saysLeaseEnded checks that all reports of a node contain that its lease has ended,
// since when, and what its peers do. Only a node whose peers dropped it delays others.
func (w *world) saysLeaseEnded(h *clustertest.Host, peers string, works bool) {
	w.t.Helper()
	w.eventually(func() error {
		out, code := w.command(h, "status")
		for _, part := range []string{"NOT READY", "the lease ended ", "s ago: no renewal reached the store in time; " + peers} {
			if code != 1 || !strings.Contains(out, part) {
				return fmt.Errorf("status of %s exits with code %d, and lacks %q:\n%s", h.Name, code, part, out)
			}
		}
		return nil
	})
	var r status.Report
	if err := w.commandJSON(h, &r, "status"); err != nil {
		w.t.Fatal(err)
	}
	if r.Ready || !slices.Equal(r.Failing, []string{"lease"}) || len(r.Missing) != 1 || !strings.Contains(r.Missing[0], peers) || r.Checks.Started() != works {
		w.t.Errorf("%s reports %+v", h.Name, r)
	}
	b := w.browse(h)
	b.shows("/readyz", 503, "[-]lease failed: the lease ended ", peers, "[+]kernel ok")
	b.shows("/metrics", 200, "\ntulle_ready 0\n", `tulle_ready_check{check="lease"} 0`, `tulle_ready_check{check="kernel"} 1`)
	b.shows("/healthz", 200, "ok")
	b.shows("/statusz", 200, "Not ready", "the lease ended ", peers)
}
