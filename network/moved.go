package network

import (
	"fmt"
	"strings"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/status"
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

// lists reports whether the store's updates show this node's lease with these attributes.
func (p *peerSet) lists(attrs subnet.Attrs) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.table.Own()
	return own != nil && own.Attrs == attrs
}

// plan returns what follows for the move from s, with what is known of the peers. look adds
// to s what the kernel holds, and returns the peers of whose objects the kernel refuses some.
// No way to a peer changes between the two: so a kernel to which all was given has these ways.
func (p *peerSet) plan(s move.State, look func(*move.State) (refused map[string]bool)) move.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused := look(&s)
	s.Seen = p.seen
	s.Peers = func(yield func(move.Peer) bool) {
		for key, l := range p.table.Peers() {
			m := p.moved[key]
			if !yield(move.Peer{Key: key, Attrs: &l.Attrs, By: m.By, Lacks: m.lacks, Refused: refused[key]}) {
				return
			}
		}
	}
	return s.Plan()
}

// longMove is how long a move may take before it counts as a problem.
const longMove = time.Hour

// moveView is the part of a View about a move.
type moveView struct {
	from  []string
	round int
	since time.Time
	plan  move.Plan
}

// moveView returns how far the move is, or nil if there is none.
func (a *Agent) moveView() *moveView {
	if len(a.moving.former) == 0 {
		return nil
	}
	m := &a.moving
	return &moveView{typesOf(m.former), m.round, m.since, m.plan}
}

// fewWaits is how many of the peers that a move waits for are named.
const fewWaits = 3

// report returns how far the move is, or nil if there is none.
func (m *moveView) report() *status.Move {
	if m == nil {
		return nil
	}
	r := &status.Move{
		Round: m.round, From: m.from, Since: m.since, Peers: m.plan.Peers, Switched: m.plan.Switched, WaitCount: len(m.plan.Waits),
	}
	for _, w := range m.plan.Waits[:min(len(m.plan.Waits), fewWaits)] {
		r.Waits = append(r.Waits, status.MoveWait{Key: w.Key, Name: w.Name, Why: w.Why})
	}
	return r
}

// text says how far the move is, and what it waits for.
func (m *moveView) text() string {
	r := m.report()
	text := fmt.Sprintf("moving from %s: sending to %d of %d peers by the new backend", strings.Join(r.From, ", "), r.Switched, r.Peers)
	for _, w := range r.Waits {
		text += "; waiting for " + w.String()
	}
	if more := r.WaitCount - len(r.Waits); more > 0 {
		text += fmt.Sprintf("; and for %d more peers", more)
	}
	return text
}
