package kerneltest

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Fake is a kernel in memory that behaves like the real one: which events it sends
// and omits when a link goes, which key belongs to which object, and what it refuses.
// It has two sides. Dump, Apply and Watch are for the code under test. Everything
// else is for the test. It acts as another program (Put, Delete, LinkDown, …),
// injects faults (Fail, LoseEvents, …) and reads the result (Snapshot, Counts). All
// of it is safe for concurrent use. Hooks run without a lock, so that a test can make
// changes at that very moment.
type Fake struct {
	mu       sync.Mutex
	state    netstate.State                  // ours and foreign
	given    map[netstate.Key]netip.AddrPort // the endpoints of peers that Apply has set last
	hooks    Hooks
	faults   faults
	unknown  netstate.Unknown // of links whose programs do not answer
	watchers map[*watcher]struct{}
	counts   Counts
}

// Hooks are called while Dump and Apply run. Nil ones are not called.
type Hooks struct {
	BeforeDump  func()
	AfterDump   func() // the result is fixed, and not yet returned
	BeforeApply func(netstate.Plan)
	AfterOp     func(netstate.Op, error)
	AfterApply  func(netstate.Plan, error)
}

// Counts are the numbers of calls.
type Counts struct {
	Dumps, Applies, Watches int
	Ops                     map[OpKind]int // tried, successful or not
}

// OpKind is the verb of an op and the kind of its object.
type OpKind struct {
	Verb netstate.Verb
	Kind netstate.Kind
}

// Steps returns the number of all ops.
func (c Counts) Steps() int {
	n := 0
	for _, ops := range c.Ops {
		n += ops
	}
	return n
}

// NewFake returns a kernel that holds objects, ours or foreign.
func NewFake(objects ...netstate.Object) *Fake {
	f := &Fake{given: make(map[netstate.Key]netip.AddrPort), watchers: make(map[*watcher]struct{}), counts: Counts{Ops: make(map[OpKind]int)}}
	for _, o := range objects {
		f.state.Put(o)
	}
	return f
}

// SetHooks replaces the hooks.
func (f *Fake) SetHooks(h Hooks) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks = h
}

// Snapshot returns everything that the kernel holds, also what is not ours.
func (f *Fake) Snapshot() *netstate.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &netstate.State{}
	for o := range f.state.All() {
		s.Put(o)
	}
	return s
}

// Get returns the object that the kernel holds under a key.
func (f *Fake) Get(k netstate.Key) (netstate.Object, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Get(k)
}

// Has reports whether the kernel holds o.
func (f *Fake) Has(o netstate.Object) bool {
	is, ok := f.Get(o.Key())
	return ok && is == o
}

// Counts returns the numbers of calls since the last ResetCounts.
func (f *Fake) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.Ops = maps.Clone(c.Ops)
	return c
}

// ResetCounts sets all counts to zero.
func (f *Fake) ResetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = Counts{Ops: make(map[OpKind]int)}
}

// Dump returns our links and those of scope, what is on them, our routes, the
// gateway routes without a metric that have no stated protocol, and the
// settings of scope.
func (f *Fake) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	h := f.called(func(c *Counts) { c.Dumps++ })
	call(h.BeforeDump)
	if err := f.wait(ctx, &f.faults.dumpGate); err != nil {
		return nil, err
	}
	f.mu.Lock()
	err := f.faults.dumps.next()
	var out []netstate.Object
	if err == nil {
		out = f.dump(scope)
		if f.unknown != nil {
			out, err = f.known(out), f.unknown
		}
	}
	f.mu.Unlock()
	call(h.AfterDump)
	return out, err
}

func (f *Fake) dump(scope netstate.Scope) []netstate.Object {
	own := func(link string) bool {
		return strings.HasPrefix(link, netstate.LinkPrefix) || slices.Contains(scope.Links, link)
	}
	direct := func(link string) bool {
		l, ok := f.state.Get(netstate.Link{Name: link}.Key())
		return ok && own(link) && l.(netstate.Link).IsWireGuard()
	}
	var out []netstate.Object
	for o := range f.state.All() {
		switch o := o.(type) {
		case netstate.Sysctl: // below
		case netstate.Route:
			theirs := o.Protocol == netstate.ProtocolBoot && (o.Via.IsValid() || direct(o.Link)) && o.Metric == 0
			if o.Protocol == 0 || theirs {
				out = append(out, o)
			}
		default:
			if own(netstate.LinkOf(o)) {
				out = append(out, o)
			}
		}
	}
	for _, path := range scope.Sysctls {
		if s, ok := f.sysctl(path); ok {
			out = append(out, s)
		}
	}
	return out
}

// Apply carries out a plan, step by step. A failed step does not prevent the others.
func (f *Fake) Apply(ctx context.Context, p netstate.Plan) error {
	h := f.called(func(c *Counts) { c.Applies++ })
	if h.BeforeApply != nil {
		h.BeforeApply(p)
	}
	err := f.apply(ctx, p, h)
	if h.AfterApply != nil {
		h.AfterApply(p, err)
	}
	return err
}

func (f *Fake) apply(ctx context.Context, p netstate.Plan, h Hooks) error {
	if err := f.wait(ctx, &f.faults.applyGate); err != nil {
		return err
	}
	var failures netstate.Failures
	for i, op := range p {
		if err := ctx.Err(); err != nil {
			for _, op := range p[i:] {
				failures = append(failures, &netstate.OpError{Op: op, Err: err})
			}
			break
		}
		err, aborted := f.step(i, op)
		if aborted {
			return err
		}
		if err != nil {
			failures = append(failures, &netstate.OpError{Op: op, Err: err})
		}
		if h.AfterOp != nil {
			h.AfterOp(op, err)
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return nil
}

// step does the ith op of a plan, or makes it fail. After an abort, the outcome is
// unknown.
func (f *Fake) step(i int, op netstate.Op) (err error, aborted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.faults.abort.at(i); err != nil {
		return err, true
	}
	if link := f.faults.vanish.at(i); link != "" {
		f.deleteLink(link)
	}
	f.counts.Ops[OpKind{op.Verb, op.Object.Key().Kind}]++
	if err := f.faults.refuse(op); err != nil {
		return err, false
	}
	if op.Verb == netstate.Delete {
		return f.remove(op.Object), false
	}
	return f.put(op.Verb, op.Object, ours), false
}

// called counts a call and returns the hooks for it.
func (f *Fake) called(count func(*Counts)) Hooks {
	f.mu.Lock()
	defer f.mu.Unlock()
	count(&f.counts)
	return f.hooks
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}
