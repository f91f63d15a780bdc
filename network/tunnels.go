package network

import (
	"slices"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// tunnelSet chooses between the two tunnels to a peer while a key is replaced. The choice
// depends on nothing but the leases and the kernel's sessions, so that a restart makes
// the same one.
type tunnelSet struct {
	offers   map[string]bool                         // the peers that offer a second tunnel, by key
	two      map[string]subnet.Pair[backend.Tunnels] // of peers that can be reached by two, by key
	second   map[string]subnet.Pair[bool]            // the families in which the second is used, by key
	sessions map[backend.SessionKey]netstate.Session // as read at the time read
	before   map[backend.SessionKey]netstate.Session // as read before that
	read     time.Time
	since    time.Time // when this node's first device got a new key; handshakes before it do not count
}

func newTunnelSet() tunnelSet {
	return tunnelSet{offers: make(map[string]bool), two: make(map[string]subnet.Pair[backend.Tunnels]), second: make(map[string]subnet.Pair[bool])}
}

// find finds the tunnels to a peer, and chooses between them.
func (t *tunnelSet) find(b move.Backends, own subnet.Lease, peer subnet.Peer) {
	r, is := b.Rotator()
	if !is {
		return
	}
	l := *peer.Lease
	if l.Attrs, is = l.As(r.Type); !is {
		t.remove(peer.Key)
		return
	}
	if r.Offers(&l) {
		t.offers[peer.Key] = true
	} else {
		delete(t.offers, peer.Key)
	}
	if two := r.Tunnels(own, l); two != (subnet.Pair[backend.Tunnels]{}) {
		t.two[peer.Key] = two
	} else {
		delete(t.two, peer.Key)
	}
	t.choose(peer.Key)
}

// remove removes a peer that is gone.
func (t *tunnelSet) remove(key string) {
	delete(t.offers, key)
	delete(t.two, key)
	delete(t.second, key)
}

// choose chooses the tunnels to a peer by the sessions that are known, and reports whether
// the choice has changed.
func (t *tunnelSet) choose(key string) (changed bool) {
	before, now := t.second[key], subnet.Pair[bool]{}
	for f, both := range t.two[key] {
		now[f] = t.state(both).second
	}
	if now == before {
		return false
	}
	if t.second[key] = now; now == (subnet.Pair[bool]{}) {
		delete(t.second, key)
	}
	return true
}

// tunnelState is what the sessions prove about two tunnels.
type tunnelState struct {
	alive  bool // the peer is
	first  bool // the first one works, with this node's present key
	second bool // the second one is to be used
	behind bool // the peer still sends through the second one
}

func (t *tunnelSet) state(both backend.Tunnels) (s tunnelState) {
	if both == (backend.Tunnels{}) {
		return s
	}
	first, second := t.sessions[both.First], t.sessions[both.Second]
	works := t.lives(second)
	s.alive = t.lives(first) || works
	s.first = t.lives(first) && !first.Handshake.Before(t.since)
	s.second = works && (both.PreferSecond || !s.first)
	s.behind = carried(t.before[both.Second], second)
	return s
}

// carried reports whether a peer sent packets through a session between two readings. It
// ignores one keepalive, and any interval with a handshake, whose messages also count as
// received.
func carried(before, now netstate.Session) bool {
	const keepalive = 32 // bytes
	return now.Handshake.Equal(before.Handshake) && now.Received > before.Received+keepalive
}

// lives reports whether packets could pass a session when it was read. A handshake in the
// future proves that a clock was set back, and nothing else.
func (t *tunnelSet) lives(s netstate.Session) bool {
	const skew = time.Second
	age := t.read.Sub(s.Handshake)
	return !s.Handshake.IsZero() && age > -skew && age < netstate.SessionLife
}

// elsewhere returns the keys of the live peers that are not where this node's rotation needs
// them: reached through the second tunnel; or reached through the first, and sending nothing
// through the second.
func (t *tunnelSet) elsewhere(second bool) (keys []string) {
	for key, pair := range t.two {
		for _, both := range pair {
			s := t.state(both)
			if s.alive && (s.second != second || !second && (!s.first || s.behind)) {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// offered reports whether any peer offers a second tunnel.
func (p *peerSet) offered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tunnels.offers) > 0
}

// twoTunnels reports whether any peer can be reached by two tunnels.
func (p *peerSet) twoTunnels() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tunnels.two) > 0
}

// anyWithTwo reports whether any key that the kernel refuses is of a peer with two tunnels.
func (p *peerSet) anyWithTwo(failing []reconcile.Failing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(failing, func(f reconcile.Failing) bool {
		_, two := p.tunnels.two[f.Owner]
		return two
	})
}

// forgetHandshakes disregards those of the first tunnels before since.
func (p *peerSet) forgetHandshakes(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tunnels.since = since
}

// setSessions chooses the tunnels of all peers by sessions that were read just now.
func (p *peerSet) setSessions(sessions []netstate.Session, read time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tunnels.before, p.tunnels.sessions, p.tunnels.read = p.tunnels.sessions, byKey(sessions), read
	var changed []string
	for key := range p.tunnels.two {
		if p.tunnels.choose(key) {
			changed = append(changed, key)
		}
	}
	if len(changed) > 0 {
		p.reroute(changed)
	}
}

// elsewhere returns the names of the peers that are alive and not reached as this node's
// rotation needs it.
func (p *peerSet) elsewhere(second bool) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.tunnels.elsewhere(second) {
		if l := p.table.Peer(key); l != nil {
			names = append(names, l.Holder())
		}
	}
	return names
}
