package network

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestEndedLeaseFailsItsCheck views a node that was cut off from the store for longer
// than its lease lasts.
func TestEndedLeaseFailsItsCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*View)
		ready, started bool
		says           string
	}{
		"before its end":       {func(v *View) { v.LeaseEnds = v.At.Add(time.Second) }, true, true, ""},
		"without probes":       {func(*View) {}, false, false, "the lease ended 2m0s ago: no renewal reached the store in time; peers drop a node without a lease"},
		"no peer answers":      {func(v *View) { v.Probes = probedSince(0, 3) }, false, false, "no peer answers: they have dropped this node"},
		"some peers answer":    {func(v *View) { v.Probes = probedSince(2, 3) }, false, true, "2 of the 3 peers probed since then still answer"},
		"no peer probed since": {func(v *View) { v.Probes = probedSince(0, 0) }, false, false, "peers drop a node without a lease"},
		"a reservation":        {func(v *View) { v.Own.Expires = time.Time{} }, true, true, ""},
		"leases never end":     {func(v *View) { v.LeaseEnds = time.Time{} }, true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := wellView(t)
			v.Own.Expires, v.LeaseEnds = v.At, v.At.Add(-2*time.Minute)
			c.change(&v)
			agree(t, v)
			if ready, started := v.Checks().Ready(), v.Checks().Started(); ready != c.ready || started != c.started || !strings.Contains(v.Line(), c.says) {
				t.Errorf("ready %t, started %t: %s", ready, started, v.Line())
			}
		})
	}
}

// probedSince returns the findings of probes since the end of the lease.
func probedSince(passed, tried int) *probes {
	return &probes{of: func(string) (probe.Result, bool) { return probe.Result{}, false }, since: func(time.Time) (int, int) { return passed, tried }}
}

// TestEndedLeaseRemovesNothing lets a lease end while the store is away.
func TestEndedLeaseRemovesNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(2)
		var ends atomic.Pointer[time.Time]
		renew := func() { at := time.Now().Add(time.Hour); ends.Store(&at) }
		renew()
		l.leaseEnds = func() time.Time { return *ends.Load() }
		l.start()
		l.soon()
		l.wantReady(true)
		before := l.host.Snapshot().String()
		l.after(50 * time.Minute)
		renew()
		l.after(50 * time.Minute)
		l.wantLogged(0, "Lease ended")
		l.after(70 * time.Minute)
		l.wantReady(false, "not ready: the lease ended 1h0m")
		if after := l.host.Snapshot().String(); after != before {
			t.Errorf("the kernel holds\n%s\nand held\n%s", after, before)
		}
		l.wantLogged(1, "Lease ended; no renewal reached the store in time", l.own().Key()+`" ended="0s ago"`)
		renew()
		l.wantReady(true)
		l.after(expiryPoll)
		l.wantLogged(1, "Lease renewed after its end", l.own().Key())
		l.wantLogged(1, "Lease ended")
	})
}

func (l *life) wantLogged(times int, parts ...string) {
	l.t.Helper()
	if n := l.log.Count(parts...); n != times {
		l.t.Errorf("logged %d times, want %d: %q in\n%s", n, times, parts, l.log)
	}
}
