package kerneltest

import (
	"net/netip"
	"syscall"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// putWireGuard creates or replaces a peer or an allowed prefix. The kernel sends no
// event for either.
func (f *Fake) putWireGuard(o netstate.Object, by maker) error {
	switch l, ok := f.link(netstate.LinkOf(o)); {
	case !ok:
		return syscall.ENODEV
	case !l.IsWireGuard():
		return syscall.EOPNOTSUPP
	}
	switch o := o.(type) {
	case netstate.WGPeer:
		f.putPeer(o, by)
	case netstate.WGAllowed:
		// It is taken from the peer that has it. The kernel ignores a prefix for a peer
		// that does not exist, so that none comes to exist without its preshared key.
		if _, ok := f.state.Get(netstate.WGPeer{Link: o.Link, Peer: o.Peer}.Key()); ok {
			f.state.Put(o)
		}
	}
	return nil
}

// putPeer creates or replaces a peer. Our own endpoint counts once: a peer that has
// roamed since keeps its own until we say another.
func (f *Fake) putPeer(p netstate.WGPeer, by maker) {
	p.Roamed = false
	k := p.Key()
	o, existed := f.state.Get(k)
	is, _ := o.(netstate.WGPeer)
	repeated := by == ours && is.Roamed && f.given[k] == p.Endpoint
	if existed && (!p.Endpoint.IsValid() || repeated) {
		p.Endpoint, p.Roamed = is.Endpoint, is.Roamed
	} else if by == ours {
		f.given[k] = p.Endpoint
	}
	f.state.Put(p)
}

// removeWireGuard removes a peer with its prefixes, or a prefix whatever peer has it.
func (f *Fake) removeWireGuard(k netstate.Key) bool {
	o, ok := f.state.Get(k)
	if !ok {
		return false
	}
	if p, isPeer := o.(netstate.WGPeer); isPeer {
		delete(f.given, k)
		f.loseWireGuard(func(o netstate.Object) bool {
			a, ok := o.(netstate.WGAllowed)
			return ok && a.Link == p.Link && a.Peer == p.Peer
		})
	}
	f.state.Delete(k)
	return true
}

// loseWireGuard removes the peers and prefixes that which selects.
func (f *Fake) loseWireGuard(which func(netstate.Object) bool) {
	for o := range f.state.All() {
		if isWireGuard(o) && which(o) {
			delete(f.given, o.Key())
			f.state.Delete(o.Key())
		}
	}
}

// Silence stops the program that serves a link: it keeps what it holds, and answers nothing
// until goOn is called.
func (f *Fake) Silence(link string, err error) (goOn func()) {
	f.mu.Lock()
	f.unknown = netstate.Unknown{link: err}
	hidden := f.unknown.Hides
	f.mu.Unlock()
	accept := f.Fail(-1, func(op netstate.Op) bool { return hidden(op.Object.Key()) }, err)
	return func() {
		accept()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unknown = nil
		f.emit(netstate.Event{Object: netstate.Link{Name: link}}, theirs)
	}
}

// known returns what of a dump does not need the answer of a program.
func (f *Fake) known(all []netstate.Object) (known []netstate.Object) {
	for _, o := range all {
		if l, ok := o.(netstate.Link); ok && f.unknown[l.Name] != nil {
			l.WireGuard = netstate.WireGuard{}
			o = l
		}
		if !f.unknown.Hides(o.Key()) {
			known = append(known, o)
		}
	}
	return known
}

func isWireGuard(o netstate.Object) bool {
	k := o.Key().Kind
	return k == netstate.KindWGPeer || k == netstate.KindWGAllowed
}

// portTaken reports whether another device listens on l's port.
func (f *Fake) portTaken(l netstate.Link) bool {
	if l.WireGuard.Port == 0 || !l.Up {
		return false
	}
	for o := range f.state.All() {
		if is, ok := o.(netstate.Link); ok && is.Name != l.Name && is.Up && is.WireGuard.Port == l.WireGuard.Port {
			return true
		}
	}
	return false
}

// Roam makes a packet of a peer arrive from another endpoint. It reports whether there
// is such a peer.
func (f *Fake) Roam(k netstate.Key, from netip.AddrPort) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.state.Get(k)
	p, isPeer := o.(netstate.WGPeer)
	if !ok || !isPeer {
		return false
	}
	p.Endpoint, p.Roamed = from, true
	f.state.Put(p)
	return true
}
