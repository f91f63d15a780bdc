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
	if s.owners.len > 0 || s.Len() > 0 {
		t.Errorf("%d owners are left, with %d objects", s.owners.len, s.Len())
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
	if size := unsafe.Sizeof(held{}); size > 40 {
		t.Errorf("what is held has %d bytes, more than 40", size)
	}
}

// TestPackKeepsWhatIsLeft: a state that has lost most of its objects gives their memory
// back, and keeps the others with their owners, their order and their marks.
func TestPackKeepsWhatIsLeft(t *testing.T) {
	var s State
	object := func(i int) Object {
		return Addr{Link: "l", Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}
	}
	for i := range 2000 {
		s.PutFor([]string{"", "one", "two", fmt.Sprint(i)}[i%4], object(i))
		if i%3 == 0 {
			s.SetPlaced(object(i).Key())
		}
	}
	for i := range 2000 {
		if i%5 > 0 {
			s.Delete(object(i).Key())
		}
	}
	before, owned := s.String(), map[string][]Object{"one": s.Owned("one"), "two": s.Owned("two")}
	s.pack()
	if places := s.items.places(); places > 2*s.Len() {
		t.Errorf("%d objects have %d places", s.Len(), places)
	}
	if after := s.String(); after != before || s.Len() != 400 {
		t.Errorf("%d objects are left:\n%s\nwant\n%s", s.Len(), after, before)
	}
	for owner, want := range owned {
		if got := s.Owned(owner); !slices.Equal(got, want) {
			t.Errorf("%s owns\n%v, want\n%v", owner, got, want)
		}
	}
	for i := 0; i < 2000; i += 5 {
		k := object(i).Key()
		if want := []string{"", "one", "two", fmt.Sprint(i)}[i%4]; s.Owner(k) != want || s.Placed(k) != (i%3 == 0) {
			t.Errorf("%s is of %q, placed %t", k, s.Owner(k), s.Placed(k))
		}
	}
	for o := range s.All() {
		s.Delete(o.Key())
	}
	if s.pack(); s.items.places() > chunk || s.owners.len > 0 {
		t.Errorf("an empty state has %d places, %d owners", s.items.places(), s.owners.len)
	}
	s.PutFor("one", object(1))
	if got := s.Owned("one"); !slices.Equal(got, []Object{object(1)}) {
		t.Errorf("afterwards, one owns %v", got)
	}
}

// TestSlab: a place keeps its value while others come and go, and is used again.
func TestSlab(t *testing.T) {
	var s slab[int]
	values, most := make(map[ref]int), 0
	rng := rand.New(rand.NewPCG(2, 0))
	for step := range 5000 {
		if rng.IntN(3) > 0 || len(values) == 0 {
			r := s.add()
			if _, taken := values[r]; taken || r == 0 || *s.at(r) != 0 {
				t.Fatalf("step %d: place %d is not free", step, r)
			}
			*s.at(r), values[r] = step+1, step+1
			most = max(most, len(values))
			continue
		}
		for r := range values {
			s.remove(r)
			delete(values, r)
			break
		}
	}
	for r, v := range values {
		if *s.at(r) != v {
			t.Errorf("place %d has %d, want %d", r, *s.at(r), v)
		}
	}
	if s.places() >= most+chunk {
		t.Errorf("%d places for %d values at most", s.places(), most)
	}
}
