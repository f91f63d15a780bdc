package network

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// ownerMove is the owner of the objects that the node needs for other backends than the one
// that it publishes as its primary.
const ownerMove = "move"

const (
	// movePause is the pause between two looks at the progress of a move, and movePeer is
	// added to it for each peer: each step is a write of every node that every node reads.
	movePause = 300 * time.Millisecond
	movePeer  = time.Millisecond
	// unusedFor is how long the node holds a backend that no peer sends by any more: longer
	// than the store takes to tell a peer.
	unusedFor = 10 * time.Second
)

// moving is the agent's part of a move.
type moving struct {
	former []subnet.Backend // that the node holds beside the config's, the latest first
	round  int              // see subnet.Move
	since  time.Time        // of the present move; the zero Time without one
	timer  *time.Timer      // of the next look
	unused map[string]time.Time
	plan   move.Plan // at the last look
}

// known returns what peers may have read of this node: the present claim until the store
// answers it, because the store may have it already; then what the store confirmed.
func (a *Agent) known() subnet.Attrs {
	if a.claiming {
		return a.claim.Attrs
	}
	if a.confirmed != (subnet.Attrs{}) {
		return a.confirmed
	}
	return a.before.Attrs
}

// carry makes the node hold what it held before beside the backend of cfg.
func (a *Agent) carry(cfg subnet.Config) {
	former := a.moving.former
	if a.config.Backend.Type != "" {
		former = append([]subnet.Backend{a.config.Backend}, former...)
	}
	held := map[string]bool{cfg.Backend.Type: true}
	former = slices.DeleteFunc(slices.Clone(former), func(b subnet.Backend) bool {
		again := held[b.Type]
		held[b.Type] = true
		return again
	})
	if subnets := a.published().Subnets; !cfg.Allows(subnets) {
		former = nil
	}
	a.hold(former, cfg.Backend.Type)
}

// hold makes the node hold former beside target.
func (a *Agent) hold(former []subnet.Backend, target string) {
	m := &a.moving
	m.former, m.unused = former, make(map[string]time.Time)
	if len(former) == 0 {
		m.since = time.Time{}
		return
	}
	known := a.known()
	if m.round = known.Round(); m.round == 0 || !known.Speaks(target) || a.config.Backend.Type != "" && a.config.Backend.Type != target {
		m.round++
	}
	if m.since.IsZero() || a.config.Backend.Type != target {
		m.since, m.plan = time.Now(), move.Plan{}
	}
	if a.listed && a.Outputs.StateDir != "" {
		a.saving = true
		a.save.Reset(0) // the next run must hold the same
	}
	klog.InfoS("Moving to another backend", "to", target, "from", strings.Join(typesOf(former), ", "))
	a.lookSoon()
}

func typesOf(backends []subnet.Backend) []string {
	types := make([]string, len(backends))
	for i, b := range backends {
		types[i] = b.Type
	}
	return types
}

// lookSoon schedules the next look at the progress of a move.
func (a *Agent) lookSoon() {
	pause := movePause
	if a.peers != nil {
		pause += time.Duration(a.peers.Len()) * movePeer
	}
	a.moving.timer.Reset(pause)
}

// makeBackends returns the backend of the config in force, and those that the node moves
// away from.
func (a *Agent) makeBackends() (move.Backends, error) {
	target, err := a.makeBackend(a.config)
	if err != nil {
		return move.Backends{}, err
	}
	held := []move.Held{{Type: a.config.Backend.Type, Backend: target}}
	former := a.moving.former[:0:0]
	for _, old := range a.moving.former {
		cfg := a.config
		cfg.Backend = old
		b, err := a.makeBackend(cfg)
		repeated := errors.Is(err, netstate.ErrRepeated)
		switch {
		case errors.Is(err, netstate.ErrUnfinished) && !repeated:
			return move.Backends{}, err
		case err != nil: // the target does not depend on it
			klog.ErrorS(err, "Failed to set up the former backend; giving it up", "backend", old.Type)
			if repeated {
				_, _ = a.Prepare("", 0)
			}
			continue
		}
		held, former = append(held, move.Held{Type: old.Type, Backend: b}), append(former, old)
	}
	a.moving.former = former
	return move.New(a.moving.round, a.host.Uplinks[subnet.IPv4].Link, held...), nil
}

// planMove returns what follows for the move from what is known now. The loop is given all
// that the backends need, unless one of them has just changed.
func (a *Agent) planMove(given bool) move.Plan {
	s := move.State{Held: a.backends.Types(), Published: a.known(), Peers: func(func(move.Peer) bool) {}}
	if a.peers == nil {
		return s.Plan()
	}
	return a.peers.plan(s, func(s *move.State) (refused map[string]bool) {
		kernel := a.loop.Status()
		refused = make(map[string]bool)
		for _, f := range kernel.Failing {
			refused[f.Owner] = true
		}
		s.Settled = given && a.backends.Moving() && a.listed && kernel.Pending == 0 && kernel.Tried
		s.InPlace = s.Settled && a.released()
		if refused[ownerHost] || refused[ownerMove] {
			for _, o := range a.backends.Target().Host(a.own) {
				s.InPlace = s.InPlace && !slices.ContainsFunc(kernel.Failing, failsAt(o.Key()))
			}
		}
		return refused
	})
}

// released reports whether no rule of a former backend that was strict drops what takes
// another way. The rules are changed beside the loop, and that may fail.
func (a *Agent) released() bool {
	if !a.backends.LeavesStrict() {
		return true
	}
	rules := a.Firewall.Status()
	return rules.Tried && rules.Err == nil
}

// look continues a move: it publishes what follows now, and gives up backends that no peer
// needs.
func (a *Agent) look() {
	if len(a.moving.former) == 0 {
		return
	}
	defer a.lookSoon()
	if a.peers == nil || !a.backends.Moving() || a.backends.Target().Type != a.config.Backend.Type {
		return // the backend of the config cannot be set up
	}
	before := a.moving.plan
	plan := a.planMove(true)
	a.moving.plan = plan
	if len(plan.Waits) != len(before.Waits) {
		a.changed()
	}
	a.stillUnneeded(plan.Unneeded)
	if a.pending != (subnet.Config{}) && a.peers.lists(a.claim.Attrs) { // keep asks for nothing then
		a.confirmed, a.claiming = a.claim.Attrs, false
	}
	if a.claiming {
		return // each step needs that the one before is in the store
	}
	if a.giveUp(plan.Unneeded) || a.attrs(plan) != a.claim.Attrs {
		a.refreshBy(&plan)
	}
}

// stillUnneeded forgets since when backends were unneeded that are needed again.
func (a *Agent) stillUnneeded(unneeded []string) {
	maps.DeleteFunc(a.moving.unused, func(kind string, _ time.Time) bool { return !slices.Contains(unneeded, kind) })
}

// giveUp stops holding the backends that were unneeded for long enough, and reports whether
// there are any.
func (a *Agent) giveUp(unneeded []string) (any bool) {
	m, now := &a.moving, time.Now()
	for _, kind := range unneeded {
		since, counted := m.unused[kind]
		if !counted {
			m.unused[kind] = now
			continue
		}
		if now.Sub(since) < unusedFor {
			continue
		}
		klog.InfoS("No peer uses the former backend any more; removing it", "backend", kind)
		m.former = slices.DeleteFunc(slices.Clone(m.former), func(b subnet.Backend) bool { return b.Type == kind })
		any = true
	}
	if len(m.former) == 0 {
		klog.InfoS("Moved to another backend", "to", a.config.Backend.Type, "took", now.Sub(m.since).Round(time.Millisecond))
		m.since = time.Time{}
	}
	return any
}

// attrs returns what the node publishes by a plan.
func (a *Agent) attrs(p move.Plan) subnet.Attrs {
	attrs := a.backends.Publish(p)
	attrs.Node.ID, attrs.Node.Name, attrs.Node.Instance = a.Node.ID, a.Node.Name, a.Node.Instance
	return attrs
}
