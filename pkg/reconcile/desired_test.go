package reconcile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestEarlierOwnerHoldsAContestedKey checks that the earlier of two owners that want
// one key differently holds it, and the later gets it when the earlier releases it.
func TestEarlierOwnerHoldsAContestedKey(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.set("a", route(1))
		l.set("b", direct(1))
		l.set("c", neigh(3), foreignVia(1))
		l.synced()
		l.has(route(1), neigh(3))
		want := []netstate.Key{route(1).Key()}
		if got := l.r.Status().Contested; !slices.Equal(got, want) {
			t.Errorf("contested %v", got)
		}
		l.remove("a")
		l.synced()
		l.has(direct(1))
		l.set("a", route(1)) // now the last one that waits
		l.remove("c")
		l.synced()
		l.has(direct(1))
		l.remove("b")
		l.synced()
		l.has(route(1))
		if got := l.r.Status().Contested; len(got) > 0 {
			t.Errorf("contested %v", got)
		}
		l.remove("a")
		l.synced()
		l.hasNot(route(1))
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

// foreignVia returns a third wish for the route to peer n.
func foreignVia(n int) netstate.Route {
	r := route(n)
	r.Via = subnet(99).Addr()
	return r
}

// TestSharedObjectStaysUntilTheLastOwnerGoes checks that an object that several
// owners want stays until the last releases it.
func TestSharedObjectStaysUntilTheLastOwnerGoes(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.set("a", fdb(1), route(1))
		l.set("b", fdb(1))
		l.synced()
		if got := l.r.Status().Contested; len(got) > 0 {
			t.Errorf("contested %v", got)
		}
		l.remove("a")
		l.synced()
		l.has(fdb(1))
		l.hasNot(route(1))
		l.remove("b")
		l.synced()
		l.hasNot(fdb(1))
	})
}

// TestDesiredHoldsOneWishForEachKey checks that, after any sequence of changes, the
// state holds for each key the wish of one owner that wants it, and that each change
// is reported.
func TestDesiredHoldsOneWishForEachKey(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		reported := make(map[netstate.Key]netstate.Object)
		d := newDesired(func(c change) {
			k := c.object.Key()
			is, has := reported[k]
			switch {
			case c.verb == netstate.Create && has, c.verb != netstate.Create && !has:
				t.Fatalf("seed %d: %s %s, reported before: %v", seed, c.verb, c.object, is)
			case c.verb == netstate.Delete:
				delete(reported, k)
			default:
				reported[k] = c.object
			}
		})
		wants, large := make(map[string][]netstate.Object), false
		for step := range 60 {
			owner := fmt.Sprint(rng.IntN(6))
			var objects []netstate.Object
			for n := range 4 {
				switch rng.IntN(5) {
				case 0:
					objects = append(objects, route(n))
				case 1:
					objects = append(objects, direct(n))
				case 2:
					objects = append(objects, foreignVia(n), fdb(n))
				case 3:
					objects = append(objects, neigh(n))
				}
			}
			if rng.IntN(4) == 0 {
				objects = nil
				d.Remove(owner)
			} else {
				d.Set(owner, shape(large, objects))
			}
			wants[owner] = objects
			if rng.IntN(5) == 0 { // as if it had grown or shrunk past a bound
				large = !large
				reshape(d, large)
			}
			checkDesired(t, fmt.Sprintf("seed %d, step %d", seed, step), d, wants, reported, large)
		}
		for owner := range wants {
			d.Remove(owner)
		}
		if d.state.Len()+len(d.waiting)+len(d.waits)+len(d.links)+len(owners(d))+len(reported) > 0 {
			t.Fatalf("seed %d: left over: %+v, reported %v", seed, d, reported)
		}
	}
}

func checkDesired(t *testing.T, where string, d *Desired, wants map[string][]netstate.Object, reported map[netstate.Key]netstate.Object, large bool) {
	t.Helper()
	wishes := make(map[netstate.Key][]claim)
	for owner, objects := range wants {
		for _, o := range shape(large, objects) {
			wishes[o.Key()] = append(wishes[o.Key()], claim{owner, o})
		}
	}
	has := make(map[netstate.Key]netstate.Object)
	for o := range d.state.All() {
		k := o.Key()
		has[k] = o
		if !slices.Contains(wishes[k], claim{d.state.Owner(k), o}) {
			t.Fatalf("%s: %s of %q, who does not want it", where, o, d.state.Owner(k))
		}
		if len(d.waiting[k]) != len(wishes[k])-1 {
			t.Fatalf("%s: %d wait for %s, of %d who want it", where, len(d.waiting[k]), k, len(wishes[k]))
		}
	}
	for owner, objects := range wants {
		if got := d.wants(owner); !sameObjects(got, shape(large, objects)) {
			t.Fatalf("%s: %q wants %v, want %v", where, owner, got, shape(large, objects))
		}
	}
	if len(has) != len(wishes) {
		t.Fatalf("%s: %d keys, %d are wanted", where, len(has), len(wishes))
	}
	if !maps.Equal(has, reported) {
		t.Fatalf("%s: reported %v, there is %v", where, reported, has)
	}
}

// sameObjects reports whether two lists have the same objects, in any order.
func sameObjects(a, b []netstate.Object) bool {
	return len(a) == len(b) && netstate.Of(a...).Equal(netstate.Of(b...))
}
