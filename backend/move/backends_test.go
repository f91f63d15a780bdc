package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

func ready(kinds ...string) (m subnet.Move) {
	for _, kind := range kinds {
		m.Offers = append(m.Offers, subnet.Offer{Type: kind, Ready: true})
	}
	return m
}

// TestWayToAPeer checks by which backend a node sends to a peer, and by which it receives.
func TestWayToAPeer(t *testing.T) {
	without := ready("wg")
	without.Offers[0].Without = []string{"10.5.1.0-24"}
	unready := ready("wg")
	unready.Offers[0].Ready = false
	for name, c := range map[string]struct {
		held    Backends
		primary string      // this node's
		own     subnet.Move // as the store has it
		peer    subnet.Lease
		before  Before
		by, in  string // in: "" if nothing is received
	}{
		"one backend each":                  {held("vxlan"), "vxlan", subnet.Move{}, lease(2, "b", "vxlan", subnet.Move{}), Before{}, "vxlan", "vxlan"},
		"flannel":                           {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "", "vxlan", subnet.Move{}), Before{}, "vxlan", "vxlan"},
		"a peer that has not begun":         {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", subnet.Move{}), Before{}, "vxlan", "vxlan"},
		"a peer that is not ready":          {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", unready), Before{}, "vxlan", "vxlan wg"},
		"a peer that lacks this node":       {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", without), Before{}, "vxlan", "vxlan wg"},
		"both are ready":                    {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", ready("wg")), Before{}, "wg", "vxlan wg"},
		"this node's offer is unread":       {held("wg", "vxlan"), "vxlan", subnet.Move{}, lease(2, "b", "vxlan", ready("wg")), Before{}, "vxlan", "vxlan wg"},
		"the peer has moved":                {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "wg", subnet.Move{}), Before{}, "wg", "wg"},
		"the peer withdrew the former":      {held("wg", "vxlan"), "wg", ready("vxlan"), lease(2, "b", "wg", subnet.Move{}), Before{Known: map[string]subnet.Attrs{"vxlan": lease(2, "b", "vxlan", subnet.Move{}).Attrs}}, "wg", "vxlan wg"},
		"another node has the lease":        {held("wg", "vxlan"), "wg", ready("vxlan"), lease(2, "b", "wg", subnet.Move{}), Before{Known: map[string]subnet.Attrs{"vxlan": lease(2, "c", "vxlan", subnet.Move{}).Attrs}}, "wg", "wg"},
		"a new node has the new one only":   {held("wg"), "wg", subnet.Move{}, lease(2, "b", "vxlan", unready), Before{}, "wg", "wg"},
		"strict, not left yet":              {held("wg!", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", unready), Before{}, "vxlan", "vxlan wg"},
		"strict, the peer retracts":         {held("wg!", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", unready), Before{By: "wg", Confined: "wg"}, "wg", "vxlan wg"},
		"strict, the peer goes back":        {held("wg!", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", subnet.Move{}), Before{By: "wg", Confined: "wg"}, "", "vxlan"},
		"strict, another config":            {held("vxlan", "wg!"), "wg", ready("vxlan"), lease(2, "b", "vxlan", subnet.Move{}), Before{By: "wg", Confined: "wg"}, "vxlan", "vxlan"},
		"not strict, the peer goes back":    {held("wg", "vxlan"), "vxlan", ready("wg"), lease(2, "b", "vxlan", subnet.Move{}), Before{By: "wg"}, "vxlan", "vxlan"},
		"nothing in common":                 {held("wg"), "wg", subnet.Move{}, lease(2, "b", "udp", subnet.Move{}), Before{}, "", ""},
		"the new one cannot reach the peer": {held("broken", "vxlan"), "vxlan", ready("broken"), lease(2, "b", "vxlan", ready("broken")), Before{}, "vxlan", "vxlan"},
	} {
		t.Run(name, func(t *testing.T) {
			own := lease(1, "a", c.primary, c.own)
			for i, h := range c.held.held {
				if h.Type == "broken" {
					c.held.held[i].Backend = fake{kind: "other"}
				}
			}
			way := c.held.Peer(own, c.peer, &own.Attrs, backend.PlainMetrics, c.before)
			out, in := linkOf(way.Objects, prefix(2))
			var links []string
			for link := range in {
				links = append(links, link)
			}
			slices.Sort(links)
			if way.By != c.by || out != c.by || strings.Join(links, " ") != c.in {
				t.Errorf("by %q, the route by %q, receives by %q; want %q and %q; %v", way.By, out, links, c.by, c.in, way.Err)
			}
		})
	}
}

// TestHostHoldsAllBackends checks what the host holds, and that nothing leaves by a route
// of the old backend once the new one is strict.
func TestHostHoldsAllBackends(t *testing.T) {
	own := lease(1, "a", "vxlan", subnet.Move{})
	for _, c := range []struct {
		held            Backends
		primary, others string
	}{
		{held("vxlan"), "vxlan, net/ipv4/conf/all/forwarding, by vxlan", ""},
		{held("wg", "vxlan"), "vxlan, net/ipv4/conf/all/forwarding, by vxlan", "wg, net/ipv4/conf/eth0/rp_filter"},
		{held("wg!", "vxlan"), "vxlan, net/ipv4/conf/all/forwarding", "wg, by wg, net/ipv4/conf/eth0/rp_filter"},
	} {
		text := func(objects []netstate.Object) string {
			var all []string
			for _, o := range objects {
				switch o := o.(type) {
				case netstate.Link:
					all = append(all, o.Name)
				case netstate.Sysctl:
					all = append(all, o.Path)
				case netstate.Route:
					all = append(all, "by "+o.Link)
				}
			}
			return strings.Join(all, ", ")
		}
		primary, others := c.held.Host(own)
		if text(primary) != c.primary || text(others) != c.others {
			t.Errorf("%v: %q and %q", c.held.Types(), text(primary), text(others))
		}
	}
	b := held("wg!", "vxlan")
	if b.MTU() != 1490 {
		t.Errorf("the MTU is %d", b.MTU())
	}
	if got := b.Confined("vxlan"); got != (subnet.Pair[[2]string]{}) {
		t.Errorf("confined to %v before all peers have moved", got)
	}
	if got := b.Confined("wg"); got[subnet.IPv4][0] != "wg" {
		t.Errorf("confined to %v", got)
	}
	if a := b.Publish(Plan{Primary: "vxlan", Offers: []subnet.Offer{{Type: "wg", Ready: true}}}); a.BackendType != "vxlan" || a.Node.MTU != 1490 || a.Move != `{"Round":0,"Offers":[{"Type":"wg","Data":{"Of":"wg"},"Ready":true}]}` {
		t.Errorf("publishes %+v", a)
	}
}
