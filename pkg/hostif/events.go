package hostif

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// filter tells the events that may change what a look finds from the many that
// do not: containers come and go with their links, routers with their routes.
// What counts depends on the last look; events that come during one wait for
// its end.
type filter struct {
	spec Spec
	look retry.Wakeup // there is reason to look

	mu      sync.Mutex
	looking bool
	waiting []netstate.Event
	// links are those that count, as they were. The zero Link differs from
	// whatever an event says.
	links   map[string]netstate.Link
	bridged map[netstate.Addr]bool // the addresses of Spec.Bridges
	direct  []netip.Prefix         // the networks that are reached without a router
}

// mostWaiting bounds the events that are kept during one look. With more, one
// that counts is likely among them.
const mostWaiting = 1000

// begin is called before a look, which will see what was reason to look so far.
func (f *filter) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking, f.waiting = true, nil
	f.look.Clear()
}

// end is called when a look has found v.
func (f *filter) end(v View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links, f.bridged, f.direct = f.spec.decisive(v), map[netstate.Addr]bool{}, nil
	for _, l := range v.Links {
		for _, a := range l.Addrs {
			if f.spec.isBridge(l.Name) {
				f.bridged[netstate.Addr{Link: l.Name, Prefix: a.Prefix}] = true
			}
		}
	}
	for _, r := range v.OnLink {
		if !r.Via.IsValid() {
			f.direct = append(f.direct, r.Dst)
		}
	}
	if slices.ContainsFunc(f.waiting, f.matters) {
		f.look.Wake()
	}
	f.looking, f.waiting = false, nil
}

// take is called with every event.
func (f *filter) take(e netstate.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.looking && e.Object != nil && len(f.waiting) < mostWaiting:
		f.waiting = append(f.waiting, e)
	case f.looking || f.matters(e):
		f.look.Wake()
	}
}

// matters reports whether e may change what the last look found.
func (f *filter) matters(e netstate.Event) bool {
	switch o := e.Object.(type) {
	case nil:
		return true
	case netstate.Addr:
		if f.spec.isBridge(o.Link) {
			return f.bridged[o] == e.Gone
		}
		return !f.spec.overlay(o.Prefix.Addr())
	case netstate.Route:
		return o.Protocol != 0 && f.routeMatters(o)
	case netstate.Link:
		seen, ok := f.links[o.Name]
		if !ok {
			return f.spec.isBridge(o.Name) && !e.Gone
		}
		return e.Gone || o != seen
	}
	return false
}

func (f *filter) routeMatters(r netstate.Route) bool {
	switch {
	case f.spec.CanReach.IsValid() && r.Dst.Contains(f.spec.CanReach), r.Dst.Bits() == 0:
		return true
	case f.spec.within(r), r.Dst.Addr().IsLinkLocalUnicast():
		return false
	case !r.Via.IsValid():
		return true
	}
	return slices.ContainsFunc(f.direct, func(p netip.Prefix) bool {
		return p.Bits() <= r.Dst.Bits() && p.Contains(r.Dst.Addr())
	})
}

// decisive are the links whose changes may change a Host. Another one becomes
// so by an event of its own, of an address or a route.
func (s Spec) decisive(v View) map[string]netstate.Link {
	direct := map[string]bool{}
	for _, r := range v.OnLink {
		direct[r.Link] = direct[r.Link] || !s.within(r)
	}
	links := map[string]netstate.Link{}
	for _, l := range v.Links {
		if direct[l.Name] || s.isBridge(l.Name) || slices.ContainsFunc(l.Addrs, func(a netstate.HostAddr) bool {
			return s.usable(a, subnet.IPv4) || s.usable(a, subnet.IPv6)
		}) {
			links[l.Name] = l.Link
		}
	}
	// Of these even what a Link does not tell counts: whether their cable is in.
	links[v.Reach.Link] = netstate.Link{}
	for _, d := range v.Defaults {
		links[d.Link] = netstate.Link{}
	}
	return links
}
