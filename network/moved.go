package network

import (
	"fmt"
	"iter"
	"time"

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

// longMove is how long a move may take before it counts as a problem.
const longMove = time.Hour

// moveView is the part of a View about a move.
type moveView struct {
	from  string
	since time.Time
	plan  move.Plan
}

// moveView returns how far the move is, or nil if there is none.
func (a *Agent) moveView() *moveView {
	if len(a.moving.former) == 0 {
		return nil
	}
	return &moveView{typesOf(a.moving.former), a.moving.since, a.moving.plan}
}

// text says how far the move is, and what it waits for.
func (m *moveView) text() string {
	text := fmt.Sprintf("moving from %s: sending to %d of %d peers by the new backend", m.from, m.plan.Switched, m.plan.Peers)
	for i, w := range m.plan.Waits {
		if i == fewWaits {
			return text + fmt.Sprintf("; and for %d more peers", len(m.plan.Waits)-i)
		}
		name := w.Key
		if w.Name != "" {
			name = w.Name + " (" + w.Key + ")"
		}
		text += fmt.Sprintf("; waiting for %s: %s", name, w.Why)
	}
	return text
}

// fewWaits is how many of the peers that a move waits for are named.
const fewWaits = 3
