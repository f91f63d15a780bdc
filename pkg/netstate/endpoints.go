package netstate

import (
	"net/netip"
	"time"
)

// Endpoints remembers the endpoint that was last set for each WireGuard peer, and which
// peers have since proved to be elsewhere. The zero value is ready.
type Endpoints struct {
	given map[Key]endpoint
}

// endpoint is an endpoint that was set for a peer. roamed means that the peer has since
// proved to be elsewhere.
type endpoint struct {
	set    netip.AddrPort
	roamed bool
}

// ToSet returns the endpoint that a step on a peer must set, or the zero AddrPort: an
// endpoint that was set before does not override where the peer has proved to be since.
func (e *Endpoints) ToSet(v Verb, p WGPeer) netip.AddrPort {
	if before := e.given[p.Key()]; v == Replace && before.roamed && before.set == p.Endpoint {
		return netip.AddrPort{}
	}
	return p.Endpoint
}

// Record remembers that a step on a peer was done, which set an endpoint or, with the
// zero AddrPort, none.
func (e *Endpoints) Record(v Verb, p WGPeer, set netip.AddrPort) {
	switch {
	case v == Delete:
		delete(e.given, p.Key())
	case set.IsValid():
		if e.given == nil {
			e.given = make(map[Key]endpoint)
		}
		e.given[p.Key()] = endpoint{set: set}
	}
}

// Forget drops the endpoints of the peers of a link.
func (e *Endpoints) Forget(link string) {
	for k := range e.given {
		if k.Name == link {
			delete(e.given, k)
		}
	}
}

// Note compares a peer of a dump, which had its last handshake then, with the endpoint
// that was set for it. A peer that proved to be elsewhere has roamed. If this process set
// no endpoint, an earlier process set one: the peer has roamed if its session still lives.
func (e *Endpoints) Note(p *WGPeer, handshake time.Time) {
	k := p.Key()
	is, known := e.given[k]
	if handshake.IsZero() || known && is.set == p.Endpoint {
		p.Roamed = false
	} else {
		p.Roamed = known || time.Since(handshake) < SessionLife
	}
	if known && is.roamed != p.Roamed {
		is.roamed = p.Roamed
		e.given[k] = is
	}
}
