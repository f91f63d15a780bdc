package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
)

func garbage(from, to int) (all []*subnet.LeaseError) {
	for i := from; i < to; i++ {
		all = append(all, &subnet.LeaseError{Key: fmt.Sprintf("garbage-%d", i), Err: subnet.ErrKey})
	}
	return all
}

func TestRejectionsAreLoggedInBounds(t *testing.T) {
	for name, update := range map[string]func(table *subnet.Table, to func(subnet.Changes)){
		"at once": func(table *subnet.Table, to func(subnet.Changes)) {
			to(table.Apply(subnet.Update{Complete: true, Bad: garbage(0, 50000)}))
		},
		"one by one": func(table *subnet.Table, to func(subnet.Changes)) {
			for i := range 50000 {
				to(table.Apply(subnet.Update{Bad: garbage(i, i+1)}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				log := logtest.Capture(t, 0)
				table := subnet.NewTable(subnet.Config{}, subnet.Lease{})
				var r rejections
				take := func(c subnet.Changes) { r.log(c.Rejected, table.CountRejected(), time.Now()) }
				update(table, take)
				if n := table.CountRejected(); n != 50000 {
					t.Errorf("%d rejected", n)
				}
				few, more := log.Count("Rejected a lease"), log.Count("Rejected more leases")
				if few != fewRejected || more < 1 || more > 20 {
					t.Errorf("logged %d, and %d times how many", few, more)
				}
				<-time.After(rejectionPause)
				take(table.Apply(subnet.Update{})) // nothing new
				take(table.Apply(subnet.Update{Bad: []*subnet.LeaseError{{Key: "10.5.1.0-24", Err: errors.New("new")}}}))
				if n := log.Count("Rejected"); n > few+more+2 {
					t.Errorf("logged %d times after a pause", n-few-more)
				}
				take(table.Apply(subnet.Update{Complete: true}))
				if n := table.CountRejected(); n != 0 {
					t.Errorf("%d rejected of none", n)
				}
			})
		})
	}
}

func TestGarbageKeepsReportAndMemorySmall(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	p := &peerSet{table: subnet.NewTable(subnet.Config{}, subnet.Lease{})}
	p.table.Apply(subnet.Update{Complete: true, Bad: garbage(0, 50000)})
	grown := heap() - before
	v := View{Peers: p.view(withoutPeers)}
	v.Peers.Known = false // there is no backend
	r := v.Report()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("50,000 garbage keys: %d KiB of memory, %d bytes of status", grown>>10, len(text))
	if r.RejectedCount != 50000 || len(r.Rejected) != fewRejected || len(text) > 5000 || grown > 4<<20 {
		t.Errorf("%d rejected, %d listed, %d bytes of status, %d bytes of memory", r.RejectedCount, len(r.Rejected), len(text), grown)
	}
	runtime.KeepAlive(p)
}

// TestWidenedNetworkTakesAllLeases checks that leases outside the network, which are
// only counted, all become peers when the config widens the network to them.
func TestWidenedNetworkTakesAllLeases(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const outside = 250
		l := newLife(t, plainConfig)
		for i := range outside {
			p := fakePeer(t, fmt.Sprintf("10.4.%d.0-24", i), fmt.Sprintf("198.18.4.%d", i+1), fmt.Sprintf("3a:00:00:00:04:%02x", i), 0)
			p.Node.ID, p.Expires = fmt.Sprintf("outside-%d", i), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
			l.store.Put(p)
		}
		l.peer(2)
		l.start()
		l.soon()
		l.wantReady(true, "1 peers")
		if r := l.view().Report(); r.RejectedCount != outside || len(r.Rejected) != fewRejected {
			t.Errorf("%d rejected, %d listed", r.RejectedCount, len(r.Rejected))
		}
		l.store.SetConfig(strings.Replace(plainConfig, "10.5.0.0/16", "10.4.0.0/15", 1))
		l.soon()
		l.wantReady(true, fmt.Sprintf("%d peers", outside+1))
		l.wantRoute("10.4.249.0/24", true)
		if n := l.view().Report().RejectedCount; n != 0 {
			t.Errorf("%d rejected of none", n)
		}
	})
}
