package network

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// ways is what a node with a backend.Router knows about the routes to its peers.
type ways struct {
	notices map[string]subnet.Notice // by key
	own     subnet.Notice
	vetoes  map[string]veto // by key
}

// veto is the reason not to use a peer's routes although its notice confirms them:
// probes that took them did not come back.
type veto struct {
	why    string
	notice subnet.Notice // another one ends it
	until  time.Time
	count  int // in a row
}

// vetoPause is how long a veto lasts. Then the routes are tried again, which costs what is
// sent to the peer until probes have failed twice.
var vetoPause = retry.Backoff{First: 10 * time.Minute, Last: 24 * time.Hour}

// longestDownVeto is the longest veto if the peer's host did not answer either. The
// host may have been down while its route works.
const longestDownVeto = time.Hour

// vetoes reports whether a result proves that a route past the tunnel carries no
// packets. A peer whose host is down loses nothing by the tunnel. A host whose pings
// are filtered looks the same.
func vetoes(r probe.Result) bool {
	return (r.Cause == probe.Filtered || r.Cause == probe.Down) && r.Lasts && r.Tunnel == "" && r.To != r.HostTo
}

// watchNotices passes the notices of the store to the peers.
func (a *Agent) watchNotices(ctx context.Context, store subnet.Noticer) {
	for failures := 1; ; failures++ {
		err := store.WatchNotices(ctx, func(u subnet.Notices) {
			a.call(ctx, func() {
				a.peers.SetNotices(u)
				if !a.noticed {
					a.noticed = true
					close(a.firstNotices)
				}
				a.changed()
			})
		})
		if ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "Watch of the notices of routes ended; restarting it")
		backoff.Sleep(ctx, failures)
	}
}

// followNotices starts to follow notices if the backend needs them.
func (a *Agent) followNotices() {
	store, tells := a.Store.(subnet.Noticer)
	if _, needs := a.backends.Router(); !needs || !tells || a.noticing.done != nil || !a.stored {
		return
	}
	a.firstNotices = make(chan struct{})
	a.restart(&a.noticing, func(ctx context.Context) { a.watchNotices(ctx, store) })
}

// awaitNotices waits a moment for the first notices, so that a restart does not move all
// peers to the tunnel and back.
func (a *Agent) awaitNotices(ctx context.Context, first <-chan struct{}) {
	if first == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// SetNotices applies notices from the store.
func (p *peerSet) SetNotices(u subnet.Notices) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.ways
	w := &ways{notices: u.Set, vetoes: make(map[string]veto)}
	if before != nil {
		w.own, w.vetoes = before.own, before.vetoes
	}
	touched := make([]string, 0, len(u.Set)+len(u.Gone))
	for key := range u.Set {
		touched = append(touched, key)
	}
	switch {
	case !u.Complete && before != nil:
		w.notices, touched = before.notices, append(touched, u.Gone...)
		for key, n := range u.Set {
			w.notices[key] = n
		}
		for _, key := range u.Gone {
			delete(w.notices, key)
		}
	case before != nil:
		for key := range before.notices {
			touched = append(touched, key)
		}
	}
	p.ways = w
	for key, v := range w.vetoes {
		if w.notices[key] != v.notice {
			delete(w.vetoes, key)
		}
	}
	own := w.own
	if slices.ContainsFunc(touched, p.isOwn) {
		p.findOwn()
	}
	if w.own != own {
		touched = touched[:0]
		for key := range p.table.Peers() {
			touched = append(touched, key)
		}
	}
	p.reroute(touched)
}

// findOwn looks up the notice of this node's own lease. It ignores one about an earlier
// holder of the subnet. The caller holds mu.
func (p *peerSet) findOwn() {
	if p.ways == nil {
		return
	}
	p.ways.own = subnet.Notice{}
	for key, n := range p.ways.notices {
		if p.isOwn(key) && n.Names(&p.own) {
			p.ways.own = n
		}
	}
}

// isOwn reports whether a key is that of this node's lease. It may name a subnet of a
// family that is off, which the lease lacks.
func (p *peerSet) isOwn(key string) bool {
	subnets, err := subnet.ParseKey(key)
	for f, s := range p.own.Subnets {
		if err != nil || s.IsValid() && subnets[f] != s {
			return false
		}
	}
	return true
}

// reroute computes the objects of some peers again. The caller holds mu.
func (p *peerSet) reroute(keys []string) {
	var peers []subnet.Peer
	for _, key := range keys {
		if l := p.table.Peer(key); l != nil {
			peers = append(peers, subnet.Peer{Key: key, Lease: l})
		}
	}
	parts := p.work(peers)
	p.desired.Update(func(d *reconcile.Desired) { parts.set(d) })
}

// routed returns a peer's lease with the present Routed and Second, whatever those of l are. The
// caller holds mu.
func (p *peerSet) routed(key string, l *subnet.Lease) *subnet.Lease {
	second := p.tunnels.second[key]
	if p.ways == nil && l.Second == second && l.Routed == (subnet.Pair[bool]{}) {
		return l
	}
	copied := *l
	copied.Routed, copied.Second = subnet.Pair[bool]{}, second
	if p.ways == nil {
		return &copied
	}
	if v, vetoed := p.ways.vetoes[key]; !vetoed || v.until.IsZero() {
		copied.Routed = p.ways.notices[key].Routes(p.ways.own, l)
	}
	return &copied
}

// detour is why packets to a peer take the tunnel: one of status.Detours, and a text. The
// zero detour is none.
type detour struct{ reason, why string }

// whyTunnel returns why packets to a peer take the tunnel. The caller holds mu.
func (p *peerSet) whyTunnel(key string, l *subnet.Lease, router backend.Router) detour {
	if p.ways == nil {
		return detour{status.DetourWaiting, "the notices of routes are not read yet"}
	}
	peer, own := p.ways.notices[key], p.ways.own
	if v, vetoed := p.ways.vetoes[key]; vetoed && !v.until.IsZero() {
		return detour{status.DetourVetoed, "its route does not carry packets: " + v.why + "; it is tried again at " + v.until.Format(time.TimeOnly)}
	}
	switch {
	case own.Network == "":
		return detour{status.DetourSender, "no controller says that this node's instance may send without the tunnel"}
	case peer.Network == "":
		return detour{status.DetourUnannounced, "no controller says anything of its routes"}
	case !peer.Names(l):
		return detour{status.DetourUnannounced, "the controller's notice is about another host that had its subnet"}
	case peer.Network != own.Network:
		return detour{status.DetourNetwork, fmt.Sprintf("it is in the network %s, and this node in %s", peer.Network, own.Network)}
	}
	routed := peer.Routes(own, l)
	for f, s := range l.Subnets {
		if s.IsValid() && p.own.Subnets[f].IsValid() && !routed[f] {
			return detour{status.DetourNoRoute, fmt.Sprintf("its subnet %s is not routed in all tables of %s", s, own.Network)}
		}
	}
	for f, s := range l.Subnets {
		if s.IsValid() && p.own.Subnets[f].IsValid() && !router.CanRoute(s) {
			return detour{status.DetourUplink, fmt.Sprintf("this host's uplink has no default route through a router that can take packets to %s", s)}
		}
	}
	return detour{}
}

// tunnelled returns why packets to peers take the tunnel, by key. It is nil with a backend
// that has no other way. The caller holds mu.
func (p *peerSet) tunnelled() map[string]detour {
	router, is := p.backends.Router()
	if !is {
		return nil
	}
	all := make(map[string]detour)
	for key, l := range p.table.Peers() {
		if d := p.whyTunnel(key, l, router); d != (detour{}) {
			all[key] = d
		}
	}
	return all
}

// veto stops the use of a peer's routes after probes that took them failed twice, and
// returns until when. ok is false if they were not used.
func (p *peerSet) veto(r probe.Result, now time.Time) (until time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.table.Peer(r.Peer)
	if l == nil || p.ways == nil || p.routed(r.Peer, l).Routed == (subnet.Pair[bool]{}) {
		return until, false
	}
	v := p.ways.vetoes[r.Peer]
	v.why, v.notice = r.Why(), p.ways.notices[r.Peer]
	v.count++
	pause := vetoPause.After(v.count)
	if r.Cause == probe.Down {
		pause = min(pause, longestDownVeto)
	}
	v.until = now.Add(pause)
	p.ways.vetoes[r.Peer] = v
	p.reroute([]string{r.Peer})
	return v.until, true
}

// lift ends the vetoes whose time is over, and returns when the next one ends.
func (p *peerSet) lift(now time.Time) (next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ways == nil {
		return next
	}
	var lifted []string
	for key, v := range p.ways.vetoes {
		switch {
		case v.until.IsZero():
		case !now.Before(v.until):
			v.until = time.Time{}
			p.ways.vetoes[key] = v
			lifted = append(lifted, key)
		case next.IsZero() || v.until.Before(next):
			next = v.until
		}
	}
	p.reroute(lifted)
	return next
}

// vetoRoutes takes failing probes past the tunnel for the proof that a route carries no
// packets. It runs in Run's goroutine.
func (a *Agent) vetoRoutes(failing []probe.Result) {
	if a.peers == nil {
		return
	}
	now := time.Now()
	for _, r := range failing {
		if !vetoes(r) {
			continue
		}
		if until, ok := a.peers.veto(r, now); ok {
			klog.InfoS("Route of a peer carries no packets; sending through the tunnel", "key", r.Peer, "node", r.Name, "reason", r.Why(), "again", until.Round(time.Second))
		}
	}
	a.liftVetoes()
}

// liftVetoes ends the vetoes whose time is over, and waits for the next one.
func (a *Agent) liftVetoes() {
	if a.peers == nil {
		return
	}
	now := time.Now()
	if next := a.peers.lift(now); !next.IsZero() {
		a.lifting.Reset(next.Sub(now))
	}
}
