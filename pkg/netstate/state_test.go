package netstate_test

import (
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

// TestState checks the methods of a State.
func TestState(t *testing.T) {
	var s State
	if s.Len() != 0 || s.String() != "" || !s.Equal(Of()) {
		t.Fatalf("the zero State is not empty: %v", &s)
	}
	s.Delete(vxlan("tulle.1", 1).Key())
	one, other := Neigh{"tulle.1", ip("10.1.2.0"), mac(2)}, Neigh{"tulle.1", ip("10.1.2.0"), mac(3)}
	s.PutFor("peer", one)
	if o, ok := s.Get(other.Key()); !ok || o != one || s.Owner(one.Key()) != "peer" {
		t.Errorf("got %v of %q", o, s.Owner(one.Key()))
	}
	if s.Equal(Of(other)) || s.Equal(Of()) || !s.Equal(Of(one)) {
		t.Error("Equal is wrong about what is in there")
	}
	if s.Equal(Of(one, other, Addr{"tulle.1", pfx("10.1.0.0/32")})) || s.Equal(Of(FDB{"tulle.1", mac(2), false, ip("192.0.2.2")})) {
		t.Error("Equal is wrong about what is not in there")
	}
	s.Put(other)
	if o, _ := s.Get(one.Key()); o != other || s.Len() != 1 || s.Owner(one.Key()) != "" {
		t.Errorf("the later of one key does not stay: %v", &s)
	}
	s.Put(Addr{"tulle.1", pfx("10.1.0.0/32")})
	want := "addr 10.1.0.0/32 dev tulle.1\nneigh 10.1.2.0 mac 3a:00:00:00:00:03 dev tulle.1\n"
	if s.String() != want {
		t.Errorf("got\n%swant\n%s", s.String(), want)
	}
	for range s.All() {
		break // must be possible
	}
	s.Delete(one.Key())
	if _, ok := s.Get(one.Key()); ok || s.Len() != 1 || s.Owner(one.Key()) != "" {
		t.Errorf("not deleted: %v", &s)
	}
}

func TestLinkChangesInPlaceOrNot(t *testing.T) {
	from := vxlan("tulle.1", 1)
	can := map[string]func(*Link){
		"MAC": func(l *Link) { l.MAC = mac(9) }, "MTU": func(l *Link) { l.MTU = 9000 },
		"WireGuard key": func(l *Link) { l.WireGuard.Key = peerKey(9) }, "WireGuard port": func(l *Link) { l.WireGuard.Port = 9 },
		"group": func(l *Link) { l.Group = 0 }, "up": func(l *Link) { l.Up = false },
	}
	cannot := map[string]func(*Link){
		"name": func(l *Link) { l.Name = "x" }, "kind": func(l *Link) { l.Kind = "ipip" },
		"local": func(l *Link) { l.Local = ip("192.0.2.9") }, "lower": func(l *Link) { l.Lower = "eth0" },
		"VNI": func(l *Link) { l.VXLAN.VNI = 2 }, "port": func(l *Link) { l.VXLAN.Port = 4789 },
		"learning": func(l *Link) { l.VXLAN.Learning = true }, "GBP": func(l *Link) { l.VXLAN.GBP = true },
	}
	if !from.CanBecome(from) {
		t.Error("a link cannot become itself")
	}
	for _, test := range []struct {
		changes map[string]func(*Link)
		want    bool
	}{{can, true}, {cannot, false}} {
		for what, change := range test.changes {
			to := from
			change(&to)
			if to == from {
				t.Fatalf("%s: nothing changed", what)
			}
			if got := from.CanBecome(to); got != test.want {
				t.Errorf("another %s: CanBecome says %t", what, got)
			}
		}
	}
}

// TestStateLarge has chains grow, and lose objects from everywhere in them.
func TestStateLarge(t *testing.T) {
	all := peers(10_000)
	s := Of(all...)
	for i, o := range all {
		if got, ok := s.Get(o.Key()); !ok || got != o {
			t.Fatalf("got %v, want %v", got, o)
		}
		if i%2 == 0 {
			s.Put(o)
		} else {
			s.Delete(o.Key())
			s.Delete(o.Key())
		}
	}
	if s.Len() != (len(all)+1)/2 {
		t.Fatalf("%d are left of %d", s.Len(), len(all))
	}
	for i, o := range all {
		if _, ok := s.Get(o.Key()); ok != (i%2 == 0) {
			t.Fatalf("it is wrong that %v is there: %v", o, ok)
		}
	}
	n := 0
	for o := range s.All() {
		n++
		s.Delete(o.Key())
	}
	if n != (len(all)+1)/2 || s.Len() != 0 {
		t.Errorf("%d were there, %d are left", n, s.Len())
	}
}
