package network

import (
	"fmt"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// heal is how long it takes to restore an object that another program deleted.
type heal struct {
	what  string
	peers int
	took  sample
}

func measureHeals(t *testing.T, s scale) []heal {
	var all []heal
	for _, peers := range []int{min(10, s.most), s.most} {
		kinds := []netstate.Kind{netstate.KindRoute, netstate.KindNeigh, netstate.KindFDB, netstate.KindAddr, netstate.KindLink}
		for _, kind := range kinds {
			s.progress("healing: %s, %d peers", kind, peers)
			h := heal{what: kind.String(), peers: peers}
			t.Run(fmt.Sprintf("heal %s %d", kind, peers), func(t *testing.T) { h.measure(t, kind, s.each) })
			if t.Failed() {
				return nil
			}
			all = append(all, h)
		}
	}
	return all
}

// measure damages a host that many times.
func (m *heal) measure(t *testing.T, kind netstate.Kind, times int) {
	h := newBenchHost(t, "vxlan")
	h.start()
	leases := h.crowd(1, m.peers)
	h.peers.Update(subnet.Update{Complete: true, Leases: leases})
	h.synced()
	entries := h.entries(leases, m.peers > 1000)
	var victims []netstate.Object
	for _, o := range append(h.backend.Host(h.own), entries...) {
		if o.Key().Kind == kind {
			victims = append(victims, o)
		}
	}
	for i := range times {
		m.took = append(m.took, h.heal(victims[i%len(victims)]))
		if kind == netstate.KindLink || kind == netstate.KindAddr {
			h.want(entries) // everything that was deleted with it is restored
			// The budget allows one expensive repair a second.
			<-time.After(max(budget.Turn, 5*h.loop.Status().ResyncTook))
		}
	}
	h.want(entries)
}

// heal deletes o as another program would, and returns the time from then until
// everything is restored.
func (h *benchHost) heal(o netstate.Object) time.Duration {
	h.t.Helper()
	healed := h.tap.await(o.Key())
	start := time.Now()
	h.apply(netstate.Delete, []netstate.Object{o})
	select {
	case <-healed:
	case <-time.After(20 * time.Second):
		h.t.Fatalf("%s is not back: %+v", o, h.loop.Status())
	}
	h.synced()
	return h.tap.lastApplied().Sub(start)
}
