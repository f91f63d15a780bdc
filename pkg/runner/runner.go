// Package runner runs the commands of a network's config: the command that prepares this
// host, and those of netstate.Command, of which it is the engine. It runs one at a time,
// each in a process group of its own and for a limited time, and retries what fails.
//
// Texts for the shell come from the config alone. What other nodes publish reaches
// commands as variables and as standard input.
package runner

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Options are what a Runner depends on.
type Options struct {
	// Dir is the state folder, which keeps what was run.
	Dir string
	// Refused is why no command may run here; nil if commands may.
	Refused error
	// Env is the environment of all commands.
	Env []string
	// Prepared is called when Prepare has another answer than before. It must not block.
	Prepared func()
}

// Runner runs commands. It owns what is known of those that were run: for each key, what
// was run last, and what is wanted. Run brings the one to the other. Callers of Apply
// wait a moment for that, and are told by an event of Watch when it takes longer.
type Runner struct {
	Options
	start func(context.Context, process) outcome // for tests
	wake  retry.Wakeup

	mu      sync.Mutex
	entries map[netstate.Key]*entry
	asked   uint64        // counts wishes
	ended   chan struct{} // closed at the end of the present run
	prepare preparation
	stats   stats
	tell    func(netstate.Event) // of Watch; nil while no Watch runs
}

// entry is one command.
type entry struct {
	want, has     netstate.Command
	wanted, known bool   // want, has is one
	busy          bool   // it is being worked on
	asked         uint64 // the wish that it waits since
	failures      int
	err           error // of the last attempt
	since         time.Time
	next          time.Time // of the next attempt; the zero Time is now
}

const (
	// patience is how long Apply waits for commands to end.
	patience = 200 * time.Millisecond
	// abandon is the time after which a command that fails to undo another is not tried
	// again.
	abandon = time.Hour
)

var backoff = retry.Backoff{First: time.Second, Last: time.Minute}

// New returns a Runner that knows what an earlier run recorded. Run starts it.
func New(o Options) *Runner {
	r := &Runner{
		Options: o, start: start, wake: retry.NewWakeup(),
		entries: make(map[netstate.Key]*entry), ended: make(chan struct{}),
	}
	if o.Prepared == nil {
		r.Prepared = func() {}
	}
	if o.Dir == "" {
		return r
	}
	commands, bad, err := load(o.Dir)
	if err != nil {
		bad = append(bad, err)
	}
	for _, err := range bad {
		klog.ErrorS(err, "Ignoring the record of a command")
	}
	if o.Refused != nil && len(commands) > 0 {
		klog.InfoS("Commands of an earlier run are not undone, because commands may not run any more", "commands", len(commands), "reason", o.Refused)
		return r
	}
	for _, c := range commands {
		r.entries[c.Key()] = &entry{has: c, known: true}
	}
	return r
}

// Holds reports whether an object is a command.
func (r *Runner) Holds(o netstate.Object) bool {
	_, is := o.(netstate.Command)
	return is
}

// Dump returns the commands that were run and not undone.
func (r *Runner) Dump(context.Context, netstate.Scope) ([]netstate.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []netstate.Object
	for _, e := range r.entries {
		if e.known {
			all = append(all, e.has)
		}
	}
	return all, nil
}

// Watch reports the ends of commands, until ctx ends. The first event is one of lost
// events.
func (r *Runner) Watch(ctx context.Context, to func(netstate.Event)) error {
	r.mu.Lock()
	r.tell = to
	r.mu.Unlock()
	to(netstate.Event{})
	<-ctx.Done()
	r.mu.Lock()
	r.tell = nil
	r.mu.Unlock()
	return ctx.Err()
}

// Apply wants the commands of a plan to be run, or undone, and waits a moment for that.
// A step that takes longer fails with netstate.ErrUnfinished.
func (r *Runner) Apply(ctx context.Context, p netstate.Plan) error {
	r.mu.Lock()
	for _, op := range p {
		r.ask(op)
	}
	r.mu.Unlock()
	r.wake.Wake()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		failed, open, ended := r.failures(p)
		if open {
			select {
			case <-ended:
				continue
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(failed) > 0 {
			return failed
		}
		return nil
	}
}

// ask records the wish of a step. The caller holds mu.
func (r *Runner) ask(op netstate.Op) {
	c, is := op.Object.(netstate.Command)
	if !is || r.Refused != nil {
		return
	}
	k := c.Key()
	e := r.entries[k]
	if e == nil {
		if op.Verb == netstate.Delete {
			return
		}
		e = &entry{}
		r.entries[k] = e
	}
	wanted := op.Verb != netstate.Delete
	if !wanted {
		c = netstate.Command{}
	}
	if wanted == e.wanted && c == e.want && e.asked > 0 {
		return
	}
	r.asked++
	*e = entry{want: c, wanted: wanted, has: e.has, known: e.known, busy: e.busy, asked: r.asked}
	r.tidy(k)
}

// tidy drops an entry of which nothing is known or wanted. The caller holds mu.
func (r *Runner) tidy(k netstate.Key) {
	if e := r.entries[k]; !e.wanted && !e.known && !e.busy {
		delete(r.entries, k)
	}
}

// right reports whether an entry is as it is wanted.
func (e *entry) right() bool {
	return !e.busy && e.wanted == e.known && (!e.wanted || e.want == e.has)
}

// failures returns why steps of a plan are not done. open reports that some of them were
// not tried yet; ended is closed when that may have changed.
func (r *Runner) failures(p netstate.Plan) (failed netstate.Failures, open bool, ended <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range p {
		e := r.entries[op.Object.Key()]
		err := r.Refused
		switch {
		case err != nil:
		case e == nil || e.right():
			continue
		case e.err != nil:
			err = e.err
		default:
			err, open = netstate.ErrUnfinished, true
		}
		failed = append(failed, &netstate.OpError{Op: op, Err: err})
	}
	return failed, open, r.ended
}
