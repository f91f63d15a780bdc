package network

import (
	"iter"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// failsAt returns whether a failure is of a key.
func failsAt(k netstate.Key) func(reconcile.Failing) bool {
	return func(f reconcile.Failing) bool { return f.Key == k }
}

// moved is how far the move of one peer is.
type moved struct {
	move.Before
	lacks error // why the config's backend does not reach it
}

// way returns the way to a peer. The caller holds mu.
func (p *peerSet) way(peer subnet.Peer, m backend.Metrics) move.Way {
	return p.backends.Peer(p.own, *p.routed(peer.Key, peer.Lease), &p.seen, m, p.moved[peer.Key].Before)
}

// remember records the way to a peer for the next one. The caller holds mu.
func (p *peerSet) remember(key string, way move.Way) {
	if p.backends.Moving() {
		p.moved[key] = moved{way.Before, way.Target}
		return
	}
	delete(p.moved, key)
}

// confirm records what the store has of this node.
func (p *peerSet) confirm(known subnet.Attrs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	if p.see() {
		parts := p.work(p.byAge())
		p.desired.Update(parts.set)
	}
}

// see records what the store's updates have said of this node, and reports whether ways to
// peers depend on it and it has changed. A store that does not list this node's own lease
// has it confirmed. The caller holds mu.
func (p *peerSet) see() (changed bool) {
	seen := p.known
	if own := p.table.Own(); own != nil {
		seen = own.Attrs
	}
	changed = p.backends.Moving() && seen != p.seen
	p.seen = seen
	return changed
}

// moves returns what a move depends on of each peer. The kernel refuses objects of some.
func (p *peerSet) moves(refused map[string]bool) iter.Seq[move.Peer] {
	return func(yield func(move.Peer) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for key, l := range p.table.Peers() {
			m := p.moved[key]
			if !yield(move.Peer{Key: key, Attrs: &l.Attrs, By: m.By, Lacks: m.lacks, Refused: refused[key]}) {
				return
			}
		}
	}
}
