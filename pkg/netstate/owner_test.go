package netstate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"unsafe"
)

// TestOwnedListsWhatEachOwnerHas compares each owner's objects with a list of them,
// after any sequence of changes.
func TestOwnedListsWhatEachOwnerHas(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var s State
	lists := make(map[string][]Object)
	forget := func(k Key) {
		owner := s.Owner(k)
		lists[owner] = slices.DeleteFunc(lists[owner], func(o Object) bool { return o.Key() == k })
	}
	for step := range 20000 {
		o := Addr{Link: "l", Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(40))}), 32)}
		switch owner := fmt.Sprint(rng.IntN(5)); rng.IntN(4) {
		case 0:
			forget(o.Key())
			s.Delete(o.Key())
		case 1:
			s.Expect(rng.IntN(10))
		default:
			if owner == "0" {
				owner = "" // as of Put
			}
			if !slices.Contains(lists[owner], Object(o)) {
				forget(o.Key())
				lists[owner] = append(lists[owner], o)
			}
			s.PutFor(owner, o)
		}
		for _, owner := range []string{"1", "2", "3", "4"} {
			if got := s.Owned(owner); !slices.Equal(got, lists[owner]) {
				t.Fatalf("step %d: %s owns %v, want %v", step, owner, got, lists[owner])
			}
		}
	}
	for o := range s.All() {
		s.Delete(o.Key())
	}
	if len(s.owners) > 0 || s.Len() > 0 {
		t.Errorf("left: %v", s.owners)
	}
}

// A replaced object stays where it is in its owner's list.
func TestOwnedHasTheNewestVersion(t *testing.T) {
	var s State
	first, second := FDB{Link: "l", MAC: MAC{2}}, FDB{Link: "l", MAC: MAC{4}}
	s.PutFor("peer", first)
	s.PutFor("peer", second)
	first.Odd = true
	s.PutFor("peer", first)
	if got := s.Owned("peer"); !slices.Equal(got, []Object{first, second}) {
		t.Errorf("got %v", got)
	}
	if got := s.Owned("none"); got != nil {
		t.Errorf("an unknown owner has %v", got)
	}
}

// There are three of these for each peer.
func TestHeldIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(held{}); size > 48 {
		t.Errorf("what is held has %d bytes, more than 48", size)
	}
}
