package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// stopping is how long a command may go on after Run was asked to end.
const stopping = 3 * time.Second

// mostUndone is how often a command may fail to undo another one before what takes its
// place runs nevertheless. The peer needs that.
const mostUndone = 3

// Run runs commands until ctx ends. A command that runs then gets a moment to end.
func (r *Runner) Run(ctx context.Context) {
	running, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopping, kill) })()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if p, due := r.prepareNow(now); due {
			r.runPreparation(running, p)
			continue
		}
		key, job, next := r.take(now)
		if !next.IsZero() {
			timer.Reset(next.Sub(now))
			select {
			case <-ctx.Done():
			case <-r.wake:
			case <-timer.C:
			}
			continue
		}
		has, known, err := r.bring(running, job)
		if running.Err() == nil {
			r.finish(key, job, has, known, err)
		}
	}
}

// take returns the entry to work on now, or when to look again. What is to be undone comes
// first, then what this host needs, then what peers need; in each case what has failed
// comes last. Peers wait for this host.
func (r *Runner) take(now time.Time) (key netstate.Key, job entry, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hostFirst := false
	for k, e := range r.entries {
		hostFirst = hostFirst || !k.IP.IsValid() && e.wanted && !e.right()
	}
	next = now.Add(time.Hour)
	if p := r.prepare; p.asked && !p.done && p.next.Before(next) {
		next = p.next
	}
	var best *entry
	for k, e := range r.entries {
		switch {
		case e.right() || e.asked == 0, hostFirst && e.wanted && k.IP.IsValid():
		case e.next.After(now):
			if e.next.Before(next) {
				next = e.next
			}
		case best == nil || before(k, e, key, best):
			key, best = k, e
		}
	}
	if best == nil {
		return netstate.Key{}, entry{}, next
	}
	best.busy = true
	r.stats.begin(key, now)
	return key, *best, time.Time{}
}

// before reports whether a comes before b.
func before(ka netstate.Key, a *entry, kb netstate.Key, b *entry) bool {
	return cmp.Or(
		compareBool(a.failures == 0, b.failures == 0),
		compareBool(!a.wanted, !b.wanted),
		compareBool(!ka.IP.IsValid(), !kb.IP.IsValid()),
		cmp.Compare(a.failures, b.failures),
		cmp.Compare(a.asked, b.asked),
	) < 0
}

// compareBool orders true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// bring runs what leads from what was run to what is wanted. It returns what is known to
// have been run then, whatever the error.
func (r *Runner) bring(ctx context.Context, e entry) (has netstate.Command, known bool, err error) {
	switch {
	case !e.wanted:
		if err := r.undo(ctx, e.has); err != nil {
			return e.has, true, err
		}
		return netstate.Command{}, false, forget(r.Dir, e.has)
	case e.known && !e.has.Stale && e.has.Effect() == e.want.Effect():
		if err := r.record(e.want, e.has); err != nil {
			return e.has, true, err
		}
		return e.want, true, nil
	case e.known && e.has.Effect() != e.want.Effect():
		if err := r.undo(ctx, e.has); err != nil {
			if e.failures < mostUndone {
				return e.has, true, err
			}
			klog.ErrorS(err, "Gave up undoing a command before its successor; what it did may be left", "command", e.has.String())
		}
	}
	if err := r.record(e.want, e.has); err != nil {
		return e.has, e.known, err
	}
	err = r.run(ctx, e.want)
	if err != nil && e.known && e.has.Effect() == e.want.Effect() && e.want.Undo != "" && ctx.Err() == nil {
		// It was run before, perhaps in part, and may not be able to run twice.
		if r.undo(ctx, e.want) == nil {
			err = r.run(ctx, e.want)
		}
	}
	has = e.want
	has.Stale = err != nil
	return has, true, err
}

// record writes the record of a command that follows another with the same key.
func (r *Runner) record(c, before netstate.Command) error {
	before.Stale = false
	switch {
	case c.Undo != "" && c != before:
		return save(r.Dir, c)
	case c.Undo == "" && before.Undo != "":
		return forget(r.Dir, before)
	}
	return nil
}

// run runs a command.
func (r *Runner) run(ctx context.Context, c netstate.Command) error {
	return r.execute(ctx, c, c.Name, c.Run)
}

// undo runs what undoes a command.
func (r *Runner) undo(ctx context.Context, c netstate.Command) error {
	return r.execute(ctx, c, undoName(c.Name), c.Undo)
}

// execute runs a text for a command. There may be none.
func (r *Runner) execute(ctx context.Context, c netstate.Command, name, text string) error {
	if text == "" {
		return nil
	}
	p := process{text: text, stdin: c.Stdin, limit: c.Limit, env: r.Env}
	if c.Env != "" {
		p.env = append(p.env[:len(p.env):len(p.env)], strings.Split(c.Env, "\n")...)
	}
	o := r.start(ctx, p)
	r.count(name, o)
	if o.err != nil {
		return fmt.Errorf("%s: %w", name, o.err)
	}
	klog.V(1).InfoS("Ran a command", "command", name, "subnet", c.Subnet.String(), "took", o.took)
	return nil
}

// finish records the outcome of an attempt, and reports it.
func (r *Runner) finish(k netstate.Key, job entry, has netstate.Command, known bool, err error) {
	now := time.Now()
	r.mu.Lock()
	r.stats.running = ""
	e := r.entries[k]
	e.has, e.known, e.busy = has, known, false
	event := netstate.Event{Object: netstate.Command{Name: k.Name, Subnet: job.has.Subnet}}
	if job.wanted {
		event.Object = job.want
	}
	switch again := e.asked == job.asked; {
	case err == nil:
		e.failures, e.err, e.next = 0, nil, time.Time{}
		if job.wanted && !k.IP.IsValid() && (job.has.Stale || job.has.Effect() != job.want.Effect()) {
			r.spoil(k)
		}
	case again:
		if e.failures++; e.failures == 1 {
			e.since = now
		}
		e.err, e.next = err, now.Add(backoff.After(e.failures))
		if !e.wanted && now.Sub(e.since) >= abandon {
			e.known = false
			err = errors.Join(err, forget(r.Dir, e.has))
			klog.ErrorS(err, "Gave up undoing a command; what it did may be left", "command", e.has.String(), "since", e.since.UTC().Format(time.RFC3339))
		}
	}
	r.tidy(k)
	close(r.ended)
	r.ended = make(chan struct{})
	tell := r.tell
	r.mu.Unlock()
	if tell != nil {
		tell(event)
	}
}

// spoil makes all commands but that of k stale, because they depend on it. The caller
// holds mu.
func (r *Runner) spoil(k netstate.Key) {
	for other, e := range r.entries {
		if other != k {
			e.has.Stale = e.known
		}
	}
}

// undoName returns the config's key of what undoes a command.
func undoName(name string) string { return strings.Replace(name, "Add", "Remove", 1) }
