package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// takeovers are the ways in which another program replaces our route to a peer.
var takeovers = map[string]string{
	"another gateway":           "route replace DST via GATEWAY dev eth0 proto static",
	"no gateway":                "route replace DST dev eth0 proto static",
	"no stated protocol":        "route replace DST dev eth0",
	"route change":              "route change DST via GATEWAY dev eth0 proto static",
	"several gateways":          "route replace DST proto static nexthop via GATEWAY dev eth0 nexthop via OTHER dev eth0",
	"blackhole":                 "route replace blackhole DST proto static",
	"unreachable":               "route replace unreachable DST proto static",
	"unreachable, our protocol": "route replace unreachable DST proto 84",
	"a second gateway":          "route append DST via GATEWAY dev eth0 proto static",
}

// TestTakesRoutesBack replaces our routes as another program would, in both families.
// Ours are restored at once, and no other route stays.
func TestTakesRoutesBack(t *testing.T) {
	l := newLab(t, config(dual, `{"Type": "vxlan"}`))
	a, b := l.add(), l.add()
	l.startAll()
	l.pingAll()
	for f, words := range routeWords(b) {
		for what, command := range takeovers {
			if f == subnet.IPv4 && (what == "route change" || what == "a second gateway") {
				continue // no change for an IPv4 route with another gateway
			}
			t.Run(fmt.Sprintf("%s %s", f, what), func(t *testing.T) {
				before := a.ns.IP(t, words.Replace("route show DST"))
				a.ns.IP(t, words.Replace(command))
				a.shows(words, before)
				a.synced()
				a.ping(b, f)
			})
		}
	}
}

// TestLeavesRoutesBeside adds a foreign route that precedes ours to the same
// destination, with the same metric. Both stay, even when it changes.
func TestLeavesRoutesBeside(t *testing.T) {
	l := newLab(t, config(dual, `{"Type": "vxlan"}`))
	a, b := l.add(), l.add()
	l.startAll()
	words := routeWords(b)[subnet.IPv4]
	a.ns.IP(t, words.Replace("route prepend DST via GATEWAY dev eth0 proto static"))
	a.synced()
	both := a.ns.IP(t, words.Replace("route show DST"))
	if !strings.Contains(both, "198.18.0.77") || !strings.Contains(both, "tulle.1") {
		t.Fatalf("there is %q, want both", both)
	}
	a.ns.IP(t, words.Replace("route replace DST via OTHER dev eth0 proto static"))
	a.synced()
	a.shows(words, strings.Replace(both, "198.18.0.77", "198.18.0.78", 1))
	a.ns.IP(t, words.Replace("route del DST via OTHER"))
	a.synced()
	a.ping(b, subnet.IPv4)
}

func routeWords(peer *node) map[subnet.Family]*strings.Replacer {
	v4, v6 := peer.own.Subnets[subnet.IPv4], peer.own.Subnets[subnet.IPv6]
	return map[subnet.Family]*strings.Replacer{
		subnet.IPv4: strings.NewReplacer("DST", v4.String(), "GATEWAY", "198.18.0.77", "OTHER", "198.18.0.78", "route ", "-4 route "),
		subnet.IPv6: strings.NewReplacer("DST", v6.String(), "GATEWAY", "fd00:18::77", "OTHER", "fd00:18::78", "route ", "-6 route "),
	}
}

// shows waits until the routes to the peer are as given.
func (n *node) shows(words *strings.Replacer, want string) {
	n.t.Helper()
	kerneltest.Eventually(n.t, 2*time.Second, func() error {
		if is := n.ns.IP(n.t, words.Replace("route show DST")); is != want {
			return fmt.Errorf("there is %q, want %q", is, want)
		}
		return nil
	})
}
