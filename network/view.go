package network

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// View is the state of a node at one moment. Readiness, reports and explanations are
// functions of it, so that each request asks the agent once.
type View struct {
	At time.Time
	// Stuck is why Run's goroutine did not answer. The fields that only it knows are
	// then empty.
	Stuck error

	Node     subnet.Node
	Kernel   reconcile.Status
	Firewall firewall.Status
	Files    map[string]error // the files that are out of date, and why
	// FileFights are the files that other programs keep changing.
	FileFights map[string]budget.Fight
	Probes     *probes // nil if probes are disabled
	// Sessions are the encrypted ones. It is nil in a View that was not asked for them, and
	// with other backends than wireguard.
	Sessions *sessionsView
	// Keys is this node's key. It is nil with other backends than wireguard.
	Keys *keysView
	// LeaseEnds is when the node's lease ends unless it is renewed; the zero Time if
	// it does not end, or while that is unknown.
	LeaseEnds time.Time

	// The following fields come from Run's goroutine.

	Waiting map[reason]string // what the node waits for
	// Remembered is when the network in use was saved, while the store does not
	// answer.
	Remembered    time.Time
	Config        subnet.Config
	Backends      move.Backends // zero until there is one
	Move          *moveView     // nil unless the node moves to another backend
	Interfaces    hostif.Interfaces
	uplinkSetting string       // the name of the setting that chooses the uplink
	Own           subnet.Lease // the zero Lease until there is one
	Clone         *status.Clone
	Offload       *status.Offload // nil unless checksums are broken
	Since         time.Time       // when the store leased Own to this run
	Peers         peersView
}

// peersView is the part of a View about peers. It is zero until there is a lease.
type peersView struct {
	Known         bool
	Count         int
	All           []subnet.Peer        // nil in a View without peers
	Rejected      []*subnet.LeaseError // the first few in a View without peers
	RejectedCount int
	Reserved      int               // reservations that no node uses
	Unroutable    map[string]error  // by key
	Tunnelled     map[string]detour // why packets take the tunnel, by key; nil if the backend has no other way
	host          []netstate.Object // what the node needs with or without peers
	way           func(*subnet.Peer) move.Way
}

// probes are the prober's findings in a View.
type probes struct {
	probe.Summary
	of func(key string) (probe.Result, bool)
	// since returns how many peers were probed in the overlay since a time, and how many
	// of them answered.
	since func(time.Time) (passed, tried int)
	// link is the link that the kernel uses for the first failing peer, if no peer
	// answers. It is "" without a route, and nil if unknown.
	link *string
}

// answerLimit is how long Run's goroutine may take to answer. Nothing that it does
// takes as long.
const answerLimit = 2 * time.Second

// extent is how much of the peers a View contains.
type extent bool

const (
	withoutPeers extent = false
	withPeers    extent = true
)

// View returns a View without the peers themselves.
func (a *Agent) View(ctx context.Context) View { return a.view(ctx, withoutPeers) }

func (a *Agent) view(ctx context.Context, e extent) View {
	v, err := askLoop(ctx, a, func() View { return a.loopView(e) })
	v.Stuck = err
	a.addOtherFacts(ctx, &v)
	return v
}

// askLoop is callAndWait for at most answerLimit.
func askLoop[T any](ctx context.Context, a *Agent, f func() T) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("it had %s", answerLimit))
	defer cancel()
	answer, ok := callAndWait(ctx, a, f)
	if !ok {
		return answer, fmt.Errorf("the daemon's main loop did not answer: %w", context.Cause(ctx))
	}
	return answer, nil
}

// loopView returns what Run's goroutine knows. It runs in that goroutine.
func (a *Agent) loopView(e extent) View {
	v := View{
		Waiting: maps.Clone(a.waiting), Remembered: a.savedAt, Config: a.config, Backends: a.backends,
		Keys: a.keysView(), Interfaces: a.host, uplinkSetting: a.Uplinks.Names.OrWords().Iface, Own: a.own, Clone: a.clone(), Offload: a.offloadReport(), Since: a.since,
	}
	v.Move = a.moveView()
	if a.peers != nil {
		// The peers matter only while the uplink is in doubt.
		_, uplinkLost := a.waiting[onUplink]
		v.Peers = a.peers.view(e || extent(uplinkLost))
	}
	return v
}

// addOtherFacts adds what other goroutines know.
func (a *Agent) addOtherFacts(ctx context.Context, v *View) {
	v.At, v.Node, v.Kernel, v.Firewall, v.Files = time.Now(), a.node(), a.loop.Status(), a.Firewall.Status(), a.Files.Failing()
	v.FileFights = a.Files.Fights()
	if a.LeaseEnds != nil {
		v.LeaseEnds = a.LeaseEnds()
	}
	if a.Prober == nil {
		return
	}
	v.Probes = &probes{Summary: a.Prober.Summary(), of: a.Prober.Of, since: a.Prober.Since}
	if v.Probes.unheard() {
		if path, err := a.Kernel.RouteTo(ctx, v.Probes.Failing[0].HostTo); err == nil {
			v.Probes.link = &path.Link
		}
	}
}

// view returns the peers for a View.
func (p *peerSet) view(e extent) peersView {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := peersView{
		Known: true, Count: p.table.Len(), RejectedCount: p.table.CountRejected(), Reserved: p.table.Reserved(), Unroutable: maps.Clone(p.unroutable),
		Tunnelled: p.tunnelled(), host: p.hostObjects(),
	}
	if e == withPeers {
		v.All, v.Rejected = p.all(), p.table.Rejected()
		own, backends, seen, moves := p.own, p.backends, p.seen, maps.Clone(p.moved)
		v.way = func(peer *subnet.Peer) move.Way {
			return backends.Peer(own, *peer.Lease, &seen, backend.PlainMetrics, moves[peer.Key].Before)
		}
	} else {
		v.Rejected = p.table.FirstRejected(fewRejected)
	}
	return v
}

// wants returns the objects that the kernel should hold for a peer.
func (p peersView) wants(peer *subnet.Peer) []netstate.Object { return p.way(peer).Objects }

// devices returns the names of this node's tunnel devices, its own and adopted ones.
func (p peersView) devices() (names []string) {
	if !p.Known {
		return nil
	}
	for _, o := range p.host {
		if l, isLink := o.(netstate.Link); isLink {
			names = append(names, l.Name)
		}
	}
	return names
}

// listed reports whether all peers are known, from the store or from a saved list.
func (v View) listed() bool { return v.Kernel.Complete || !v.Remembered.IsZero() }

// onLink reports whether this host reaches all peers without a router, from the
// addresses that it publishes. It is false without peers.
func (v View) onLink() bool {
	here := backend.HostFacts{OnLink: v.Interfaces.OnLink}
	for _, p := range v.Peers.All {
		for f, to := range p.Lease.PublicIP {
			if !to.IsValid() || !v.Config.Pools[f].IsValid() {
				continue
			}
			if _, direct := here.Direct(to); !direct || !v.Interfaces.Holds[f] {
				return false
			}
		}
	}
	return len(v.Peers.All) > 0
}
