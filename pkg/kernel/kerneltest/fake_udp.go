package kerneltest

import (
	"syscall"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// putUDP creates or replaces a peer of a link whose packets a program of ours moves. There
// is no event for it.
func (f *Fake) putUDP(p netstate.UDPPeer) error {
	switch l, ok := f.link(p.Link); {
	case !ok:
		return syscall.ENODEV
	case l.Kind != netstate.TunnelUDP:
		return syscall.EOPNOTSUPP
	}
	f.state.Put(p)
	return nil
}

// loseUDP removes the peers of a link.
func (f *Fake) loseUDP(link string) {
	for _, o := range f.all(func(o netstate.Object) bool {
		p, ok := o.(netstate.UDPPeer)
		return ok && p.Link == link
	}) {
		f.state.Delete(o.Key())
	}
}

// StopProgram stops the program that moves a link's packets: the device stays, without
// peers. It reports whether there is such a link.
func (f *Fake) StopProgram(link string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.link(link)
	if !ok || l.UDP == (netstate.UDP{}) {
		return false
	}
	f.loseUDP(link)
	l.UDP = netstate.UDP{}
	f.state.Put(l)
	f.emit(netstate.Event{Object: l}, theirs)
	return true
}
