package cloudroute

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// hopTarget is the i-th instance of a cloud whose routes lead to addresses.
func hopTarget(i int, v4, v6 string) Target {
	t := target(i)
	for f, text := range []string{v4, v6} {
		if text != "" {
			t.NextHops[f] = netip.MustParseAddr(text)
		}
	}
	return t
}

// TestRoutesLeadToTheNextHopOfTheirFamily: a route leads to the instance's address of its
// family, also after that address has changed. The ledger names the address, so the routes of
// a machine that is gone stay ours.
func TestRoutesLeadToTheNextHopOfTheirFamily(t *testing.T) {
	w := newWorld(t, Options{}, "table")
	w.add(1, "10.0.1.0/24", "fd00:1::/64")
	w.add(2)
	w.SetTarget("worker-1", hopTarget(1, "10.9.0.1", "fd00:9::1"), w.now)
	w.SetTarget("worker-2", hopTarget(2, "10.9.0.2", ""), w.now)
	w.settle()
	w.wantStatus(1, Routed)
	w.want(map[string]string{"10.0.1.0/24": "10.9.0.1", "fd00:1::/64": "fd00:9::1", "10.0.2.0/24": "10.9.0.2"})
	for _, c := range w.made {
		if c.For != c.Node || c.For == "" {
			t.Errorf("%+v is for %q", c, c.For)
		}
	}
	w.SetTarget("worker-1", hopTarget(1, "10.9.0.7", "fd00:9::1"), w.now)
	for p, r := range w.tables["table"] {
		r.Instance = "" // Azure names none
		w.tables["table"][p] = r
	}
	w.readTables()
	w.settle()
	w.want(map[string]string{"10.0.1.0/24": "10.9.0.7", "fd00:1::/64": "fd00:9::1", "10.0.2.0/24": "10.9.0.2"})
	w.restart()
	w.remove(1)
	w.pass(lateTime)
	w.want(map[string]string{"10.0.2.0/24": "10.9.0.2"})
}

// TestAMissingNextHopIsAFinding: if the instance has no address of a range's family, that range
// is a finding. The range of the other family is routed.
func TestAMissingNextHopIsAFinding(t *testing.T) {
	w := newWorld(t, Options{}, "table")
	w.add(1, "10.0.1.0/24", "fd00:1::/64")
	w.SetTarget("worker-1", hopTarget(1, "10.9.0.1", ""), w.now)
	w.settle()
	w.wantStatus(1, NoAddress)
	if text := w.Status("worker-1").Text; !strings.Contains(text, "needs an address of "+subnet.IPv6.String()+" on the primary interface of i-1") {
		t.Error(text)
	}
	w.want(map[string]string{"10.0.1.0/24": "10.9.0.1"})
}
