package probe

import (
	"context"
	"fmt"
	"time"
)

// Session is what this host knows of the encrypted session that a path needs.
type Session struct {
	Known bool
	// Handshake is the time of the last complete handshake by the clock of the day, zero if
	// there was none.
	Handshake time.Time
	Received  uint64 // bytes from the peer that proved to be its own
}

// sessionLife is how long after a handshake packets can pass.
const sessionLife = 180 * time.Second

// latest is the latest time that this host's clock of the day has shown. WireGuard's
// handshakes carry the time, and a peer refuses one that is not later than the last.
type latest struct{ seen time.Time }

// back records now, and returns by how much the clock is behind what it has shown
// before, or 0 if that is little.
func (l *latest) back(now time.Time) time.Duration {
	now = now.Round(0)
	if now.After(l.seen) {
		l.seen = now
	}
	if d := l.seen.Sub(now); d > drift {
		return d
	}
	return 0
}

// Seen says that this host's clock has shown t in an earlier run.
func (p *Prober) Seen(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t = t.Round(0); t.After(p.clock.seen) {
		p.clock.seen = t
	}
}

// explain finds out, for the findings that nothing passes an encrypted tunnel, what is
// wrong with their sessions.
func (p *Prober) explain(ctx context.Context, s Source, findings []Finding, now time.Time) {
	p.mu.Lock()
	back := p.clock.back(now)
	p.mu.Unlock()
	var lost []int
	var paths []Path
	for i, f := range findings {
		if f.Key != "" && (f.Cause == Filtered || f.Cause == Down) {
			lost, paths = append(lost, i), append(paths, f.Path)
		}
	}
	if len(lost) == 0 {
		return
	}
	for n, session := range s.Sessions(ctx, paths) {
		f := &findings[lost[n]]
		before, _ := p.Of(f.Peer)
		if before.Link != f.Link { // the other family's
			before.Session = Session{}
		}
		*f = f.explained(session, before.Session, now, back)
	}
}

// explained returns f with the cause that follows from the state of its session. before
// is the state in the last round that failed, and back is by how much this host's clock
// went back.
func (f Finding) explained(s, before Session, now time.Time, back time.Duration) Finding {
	f.Session = s
	now = now.Round(0)
	ahead := s.Handshake.Sub(now) // a handshake in the future shows that the clock was set back since
	switch {
	case !s.Known:
	case !s.Handshake.IsZero() && ahead > drift:
		f.Cause, f.Back = ClockBack, max(back, ahead)
	case !s.Handshake.IsZero() && now.Sub(s.Handshake) < sessionLife:
		// The session lives: something else keeps packets from passing.
	case s.Handshake.IsZero() && s.Received > 0, before.Known && s.Received > before.Received:
		f.Cause = Keys
	case f.Cause == Filtered && back > 0:
		f.Cause, f.Back = ClockBack, back
	case f.Cause == Filtered:
		f.Cause = NoHandshake
	}
	return f
}

// whyNoSession returns the cause for people if it is one of an encrypted session, or "".
func (f Finding) whyNoSession() string {
	switch f.Cause {
	case NoHandshake:
		return fmt.Sprintf("its host answers at %s, but no WireGuard handshake comes back: %s is filtered on the way, WireGuard does not run there, or the hosts do not have each other's present public key (compare «wg show» on both)", f.HostTo, f.Tunnel)
	case Keys:
		return "its WireGuard handshakes arrive, but none is completed: the hosts have different preshared keys (Backend.PSK), or this host's answers are filtered on the way"
	case ClockBack:
		return fmt.Sprintf("this host's clock went back by %s, and peers refuse WireGuard handshakes that are older than the last; let NTP set it (timedatectl)", round(f.Back))
	}
	return ""
}
