package cloud

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func TestKindsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := Unavailable; k <= Full; k++ {
		err := fmt.Errorf("wrapped: %w", &Error{Kind: k, Action: "CreateRoute", Text: "no"})
		if KindOf(err) != k || seen[k.String()] || k.String() == "" {
			t.Errorf("%d: %s", k, KindOf(err))
		}
		seen[k.String()] = true
		if final := k != Unavailable && k != Pending; k.IsFinal() != final {
			t.Errorf("%s is final: %t", k, k.IsFinal())
		}
	}
	if KindOf(errors.New("connection refused")) != Unavailable {
		t.Error("an unknown error is not Unavailable")
	}
}

// TestOnlyEndedInstancesAreGone: an absent instance may only be too new, so it counts as
// neither shut down nor gone.
func TestOnlyEndedInstancesAreGone(t *testing.T) {
	for state, want := range map[State][2]bool{
		"": {}, Absent: {}, Starting: {}, Running: {}, Stopping: {}, Stopped: {true, false}, Terminating: {false, true}, Terminated: {false, true},
	} {
		if got := [2]bool{state.IsShutDown(), state.IsGone()}; got != want {
			t.Errorf("%q is shut down, gone: %v", state, got)
		}
	}
}

func TestRouteLeadsToItsInstance(t *testing.T) {
	i := Instance{ID: "i-1", Interface: "eni-1"}
	for _, test := range []struct {
		route Route
		want  bool
		text  string
	}{
		{Route{Kind: ToInterface, Instance: "i-1", Target: "eni-1", State: Active}, true, "i-1"},
		{Route{Kind: ToInterface, Target: "eni-1", State: Blackhole}, true, "eni-1 (blackhole)"},
		{Route{Kind: ToInterface, Instance: "i-1", Target: "eni-2"}, true, "i-1"},
		{Route{Kind: ToInterface, Instance: "i-2", Target: "eni-2"}, false, "i-2"},
		{Route{Kind: ToInterface, State: Blackhole}, false, "an unknown target (blackhole)"},
		{Route{Kind: ToGateway, Target: "igw-1"}, false, "igw-1"},
		{Route{Kind: ToGateway, Target: "eni-1", Instance: "i-1"}, false, "i-1"},
	} {
		if got := test.route.LeadsTo(i); got != test.want || test.route.String() != test.text {
			t.Errorf("%+v: %t, %q", test.route, got, test.route)
		}
	}
	if (Route{Kind: ToInterface}).LeadsTo(Instance{}) {
		t.Error("an empty ID is no target")
	}
}

func TestTableCountsByFamily(t *testing.T) {
	route := func(to string, o Origin) Route {
		p, _ := netip.ParsePrefix(to)
		return Route{Destination: p, To: to, Origin: o}
	}
	table := Table{
		Routes: []Route{route("10.0.0.0/16", WithTable), route("10.4.0.0/24", Created), route("10.4.1.0/24", Created), route("fd00::/64", Created), route("pl-1", Created), route("192.168.0.0/16", Propagated)},
		Quota:  Quota{Most: subnet.Pair[int]{subnet.IPv4: 5, subnet.IPv6: 1}},
	}
	for f, want := range [2][2]int{subnet.IPv4: {4, 1}, subnet.IPv6: {2, 0}} {
		n, known := table.Free(subnet.Family(f))
		if got := [2]int{table.Used(subnet.Family(f)), n}; got != want || !known {
			t.Errorf("%s: %v, want %v", subnet.Family(f), got, want)
		}
	}
	table.Quota = Quota{Most: subnet.Pair[int]{400, 400}, Shared: true}
	if n, known := table.Free(subnet.IPv6); table.Used(subnet.IPv4) != 5 || n != 395 || !known {
		t.Errorf("%d used, %d free", table.Used(subnet.IPv4), n)
	}
	table.Quota = Quota{}
	if _, known := table.Free(subnet.IPv4); known {
		t.Error("an unknown quota has a number of free routes")
	}
}

func TestRouteChangesReadAsSentences(t *testing.T) {
	c := RouteChange{
		Table: "rtb-1", Destination: netip.MustParsePrefix("10.4.7.0/24"), Instance: "i-7", Interface: "eni-7",
		Was: Route{Kind: ToInterface, Instance: "i-3", State: Blackhole},
	}
	for verb, want := range map[Verb]string{
		Add:     "add route 10.4.7.0/24 via i-7 to rtb-1",
		Replace: "replace route 10.4.7.0/24 via i-3 (blackhole) by i-7 in rtb-1",
		Remove:  "remove route 10.4.7.0/24 via i-3 (blackhole) from rtb-1",
	} {
		if c.Verb = verb; c.String() != want {
			t.Errorf("%s: %q", verb, c)
		}
	}
}
