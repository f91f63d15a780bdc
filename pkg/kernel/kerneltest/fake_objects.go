package kerneltest

import (
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// maker is who makes a change: Watch leaves out most of what Apply does.
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
	}
	// Who has the link has what is on it: to make is to replace.
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
	// The kernel keeps one route for a destination and metric, whoever's.
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

// remove carries out a delete of ours. What is not there is no failure.
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
	default:
		f.drop(o.Key(), ours)
	}
	return nil
}

// matchRoute returns the route that a request to delete r hits. One of ours is told
// by our mark, another's by all. Metric 0 of IPv4 means any: the kernel takes
// the first that fits.
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

// drop removes what is on a link, and what goes with it.
func (f *Fake) drop(k netstate.Key, by maker) bool {
	o, ok := f.state.Get(k)
	if !ok {
		return false
	}
	f.state.Delete(k)
	f.emit(netstate.Event{Object: o, Gone: true}, by)
	if a, isAddr := o.(netstate.Addr); isAddr && a.Prefix.Addr().Is4() && !f.hasAddr4(a.Link) {
		// The last one takes along what cannot do without.
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

// deleteLink also deletes what is on it. The events come in the order in which
// the kernel sends them: the link's own last.
func (f *Fake) deleteLink(name string) {
	l, ok := f.link(name)
	if !ok {
		return
	}
	f.lose(func(o netstate.Object) bool {
		fdb, ok := o.(netstate.FDB)
		return ok && fdb.Link == name
	})
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

// goneDown removes what a link loses that goes down. Of its IPv4 routes nothing is
// said; forwarding entries stay.
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

// loseRoutes4 drops a link's IPv4 routes without a word.
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

// lose drops what goes with something else, and says so unless it is mute.
func (f *Fake) lose(which func(netstate.Object) bool) {
	for _, o := range f.all(which) {
		f.state.Delete(o.Key())
		if !f.faults.mute {
			f.emit(netstate.Event{Object: o, Gone: true}, theirs)
		}
	}
}

// all lists in a fixed order what which says.
func (f *Fake) all(which func(netstate.Object) bool) []netstate.Object {
	var s netstate.State
	for o := range f.state.All() {
		if which(o) {
			s.Put(o)
		}
	}
	return s.Sorted()
}

// sysctl reads a setting. All are there, and "0" or "on", but those of missing
// links.
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
	// The kernel reports changes of these alone, whoever makes them. All others a
	// poll finds.
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

// pollInterval is how long a change of a setting stays unknown that the kernel does
// not report.
const pollInterval = time.Second

// polled reports a setting if it is still as it was.
func (f *Fake) polled(s netstate.Sysctl) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is, ok := f.sysctl(s.Path); ok && is == s {
		f.emit(netstate.Event{Object: s}, theirs)
	}
}
