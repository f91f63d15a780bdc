package subnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSharedIDStripsCloneSuffix(t *testing.T) {
	const suffix = "0123456789abcdef"
	for id, want := range map[string]string{
		"":                                    "",
		"8f3c":                                "8f3c",
		CloneID("8f3c", suffix):               "8f3c",
		"8f3c~0123456789abcde":                "8f3c~0123456789abcde",
		"8f3c~0123456789abcdeg":               "8f3c~0123456789abcdeg",
		"8f3c-0123456789abcdef":               "8f3c-0123456789abcdef",
		CloneID("", suffix):                   CloneID("", suffix),
		CloneID("a~b", suffix):                "a~b",
		suffix:                                suffix,
		strings.Repeat("a", 300):              strings.Repeat("a", 300),
		CloneID(CloneID("a", suffix), suffix): CloneID("a", suffix),
	} {
		if got := SharedID(id); got != want {
			t.Errorf("%q shares %q, want %q", id, got, want)
		}
	}
	longest := Attrs{Node: Node{ID: CloneID(strings.Repeat("a", MaxSharedID), suffix)}}
	if err := longest.Validate(); err != nil {
		t.Errorf("the longest ID with a suffix: %v", err)
	}
}

// TestOneNodeHasAMarkInCommon checks that two Attrs of one node share a mark, by
// which a lingering lease is found, and that SameNode is symmetric.
func TestOneNodeHasAMarkInCommon(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func() Attrs {
		pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
		return Attrs{
			PublicIP: addresses(pick("192.0.2.1", "192.0.2.2")),
			Node:     Node{ID: pick("", "a", "b", CloneID("a", "0123456789abcdef")), Instance: pick("", "1", "2")},
		}
	}
	same := 0
	for range 10_000 {
		a, b := random(), random()
		if a.SameNode(b) != b.SameNode(a) {
			t.Fatalf("%+v and %+v: one says that they are one node", a, b)
		}
		if !a.SameNode(b) {
			continue
		}
		same++
		if !slices.ContainsFunc(a.marks(), func(m string) bool { return slices.Contains(b.marks(), m) }) {
			t.Fatalf("%+v and %+v are one node, and have no mark in common", a, b)
		}
	}
	if same == 0 {
		t.Error("no two were one node")
	}
}

// TestTwinIsTheLeaseThatTakesOurID checks for which lease a node gives its ID up.
func TestTwinIsTheLeaseThatTakesOurID(t *testing.T) {
	claim := Claim{Attrs: Attrs{PublicIP: addresses("192.0.2.7"), Node: Node{ID: "a", Instance: "1"}}}
	lease := func(n byte, created int64, id, instance string) Lease {
		return Lease{
			Subnets: subnets(fmt.Sprintf("10.5.%d.0/24", n)), Created: created,
			Attrs: Attrs{PublicIP: addresses(fmt.Sprintf("192.0.2.%d", n)), Node: Node{ID: id, Instance: instance}},
		}
	}
	mine, flannels := lease(7, 5, "a", "1"), lease(7, 5, "", "")
	forked := lease(7, 5, CloneID("a", "0123456789abcdef"), "1")
	for _, c := range []struct {
		name      string
		own       *Lease
		leases    []Lease
		lives     bool
		twin      bool
		inherited int
	}{
		{"no other machine", nil, []Lease{lease(9, 1, "b", "2"), lease(9, 1, "", "")}, true, false, 0},
		{"one that lives", nil, []Lease{lease(9, 1, "a", "2")}, true, true, 0},
		{"one that does not", nil, []Lease{lease(9, 1, "a", "2")}, false, false, 1},
		{"two that do not", nil, []Lease{lease(9, 1, "a", "2"), lease(8, 1, "a", "")}, false, false, 2},
		{"a clone of it", nil, []Lease{lease(9, 1, CloneID("a", "0123456789abcdef"), "2")}, true, false, 0},
		{"one, where it has flannel's", &flannels, []Lease{flannels, lease(9, 9, "a", "2")}, false, true, 0},
		{"one, where it went by another ID", &forked, []Lease{forked, lease(9, 9, "a", "2")}, false, true, 0},
		{"a later one", &mine, []Lease{mine, lease(9, 9, "a", "2")}, true, false, 0},
		{"an earlier one", &mine, []Lease{mine, lease(9, 1, "a", "2")}, false, true, 0},
		{"a later one of an older tulled", &mine, []Lease{mine, lease(9, 9, "a", "")}, true, true, 0},
	} {
		twin, inherited, err := claim.Twin(c.own, c.leases, func(Lease) (bool, error) { return c.lives, nil })
		if err != nil || (twin != nil) != c.twin || len(inherited) != c.inherited {
			t.Errorf("%s: %+v, %+v, %v", c.name, twin, inherited, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := claim.Twin(nil, []Lease{lease(9, 1, "a", "2")}, func(Lease) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("when it is unknown who lives: %v", err)
	}
	// A node that publishes no instance, as in Kubernetes, has no twins.
	claim.Node.Instance = ""
	if twin, _, _ := claim.Twin(nil, []Lease{lease(9, 1, "a", "")}, func(Lease) (bool, error) { return true, nil }); twin != nil {
		t.Errorf("without an instance: %+v", twin)
	}
}

func TestTwinErrorNamesTheHolder(t *testing.T) {
	err := &TwinError{Lease: Lease{Subnets: subnets("10.5.7.0/24"), Attrs: Attrs{PublicIP: addresses("192.0.2.7", "2001:db8::7"), Node: Node{ID: "a", Name: "host7"}}}}
	if want := "another machine has this node's ID: host7 (192.0.2.7, 2001:db8::7) holds 10.5.7.0-24 under it"; err.Error() != want || !errors.Is(err, ErrSameID) {
		t.Errorf("%q, want %q", err, want)
	}
	for want, a := range map[string]Attrs{
		"":                {},
		"a":               {Node: Node{ID: "a"}},
		"192.0.2.7":       {PublicIP: addresses("192.0.2.7")},
		"a (2001:db8::7)": {PublicIP: addresses("2001:db8::7"), Node: Node{ID: "a"}},
	} {
		if got := a.Holder(); got != want {
			t.Errorf("%+v is held by %q, want %q", a, got, want)
		}
	}
}
