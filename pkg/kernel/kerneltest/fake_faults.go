package kerneltest

import (
	"context"
	"slices"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// faults are the faults that have not happened yet.
type faults struct {
	rules     []*rule
	dumps     errorsLeft
	watches   errorsLeft
	abort     onceAt[error]
	vanish    onceAt[string]
	applyGate *gate // nil if Apply may continue
	dumpGate  *gate
	lose      int
	overrun   int
	held      chan struct{} // never closed; events wait while it is not nil
	mute      bool
}

// rule makes ops fail.
type rule struct {
	left  int // negative: until undo is called
	match func(netstate.Op) bool
	err   error
}

// gate blocks calls until each caller that shut it has opened it again.
type gate struct {
	opened  chan struct{}
	holders int
}

// errorsLeft makes the next n calls fail.
type errorsLeft struct {
	n   int
	err error
}

func (e *errorsLeft) next() error {
	if e.n == 0 {
		return nil
	}
	e.n--
	return e.err
}

// onceAt happens once, before the nth op of a plan.
type onceAt[T any] struct {
	n    int
	what T
	set  bool
}

func (o *onceAt[T]) at(i int) (what T) {
	if !o.set || i < o.n {
		return what
	}
	o.set = false
	return o.what
}

func (x *faults) refuse(op netstate.Op) error {
	for i, r := range x.rules {
		if !r.match(op) {
			continue
		}
		if r.left--; r.left == 0 {
			x.rules = slices.Delete(x.rules, i, i+1)
		}
		return r.err
	}
	return nil
}

// Fail refuses the next n ops that accepts matches, with err. A negative n refuses
// all of them until undo is called.
func (f *Fake) Fail(n int, match func(netstate.Op) bool, err error) (undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &rule{n, match, err}
	f.faults.rules = append(f.faults.rules, r)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults.rules = slices.DeleteFunc(f.faults.rules, func(x *rule) bool { return x == r })
	}
}

// OfKey matches the ops on the object with key k, for Fail.
func OfKey(k netstate.Key) func(netstate.Op) bool {
	return func(op netstate.Op) bool { return op.Object.Key() == k }
}

// OfKind matches the ops on objects of a kind, for Fail.
func OfKind(k netstate.Kind) func(netstate.Op) bool {
	return func(op netstate.Op) bool { return op.Object.Key().Kind == k }
}

// OfVerb matches the ops of a verb, for Fail.
func OfVerb(v netstate.Verb) func(netstate.Op) bool {
	return func(op netstate.Op) bool { return op.Verb == v }
}

// Both matches the ops that two functions match, for Fail.
func Both(a, b func(netstate.Op) bool) func(netstate.Op) bool {
	return func(op netstate.Op) bool { return a(op) && b(op) }
}

// FailDumps makes the next n Dumps fail, as if they were interrupted repeatedly.
func (f *Fake) FailDumps(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.dumps = errorsLeft{n, err}
}

// AbortApply makes an Apply return err after its first n ops. err does not say which
// ops were done.
func (f *Fake) AbortApply(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.abort = onceAt[error]{n, err, true}
}

// Vanish deletes a link in the middle of an Apply, when n ops are done.
func (f *Fake) Vanish(n int, link string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.vanish = onceAt[string]{n, link, true}
}

// BlockApply makes every Apply wait, until release is called or its context
// ends.
func (f *Fake) BlockApply() (release func()) { return f.block(&f.faults.applyGate) }

// BlockDump makes every Dump wait, until release is called or its context ends.
func (f *Fake) BlockDump() (release func()) { return f.block(&f.faults.dumpGate) }

func (f *Fake) block(at **gate) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *at == nil {
		*at = &gate{opened: make(chan struct{})}
	}
	g := *at
	g.holders++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if g.holders--; g.holders == 0 && *at == g {
			*at = nil
			close(g.opened)
		}
	})
}

func (f *Fake) wait(ctx context.Context, at **gate) error {
	f.mu.Lock()
	g := *at
	f.mu.Unlock()
	if g == nil {
		return ctx.Err()
	}
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LoseEvents drops the next n events.
func (f *Fake) LoseEvents(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.lose = n
}

// Overrun drops the next n events, and sends an event of lost events in place of the
// last.
func (f *Fake) Overrun(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.overrun = n
}

// HoldEvents delays all events until release is called.
func (f *Fake) HoldEvents() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mine := make(chan struct{})
	f.faults.held = mine
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.faults.held == mine {
			f.faults.held = nil
			f.signalAll()
		}
	}
}

// Mute drops the events of objects that depend on a link, an address or a MAC, as the
// kernel always does for IPv4 routes.
func (f *Fake) Mute(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.mute = on
}

// FailWatch ends every Watch with err, and the next n at their beginning.
func (f *Fake) FailWatch(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults.watches = errorsLeft{n, err}
	for w := range f.watchers {
		select {
		case w.fail <- err:
		default:
		}
	}
}

// Heal removes all faults that have not happened yet, and releases what is held or
// blocked.
func (f *Fake) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range []*gate{f.faults.applyGate, f.faults.dumpGate} {
		if g != nil {
			close(g.opened)
		}
	}
	f.faults = faults{}
	f.signalAll()
}
