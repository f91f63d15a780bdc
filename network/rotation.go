package network

import (
	"context"
	"slices"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

// Keys keeps a node's WireGuard keys.
type Keys interface {
	// State returns the keys of an instance of this node, and makes a key if there is none.
	State(instance string) (wgkey.State, error)
	// Rotate takes the next step of a rotation if it is due, and reports whether it was. It
	// may wait for a disk.
	Rotate(instance string, f wgkey.Facts) (changed bool, err error)
}

// rotation is what a node knows of the replacement of its key. It belongs to Run's
// goroutine, except for wake.
type rotation struct {
	wake      retry.Wakeup // something that it depends on has changed
	offered   bool         // a peer offers a second tunnel
	listed    bool         // offered is about all peers
	stored    subnet.Attrs // as the store returned them last
	elsewhere []string     // names of peers that the present step waits for
	problem   string       // why no step can be taken
}

const (
	// rotationTick is the interval of a look at the sessions while a key is replaced, and
	// idleTick that of a look for a reason to replace the own key.
	rotationTick = time.Second
	idleTick     = 5 * time.Second
	// failedPause is the pause after a step that could not be taken.
	failedPause = 30 * time.Second
)

// rotateKeys follows the replacement of this node's key and of its peers' keys until ctx
// ends.
func (a *Agent) rotateKeys() {
	r := rotator{Agent: a, failing: trouble.Outcome{Failed: "Failed to replace the WireGuard key; retrying", Works: "The WireGuard key can be replaced again"}}
	for a.ctx.Err() == nil {
		next := time.NewTimer(r.turn(a.ctx))
		select {
		case <-a.ctx.Done():
		case <-a.rotation.wake:
		case <-next.C:
		}
		next.Stop()
	}
}

// rotator follows the replacement of keys. It measures how long the present step lasts
// with the monotonic clock. After a restart it begins again.
type rotator struct {
	*Agent
	failing trouble.Outcome
	step    wgkey.Step
	here    time.Time // when the step had begun and its data was in the store; zero before
	settled time.Time // since when no live peer has been elsewhere; it begins once the kernel has the chosen routes
	paused  time.Time // no step before
}

// rotationView is what the rotator needs to know of the agent.
type rotationView struct {
	instance  string
	links     []string // that have sessions; nil with other backends than a Rotator
	keys      backend.WireGuardKeys
	maxAge    time.Duration
	two       bool // there is a peer with two tunnels
	known     bool // all peers are known
	published bool // the store has what the backend publishes
}

// rotationView runs in Run's goroutine.
func (a *Agent) rotationView() (v rotationView) {
	b, rotates := a.backends.Rotator()
	if !rotates || a.peers == nil {
		return v
	}
	stored, _ := a.rotation.stored.As(b.Type)
	v.instance, v.keys, v.maxAge = a.Node.Instance, b.Keys(), b.KeyAge()
	v.two, v.known = a.peers.twoTunnels(), a.listed
	v.published = a.pending == (subnet.Config{}) && b.Publish().BackendData == stored.BackendData
	v.links = wireguardLinks(b.Host(a.own))
	return v
}

// wireguardLinks returns the names of the wireguard devices among objects.
func wireguardLinks(objects []netstate.Object) (links []string) {
	for _, o := range objects {
		if l, isLink := o.(netstate.Link); isLink && l.IsWireGuard() {
			links = append(links, l.Name)
		}
	}
	return links
}

// turn looks once, and returns when to look again.
func (r *rotator) turn(ctx context.Context) time.Duration {
	v, ok := callAndWait(ctx, r.Agent, r.rotationView)
	if !ok || len(v.links) == 0 {
		return idleTick
	}
	now := time.Now()
	state, err := r.Keys.State(v.instance)
	if err == nil && v.keys != (backend.WireGuardKeys{Device: state.Device, Published: state.Published, Second: state.Second}) {
		// The backend could not be made with the present keys, or is about to be.
		r.call(ctx, r.refresh)
		return rotationTick
	}
	var found seen
	if err == nil && v.two {
		found, err = r.look(ctx, v, state)
	}
	if err == nil && !now.Before(r.paused) {
		var changed bool
		if changed, err = r.Keys.Rotate(v.instance, r.facts(v, state, found, now)); changed {
			r.call(ctx, r.refresh)
			r.wake()
		}
	}
	if ctx.Err() != nil {
		return idleTick // whatever failed, failed because of that
	}
	if err != nil {
		r.paused = now.Add(failedPause)
	}
	if err != nil || !now.Before(r.paused) {
		r.failing.Was(err)
	}
	r.call(ctx, func() {
		r.rotation.elsewhere = found.elsewhere
		if r.rotation.problem = ""; r.failing.Err() != nil {
			r.rotation.problem = r.failing.Err().Error()
		}
	})
	if v.two || state.Step != wgkey.None {
		return rotationTick
	}
	return idleTick
}

// wake makes the next turn follow at once.
func (r *rotator) wake() { r.rotation.wake.Wake() }

// seen is what a look has found.
type seen struct {
	elsewhere []string // the peers that this node's rotation waits for
	inKernel  bool     // the kernel has the tunnels that were chosen
}

// look reads the sessions, and chooses the peers' tunnels by them.
func (r *rotator) look(ctx context.Context, v rotationView, s wgkey.State) (found seen, err error) {
	sessions, err := r.Sessions(ctx, v.links)
	if err != nil {
		r.settled = time.Time{}
		return seen{}, err
	}
	found, _ = callAndWait(ctx, r.Agent, func() (found seen) {
		r.peers.setSessions(sessions.Peers, time.Now())
		if s.Step != wgkey.None {
			found.elsewhere = r.peers.elsewhere(s.Step != wgkey.Return)
			slices.Sort(found.elsewhere)
			found.inKernel = r.hasTunnels()
		}
		return found
	})
	return found, nil
}

// hasTunnels reports whether the kernel has the chosen tunnels of all peers with two.
func (r *rotator) hasTunnels() bool {
	kernel := r.loop.Status()
	return kernel.Pending == 0 && kernel.Tried && !r.peers.anyWithTwo(kernel.Failing)
}

// newSince returns since when the first device has its present key, if that is recent.
func newSince(s wgkey.State) time.Time {
	if s.Step == wgkey.Return {
		return s.Since
	}
	return time.Time{}
}

// facts returns what decides about the next step. Nothing has settled before the kernel has
// what was chosen: until then, packets take the former tunnels. What other programs change
// later makes no difference, or they could hold a step up for ever.
func (r *rotator) facts(v rotationView, s wgkey.State, found seen, now time.Time) wgkey.Facts {
	if s.Step != r.step {
		r.step, r.here, r.settled = s.Step, time.Time{}, time.Time{}
	}
	if !v.known || len(found.elsewhere) > 0 {
		r.settled = time.Time{}
	} else if r.settled.IsZero() && (found.inKernel || !v.two) {
		r.settled = now
	}
	switch {
	case !v.published && s.Step != wgkey.Return || !v.known:
		r.here = time.Time{}
	case r.here.IsZero():
		r.here = now
	}
	f := wgkey.Facts{Now: now, MaxAge: v.maxAge, Known: v.known, Published: v.published}
	if !r.here.IsZero() {
		f.Here = now.Sub(r.here)
	}
	if !r.settled.IsZero() {
		f.Settled = now.Sub(r.settled)
	}
	return f
}

// followOffers makes another backend that replaces keys when the first peer offers a second
// tunnel or the last one no longer does, and once all peers are known. For any other backend
// it would compute all peers again for nothing.
func (a *Agent) followOffers() {
	if a.peers == nil || a.Keys == nil {
		return
	}
	offered := a.peers.offered()
	changed := offered != a.rotation.offered || a.listed && !a.rotation.listed
	a.rotation.offered, a.rotation.listed = offered, a.listed
	if _, rotates := a.backends.Rotator(); rotates && changed {
		a.refresh()
		a.rotation.wake.Wake()
	}
}

// forgetHandshakes disregards handshakes of the first device with its former key, so that no
// peer returns to that device before it has a session with the present one.
func (a *Agent) forgetHandshakes() {
	if _, rotates := a.backends.Rotator(); !rotates || a.Keys == nil {
		return
	}
	if s, err := a.Keys.State(a.Node.Instance); err == nil { // refresh has reported another
		a.peers.forgetHandshakes(newSince(s))
	}
}

// recallSessions reads the sessions before the peers are known, so that a restart moves no
// peer to its other tunnel.
func (a *Agent) recallSessions() {
	r, rotates := a.backends.Rotator()
	if !rotates || a.Sessions == nil || a.Keys == nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, answerLimit)
	defer cancel()
	if sessions, err := a.Sessions(ctx, wireguardLinks(r.Host(a.own))); err == nil {
		a.peers.setSessions(sessions.Peers, time.Now())
	}
}
