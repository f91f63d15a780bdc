package subnet

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func moving() Attrs {
	return Attrs{
		PublicIP: Pair[netip.Addr]{IPv4: netip.MustParseAddr("192.0.2.7")}, BackendType: "vxlan",
		BackendData: Pair[string]{IPv4: `{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`}, Node: Node{ID: "a", MTU: 1420},
		Move: FormatMove(Move{
			Round: 2, Sends: []string{"wireguard", "vxlan"},
			Offers: []Offer{{Type: "wireguard", Data: []byte(`{"PublicKey":"k","Port":51820}`), Ready: true, Without: []string{"10.5.2.0-24"}}},
		}),
	}
}

// TestMoveIsInAFieldThatFlannelIgnores: flannel's fields are those of the primary backend.
func TestMoveIsInAFieldThatFlannelIgnores(t *testing.T) {
	text, err := FormatAttrs(moving())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"},` +
		`"Tulle":{"NodeID":"a","MTU":1420,"Move":{"Round":2,"Sends":["wireguard","vxlan"],` +
		`"Offers":[{"Type":"wireguard","Data":{"PublicKey":"k","Port":51820},"Ready":true,"Without":["10.5.2.0-24"]}]}}}`
	if string(text) != want {
		t.Errorf("got\n%s, want\n%s", text, want)
	}
	for _, spelling := range []string{want, strings.ReplaceAll(want, `":`, `" : `), strings.Replace(want, `"Round"`, `"Later":[1],"Round"`, 1)} {
		if a, err := ParseAttrs([]byte(spelling)); err != nil || a != moving() {
			t.Errorf("%s reads as\n%+v, %v", spelling, a, err)
		}
	}
}

// TestNoMoveCostsNothing: a large network validates ten thousand leases without one at each
// start.
func TestNoMoveCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if m, err := ParseMove(""); err != nil || m.Round != 0 {
			t.Errorf("no move reads as %+v, %v", m, err)
		}
	}); n > 0 {
		t.Errorf("no move costs %v allocations", n)
	}
}

// TestHostileMovesAreRefused reads what no tulled writes.
func TestHostileMovesAreRefused(t *testing.T) {
	many := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	offers := ""
	for i := range 6 {
		offers += fmt.Sprintf(`,{"Type":"b%d"}`, i)
	}
	for _, hostile := range []string{
		`[]`, `7`, `"x"`, `{"Round":-1}`, `{"Round":1e30}`, `{"Sends":[""]}`, `{"Sends":["a\nb"]}`, `{"Sends":[` + many(9, `"x"`) + `]}`,
		`{"Offers":[{}]}`, `{"Offers":[` + offers[1:] + `]}`, `{"Offers":[{"Type":"a"},{"Type":"a"}]}`, `{"Offers":[{"Type":"a","Data":null}]}`,
		`{"Offers":[{"Type":"a","Without":[` + many(MostWithout+1, `"x"`) + `]}]}`, `{"Offers":[{"Type":"` + strings.Repeat("x", 300) + `"}]}`,
		`{"Offers":[{"Type":"a","Data":"` + strings.Repeat("x", maxMove) + `"}]}`,
	} {
		a, err := ParseAttrs([]byte(`{"PublicIP":"192.0.2.7","BackendType":"vxlan","Tulle":{"Move":` + hostile + `}}`))
		if hostile == `{"Offers":[{"Type":"a","Data":null}]}` && err == nil {
			if o, _ := a.Offer("a"); len(o.Data) == 0 {
				continue // encoding/json may leave it out
			}
		}
		if !errors.Is(err, ErrValue) {
			t.Errorf("%.80s reads as %+v, %v", hostile, a, err)
		}
	}
}

// TestPeerIsWhoSharesABackend: a lease is a peer's if both publish one backend, as their
// primary one or beside it.
func TestPeerIsWhoSharesABackend(t *testing.T) {
	offers := func(primary, offer string) Attrs {
		a := Attrs{BackendType: primary, PublicIP: Pair[netip.Addr]{IPv4: netip.MustParseAddr("192.0.2.9")}}
		if offer != "" {
			a.Move = FormatMove(Move{Offers: []Offer{{Type: offer}}})
		}
		return a
	}
	for _, c := range []struct {
		own, peer Attrs
		want      bool
	}{
		{offers("vxlan", ""), offers("vxlan", ""), true},
		{offers("vxlan", ""), offers("udp", ""), false},
		{offers("vxlan", ""), offers("udp", "vxlan"), true},
		{offers("vxlan", "udp"), offers("udp", ""), true},
		{offers("vxlan", "udp"), offers("host-gw", "udp"), true},
		{offers("vxlan", "udp"), offers("host-gw", "ipip"), false},
		{offers("udp", ""), offers("", ""), true}, // flannel writes no type for udp
		{offers("vxlan", "udp"), offers("", ""), true},
		{offers("vxlan", ""), offers("", ""), false},
	} {
		if got := c.own.sharesBackend(&c.peer); got != c.want {
			t.Errorf("%s %s and %s %s: %v", c.own.BackendType, c.own.Move, c.peer.BackendType, c.peer.Move, got)
		}
	}
	as, ok := moving().As("wireguard")
	if !ok || as.BackendType != "wireguard" || as.Move != "" || as.BackendData[IPv4] != `{"PublicKey":"k","Port":51820}` {
		t.Errorf("as wireguard: %+v, %v", as, ok)
	}
	if as, ok := moving().As("udp"); ok {
		t.Errorf("as udp: %+v", as)
	}
}
