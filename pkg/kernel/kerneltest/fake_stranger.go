package kerneltest

import "github.com/tulle-net/tulle/pkg/netstate"

// Put creates or replaces o as another program would, with the events that follow. It
// fails as the kernel would.
func (f *Fake) Put(o netstate.Object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.put(netstate.Replace, o, theirs)
}

// Delete removes the object with key k as another program would, and reports whether
// there was one.
func (f *Fake) Delete(k netstate.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch k.Kind {
	case netstate.KindLink:
		_, ok := f.link(k.Name)
		f.deleteLink(k.Name)
		return ok
	case netstate.KindSysctl:
		return false // a setting can only be changed
	case netstate.KindWGPeer, netstate.KindWGAllowed:
		return f.removeWireGuard(k)
	case netstate.KindUDPPeer:
		return false // no other program reaches the one that has it
	default:
		return f.drop(k, theirs)
	}
}

// DeleteLink removes a link with everything on it or through it.
func (f *Fake) DeleteLink(name string) { f.Delete(netstate.Link{Name: name}.Key()) }

// LinkDown takes a link down.
func (f *Fake) LinkDown(name string) { f.setUp(name, false) }

// LinkUp brings a link up. What it lost when it went down stays lost.
func (f *Fake) LinkUp(name string) { f.setUp(name, true) }

func (f *Fake) setUp(name string, up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, ok := f.link(name); ok {
		l := was
		l.Up = up
		f.changeLink(was, l)
	}
}
