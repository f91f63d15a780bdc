package hostif

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// filter selects the events that may change the result of a survey. Most do not:
// containers come and go with their links, routers with their routes. The last survey
// decides which ones count, so events that come during one wait for its end.
type filter struct {
	spec Spec
	look retry.Wakeup // a survey is needed

	mu      sync.Mutex
	looking bool
	waiting []netstate.Event
	// links are those that count, with their last state. The zero Link differs from any
	// event's.
	links   map[string]netstate.Link
	bridged map[netstate.Addr]bool // the addresses of Spec.Bridges
	direct  []netip.Prefix         // the networks that are reached without a router
}

// mostWaiting is the limit of the events that are kept during one survey. With more,
// one that counts is probably among them.
const mostWaiting = 1000

// begin is called before a survey, which includes all causes so far.
func (f *filter) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking, f.waiting = true, nil
	f.look.Clear()
}

// end is called when a survey has returned v.
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

// matters reports whether e may change the result of the last survey.
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

// decisive returns the links whose changes may change Interfaces. Another link
// becomes decisive by an event of an address or a route.
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
	// For these, state that a Link does not contain counts too: whether their cable is
	// plugged in.
	links[v.Reach.Link] = netstate.Link{}
	for _, d := range v.Defaults {
		links[d.Link] = netstate.Link{}
	}
	return links
}
