package kerneltest

import (
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// maker is the author of a change: Watch omits most of what Apply does.
type maker bool

const (
	ours   maker = true
	theirs maker = false
)

// put creates or replaces o.
func (f *Fake) put(v netstate.Verb, o netstate.Object, by maker) error {
	switch o := o.(type) {
	case netstate.Link:
		return f.putLink(o)
	case netstate.Sysctl:
		return f.putSysctl(o, by)
	case netstate.Route:
		return f.putRoute(v, o, by)
	case netstate.WGPeer, netstate.WGAllowed:
		return f.putWireGuard(o, by)
	case netstate.UDPPeer:
		return f.putUDP(o)
	}
	// The entries of our own links are ours: a creation may replace them.
	if _, ok := f.link(netstate.LinkOf(o)); !ok {
		return syscall.ENODEV
	}
	if was, ok := f.state.Get(o.Key()); ok && was == o {
		return nil
	}
	f.state.Put(o)
	f.emit(netstate.Event{Object: o}, by)
	return nil
}

func (f *Fake) putRoute(v netstate.Verb, r netstate.Route, by maker) error {
	switch l, ok := f.link(r.Link); {
	case r.Drop:
	case !ok:
		return syscall.ENODEV
	case !l.Up:
		return syscall.ENETDOWN
	}
	// The kernel keeps one route for a destination and metric, ours or foreign.
	was, held := f.state.Get(r.Key())
	if held && v == netstate.Create {
		return syscall.EEXIST
	}
	if was != r {
		f.state.Put(r)
		f.emit(netstate.Event{Object: r}, by)
	}
	return nil
}

// remove carries out a deletion of ours. It ignores a missing object.
func (f *Fake) remove(o netstate.Object) error {
	switch o := o.(type) {
	case netstate.Link:
		f.deleteLink(o.Name)
	case netstate.Sysctl:
		return syscall.EINVAL
	case netstate.Route:
		if r, ok := f.matchRoute(o); ok {
			f.state.Delete(r.Key())
			f.emit(netstate.Event{Object: r, Gone: true}, ours)
		}
	case netstate.WGPeer, netstate.WGAllowed:
		f.removeWireGuard(o.Key())
	case netstate.UDPPeer:
		f.state.Delete(o.Key())
	default:
		f.drop(o.Key(), ours)
	}
	return nil
}

// matchRoute returns the route that a request to delete r matches. Our mark alone
// identifies one of ours; a foreign one must match in every field. Metric 0 of IPv4
// means any: the kernel takes the first that fits.
func (f *Fake) matchRoute(r netstate.Route) (found netstate.Route, ok bool) {
	fits := func(o netstate.Object) bool {
		is, isRoute := o.(netstate.Route)
		return isRoute && is.Dst == r.Dst && is.Protocol == r.Protocol &&
			(r.Protocol == 0 || is.Via == r.Via && is.Link == r.Link)
	}
	if o, held := f.state.Get(r.Key()); held && fits(o) {
		return o.(netstate.Route), true
	}
	if r.Metric != 0 || r.Dst.Addr().Is6() {
		return found, false
	}
	for o := range f.state.All() {
		if fits(o) && (!ok || o.(netstate.Route).Metric < found.Metric) {
			found, ok = o.(netstate.Route), true
		}
	}
	return found, ok
}

// drop removes everything on a link, and what depends on that.
func (f *Fake) drop(k netstate.Key, by maker) bool {
	o, ok := f.state.Get(k)
	if !ok {
		return false
	}
	f.state.Delete(k)
	f.emit(netstate.Event{Object: o, Gone: true}, by)
	if a, isAddr := o.(netstate.Addr); isAddr && a.Prefix.Addr().Is4() && !f.hasAddr4(a.Link) {
		// The last address takes with it what depends on it.
		f.loseNeighs(a.Link, is4)
		f.loseRoutes4(a.Link)
	}
	return true
}

func (f *Fake) hasAddr4(link string) bool {
	for o := range f.state.All() {
		if a, ok := o.(netstate.Addr); ok && a.Link == link && a.Prefix.Addr().Is4() {
			return true
		}
	}
	return false
}

func (f *Fake) link(name string) (netstate.Link, bool) {
	o, ok := f.state.Get(netstate.Link{Name: name}.Key())
	if !ok {
		return netstate.Link{}, false
	}
	return o.(netstate.Link), true
}

func (f *Fake) putLink(l netstate.Link) error {
	if f.portTaken(l) {
		return syscall.EADDRINUSE
	}
	if was, ok := f.link(l.Name); ok {
		if was.CanBecome(l) {
			f.changeLink(was, l)
			return nil
		}
		f.deleteLink(l.Name) // and all on it
	}
	if _, ok := f.link(l.Lower); l.Lower != "" && !ok {
		return syscall.ENODEV
	}
	for o := range f.state.All() {
		if is, ok := o.(netstate.Link); ok && netstate.TunnelOf(l.Kind).Frames && is.Kind == l.Kind &&
			is.VXLAN.VNI == l.VXLAN.VNI && is.VXLAN.Port == l.VXLAN.Port {
			return syscall.EEXIST
		}
	}
	down := l
	down.Up = false
	f.state.Put(down)
	f.emit(netstate.Event{Object: down}, ours)
	f.changeLink(down, l)
	return nil
}

func (f *Fake) changeLink(was, l netstate.Link) {
	if was == l {
		return
	}
	f.state.Put(l)
	f.emit(netstate.Event{Object: l}, ours)
	if was.MAC != l.MAC {
		f.loseNeighs(l.Name, anyFamily)
	}
	if was.Up && !l.Up {
		f.goneDown(l.Name)
	}
}

// deleteLink also deletes everything on it. The events are in the kernel's order: the
// link's own comes last.
func (f *Fake) deleteLink(name string) {
	l, ok := f.link(name)
	if !ok {
		return
	}
	f.lose(func(o netstate.Object) bool {
		fdb, ok := o.(netstate.FDB)
		return ok && fdb.Link == name
	})
	f.loseUDP(name)
	f.loseWireGuard(func(o netstate.Object) bool { return netstate.LinkOf(o) == name })
	if l.Up {
		l.Up = false
		f.changeLink(netstate.Link{Up: true, MAC: l.MAC}, l)
	}
	f.loseNeighs(name, anyFamily)
	f.lose(func(o netstate.Object) bool {
		a, ok := o.(netstate.Addr)
		return ok && a.Link == name
	})
	for _, o := range f.all(func(o netstate.Object) bool {
		_, ok := o.(netstate.Sysctl)
		return ok && netstate.LinkOf(o) == name
	}) {
		f.state.Delete(o.Key())
	}
	f.state.Delete(l.Key())
	f.emit(netstate.Event{Object: netstate.Link{Name: name}, Gone: true}, ours)
}

// goneDown removes what a link loses that goes down. Its IPv4 routes cause no event,
// and forwarding entries stay.
func (f *Fake) goneDown(name string) {
	f.loseRoutes4(name)
	f.loseNeighs(name, anyFamily)
	f.lose(func(o netstate.Object) bool {
		switch o := o.(type) {
		case netstate.Route:
			return o.Link == name && o.Dst.Addr().Is6()
		case netstate.Addr:
			return o.Link == name && o.Prefix.Addr().Is6()
		}
		return false
	})
}

// loseRoutes4 drops a link's IPv4 routes without an event.
func (f *Fake) loseRoutes4(link string) {
	for _, o := range f.all(func(o netstate.Object) bool {
		r, ok := o.(netstate.Route)
		return ok && r.Link == link && r.Dst.Addr().Is4()
	}) {
		f.state.Delete(o.Key())
	}
}

func anyFamily(netip.Addr) bool { return true }

func is4(ip netip.Addr) bool { return ip.Is4() }

func (f *Fake) loseNeighs(link string, family func(netip.Addr) bool) {
	f.lose(func(o netstate.Object) bool {
		n, ok := o.(netstate.Neigh)
		return ok && n.Link == link && family(n.IP)
	})
}

// lose drops an object that depends on another, with an event unless f is mute.
func (f *Fake) lose(which func(netstate.Object) bool) {
	for _, o := range f.all(which) {
		f.state.Delete(o.Key())
		if !f.faults.mute {
			f.emit(netstate.Event{Object: o, Gone: true}, theirs)
		}
	}
}

// all returns the objects that which selects, in a fixed order.
func (f *Fake) all(which func(netstate.Object) bool) []netstate.Object {
	var s netstate.State
	for o := range f.state.All() {
		if which(o) {
			s.Put(o)
		}
	}
	return s.Sorted()
}

// sysctl returns a setting. All exist, as "0" or "on", except those of missing links.
func (f *Fake) sysctl(path string) (netstate.Sysctl, bool) {
	s := netstate.Sysctl{Path: path, Value: "0"}
	if _, ok := netstate.TxChecksumOf(path); ok {
		s.Value = "on"
	}
	if on := netstate.LinkOf(s); on != "" {
		if _, ok := f.link(on); !ok {
			return s, false
		}
	}
	if is, ok := f.state.Get(s.Key()); ok {
		return is.(netstate.Sysctl), true
	}
	return s, true
}

func (f *Fake) putSysctl(s netstate.Sysctl, by maker) error {
	is, ok := f.sysctl(s.Path)
	if !ok {
		return syscall.ENOENT
	}
	f.state.Put(s)
	// The kernel reports changes of these only, by any program. A poll finds all others.
	_, feature := netstate.TxChecksumOf(s.Path)
	reported := feature || strings.HasSuffix(s.Path, "/forwarding") || strings.HasSuffix(s.Path, "/rp_filter")
	switch {
	case is == s:
	case reported:
		f.emit(netstate.Event{Object: s}, theirs)
	case by == theirs:
		time.AfterFunc(pollInterval, func() { f.polled(s) })
	}
	return nil
}

// pollInterval is how long a change that the kernel does not report stays unknown.
const pollInterval = time.Second

// polled reports a setting if it still has that value.
func (f *Fake) polled(s netstate.Sysctl) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is, ok := f.sysctl(s.Path); ok && is == s {
		f.emit(netstate.Event{Object: s}, theirs)
	}
}
