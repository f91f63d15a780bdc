package network

import (
	"cmp"
	"context"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

// sessionsView is the part of a View about encrypted tunnels.
type sessionsView struct {
	netstate.Sessions
	key netstate.PublicKey // this node's
	// pastTunnel is how many packets were dropped that would have left unencrypted. It is
	// nil if unknown.
	pastTunnel *uint64
	err        error // why the sessions are unknown
}

// keysView is the part of a View about this node's key.
type keysView struct {
	state     wgkey.State
	maxAge    time.Duration
	elsewhere []string // the peers that its replacement waits for
	problem   string   // why it cannot be replaced
}

// keysView runs in Run's goroutine. It returns nil with other backends than wireguard.
func (a *Agent) keysView() *keysView {
	r, rotates := a.backends.Rotator()
	if !rotates || a.Keys == nil {
		return nil
	}
	s, err := a.Keys.State(a.Node.Instance)
	if err != nil {
		return nil // there is no backend without keys
	}
	return &keysView{s, r.KeyAge(), a.rotation.elsewhere, a.rotation.problem}
}

// report adds the key to a report.
func (k *keysView) report(r *status.WireGuard, now time.Time) {
	if k == nil {
		return
	}
	if !k.state.Made.IsZero() {
		r.KeyMade = &k.state.Made
	}
	if r.KeyProblem = k.problem; k.problem == "" && k.maxAge > 0 && k.state.Misdated(now) {
		r.KeyProblem = "the key's date " + k.state.Made.UTC().Format(time.RFC3339) + " is in the future, so its age is unknown; correct the clock, or request a replacement"
	}
	if k.state.Step != wgkey.None {
		r.Rotation = &status.Rotation{Step: k.state.Step.String(), Began: k.state.Began, Since: k.state.Since, Successor: k.state.Successor.String()}
		r.Rotation.SetWaits(k.elsewhere)
	}
}

// FullView returns a View with the encrypted sessions, without the peers themselves.
func (a *Agent) FullView(ctx context.Context) View {
	v := a.View(ctx)
	a.addSessions(ctx, &v)
	return v
}

// addSessions adds the encrypted sessions to v, if its backend has any.
func (a *Agent) addSessions(ctx context.Context, v *View) {
	links, key := v.Peers.encrypted()
	if len(links) == 0 || a.Sessions == nil {
		return
	}
	s := sessionsView{key: key}
	s.Sessions, s.err = a.Sessions(ctx, links)
	if n, known := a.Firewall.Dropped(ctx); known {
		s.pastTunnel = &n
	}
	v.Sessions = &s
}

// encrypted returns the names of the wireguard devices, and this node's public key.
func (p peersView) encrypted() (links []string, key netstate.PublicKey) {
	if !p.Known {
		return nil, key
	}
	for _, o := range p.host {
		if l, isLink := o.(netstate.Link); isLink && l.IsWireGuard() {
			links, key = append(links, l.Name), cmp.Or(key, l.WireGuard.Key)
		}
	}
	return links, key
}

// wireguardReport reports on the encrypted tunnels. It returns nil if there are none.
func (v View) wireguardReport() *status.WireGuard {
	s := v.Sessions
	if s == nil {
		return nil
	}
	r := &status.WireGuard{PublicKey: s.key.String(), Dropped: make(map[string]uint64)}
	v.Keys.report(r, v.At)
	if s.pastTunnel != nil {
		r.Dropped[status.DropPastTunnel] = *s.pastTunnel
	}
	if s.err != nil {
		r.Problem = s.err.Error()
		return r
	}
	r.Sessions = make(map[string]int)
	for _, p := range s.Peers {
		r.Sessions[ageOf(p, v.At)]++
	}
	for _, l := range s.Links {
		d := status.WireGuardDevice{Device: l.Link, Received: l.Received, Sent: l.Sent, Dropped: map[string]uint64{
			status.DropNoPeer: l.Dropped.NoPeer, status.DropNoSession: l.Dropped.NoSession,
			status.DropWrongSource: l.Dropped.WrongSource, status.DropMalformed: l.Dropped.Malformed,
		}}
		r.Devices = append(r.Devices, d)
		r.Received += d.Received
		r.Sent += d.Sent
		for reason, n := range d.Dropped {
			r.Dropped[reason] += n
		}
	}
	return r
}

// ageOf returns the age of a session's last handshake, in a word.
func ageOf(s netstate.Session, now time.Time) string {
	switch {
	case s.Handshake.IsZero():
		return status.SessionNever
	case now.Sub(s.Handshake) < netstate.SessionLife:
		return status.SessionLive
	}
	return status.SessionExpired
}

// sessionsByKey returns all sessions by their keys.
func (v View) sessionsByKey() map[backend.SessionKey]netstate.Session {
	if v.Sessions == nil {
		return nil
	}
	return byKey(v.Sessions.Peers)
}

// byKey returns sessions by their keys.
func byKey(sessions []netstate.Session) map[backend.SessionKey]netstate.Session {
	all := make(map[backend.SessionKey]netstate.Session, len(sessions))
	for _, s := range sessions {
		all[backend.SessionKey{Link: s.Link, Peer: s.Peer}] = s
	}
	return all
}

// sessionsWith returns the sessions with a peer.
func (v View) sessionsWith(p *subnet.Peer, known map[backend.SessionKey]netstate.Session) (all []status.Session) {
	if len(known) == 0 {
		return nil
	}
	for _, o := range v.Peers.wants(p) {
		peer, isPeer := o.(netstate.WGPeer)
		s, exists := known[backend.SessionKey{Link: peer.Link, Peer: peer.Peer}]
		if !isPeer || !exists {
			continue
		}
		one := status.Session{Device: s.Link, PublicKey: s.Peer.String(), Received: s.Received, Sent: s.Sent}
		if s.Endpoint.IsValid() {
			one.Endpoint = s.Endpoint.String()
		}
		if !s.Handshake.IsZero() {
			one.Handshake = &s.Handshake
		}
		all = append(all, one)
	}
	return all
}
