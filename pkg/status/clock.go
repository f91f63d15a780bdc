package status

import "time"

// clockStep is by how much the clock of the day must disagree with the monotonic
// clock to count as set. Less is rounding, and leaves times as they were.
const clockStep = time.Second

// OnClock returns t as the clock of the day at now would have shown it, so that
// what other programs subtract from their time is t's age. The two differ when the
// clock was set since t. OnClock needs t's monotonic reading: without it, as for a
// time from a file, it returns t.
func OnClock(now, t time.Time) time.Time {
	age := now.Sub(t) // by the monotonic clock, where both have it
	now, t = now.Round(0), t.Round(0)
	if t.IsZero() || (now.Sub(t)-age).Abs() < clockStep {
		return t
	}
	return now.Add(-age)
}

// OnClock puts all times in r on the clock of the day at now.
func (r *Report) OnClock(now time.Time) {
	set := func(t *time.Time) { *t = OnClock(now, *t) }
	// What a pointer leads to may be another's.
	replace := func(p **time.Time) {
		if *p != nil {
			t := OnClock(now, **p)
			*p = &t
		}
	}
	set(&r.Started)
	replace(&r.Remembered)
	if r.Clone != nil {
		c := *r.Clone
		set(&c.Since)
		r.Clone = &c
	}
	if m := r.Network.Move; m != nil {
		c := *m
		set(&c.Since)
		r.Network.Move = &c
	}
	if o := r.Network.Offload; o != nil {
		c := *o
		set(&c.Since)
		replace(&c.Next)
		r.Network.Offload = &c
	}
	if l := r.Lease; l != nil {
		replace(&l.Since)
		replace(&l.Renewed)
	}
	if c := r.Commands; c != nil {
		copied := *c
		replace(&copied.Since)
		r.Commands = &copied
	}
	if g := r.WireGuard; g != nil {
		copied := *g
		replace(&copied.KeyMade)
		if copied.Rotation != nil {
			rotation := *copied.Rotation
			set(&rotation.Began)
			set(&rotation.Since)
			copied.Rotation = &rotation
		}
		r.WireGuard = &copied
	}
	replace(&r.Store.Watching)
	replace(&r.Store.LastAt)
	if e := r.Store.Etcd; e != nil {
		replace(&e.Started)
	}
	set(&r.Kernel.Since)
	set(&r.Kernel.LastResync)
	for i := range r.Kernel.Failing {
		set(&r.Kernel.Failing[i].Since)
	}
	for i := range r.Fights {
		set(&r.Fights[i].Since)
	}
}

// OnClock puts all times in p on the clock of the day at now.
func (p *Peer) OnClock(now time.Time) {
	if p.Since != nil {
		t := OnClock(now, *p.Since)
		p.Since = &t
	}
	p.Probes.OnClock(now)
	for i, s := range p.Sessions {
		if s.Handshake != nil {
			t := OnClock(now, *s.Handshake)
			p.Sessions[i].Handshake = &t
		}
	}
}

// OnClock puts all times in p, which may be nil, on the clock of the day at now.
func (p *PeerProbes) OnClock(now time.Time) {
	if p == nil {
		return
	}
	p.At = OnClock(now, p.At)
	if p.Since != nil {
		t := OnClock(now, *p.Since)
		p.Since = &t
	}
}
