package controller

import (
	"context"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// mostWrites limits the writes in flight, over all controllers.
	mostWrites = 32
	// mostCloudWrites limits what PlanCloud has in flight, for each controller.
	mostCloudWrites = 16
	// observeInterval is the shortest time between two plans that are only counted.
	observeInterval = time.Second
	// deadlinePoll is how often the loop checks whether a term, too short for a write, was
	// renewed.
	deadlinePoll = 100 * time.Millisecond
	// inboxSize is how many calls may wait for the loop before their callers wait, too.
	inboxSize = 2 * mostWrites
)

// Options are what an Engine needs.
type Options struct {
	Mode Mode
	// WriteTimeout limits a write. No write begins that could outlast its term.
	WriteTimeout time.Duration
	// Send creates an event in the cluster.
	Send func(ctx context.Context, e Event) error
	// Changed, if set, is called after a change of what State returns. It must not
	// wait.
	Changed func()
}

// Engine runs controllers. Add feeds and controllers before Run.
type Engine struct {
	options     Options
	feeds       []feed
	lookups     []lookup
	controllers []Controller

	inbox chan func()  // calls for the loop
	news  retry.Wakeup // of the feeds
	over  chan struct{}
	start chan struct{} // closed when the feeds begin
	begun sync.Once
	// writes are the goroutines of the writes in flight.
	writes sync.WaitGroup
	// reads are the goroutines of the lookups.
	reads sync.WaitGroup

	// Only the loop uses the following fields.
	term     *election.Term // nil while this process does not lead
	terms    int            // that have begun
	writer   writer
	events   events
	planned  map[string][]Write // in ObserveMode, by controller
	observed time.Time          // the last plan in ObserveMode
	again    time.Time          // when it is due again without a change
	changed  bool               // since the last plan
	first    int                // the controller that plans first in the next turn
}

// New returns an Engine.
func New(o Options) *Engine {
	e := &Engine{
		options: o, inbox: make(chan func(), inboxSize), news: retry.NewWakeup(), over: make(chan struct{}), start: make(chan struct{}),
		planned: make(map[string][]Write),
	}
	e.writer = newWriter()
	e.events = newEvents()
	return e
}

// Add adds a controller.
func (e *Engine) Add(c Controller) { e.controllers = append(e.controllers, c) }

// Follow starts the feeds. Otherwise they start with the first term. A feed that starts
// before a term lists again in it, so a program first tries to lead.
func (e *Engine) Follow() { e.begun.Do(func() { close(e.start) }) }

// Run runs the loop until ctx ends. End ctx after Lead has returned.
func (e *Engine) Run(ctx context.Context) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		close(e.over)
		cancel()
		e.writer.cancel()
		e.writes.Wait()
		e.reads.Wait()
		running.Wait()
	}()
	for _, f := range e.feeds {
		running.Go(func() {
			select {
			case <-e.start:
				f.run(ctx)
			case <-ctx.Done():
			}
		})
	}
	running.Go(func() { e.events.run(ctx, e) })
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-e.inbox:
			e.work(f)
		case <-e.news:
			e.changed = true
			e.work(func() {})
		case <-wake.C:
		}
		wake.Stop()
		now := time.Now()
		if next := Earlier(e.lookUp(ctx, now), e.turn(now)); !next.IsZero() {
			wake.Reset(time.Until(next))
		}
	}
}

// work calls first, and then everything that waits for the loop. What the feeds have
// read comes after the calls: a list, for example, after the Begin that was posted
// before it.
func (e *Engine) work(first func()) {
	var read []func()
	for _, f := range e.feeds {
		if changes := f.take(); changes != nil {
			read = append(read, changes)
		}
	}
	first()
	for range len(e.inbox) {
		(<-e.inbox)()
	}
	for _, changes := range read {
		changes()
		e.changed = true
	}
}

// Change passes f to the loop, which calls it and plans again.
func (e *Engine) Change(f func()) { e.post(f) }

// post passes f to the loop, which calls it and plans again.
func (e *Engine) post(f func()) {
	select {
	case e.inbox <- func() { f(); e.changed = true }:
	case <-e.over:
	}
}

// Do calls f in the loop, and reports whether f returned before ctx ended.
func (e *Engine) Do(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	select {
	case e.inbox <- func() { f(); close(done) }:
	case <-e.over:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-done:
		return true
	case <-e.over:
		return false
	case <-ctx.Done():
		return false
	}
}

// turn plans, and returns when to plan again without a change.
func (e *Engine) turn(now time.Time) (next time.Time) {
	if e.options.Changed != nil && e.changed {
		e.options.Changed()
	}
	if e.options.Mode == ObserveMode {
		return e.observe(now)
	}
	e.changed = false
	if e.term == nil || !e.fresh() {
		return time.Time{}
	}
	if until := e.writer.paused; now.Before(until) {
		return until
	}
	if end := e.term.Deadline(); !end.IsZero() && now.Add(e.options.WriteTimeout).After(end) {
		return now.Add(deadlinePoll)
	}
	for i := range e.controllers {
		c := e.controllers[(e.first+i)%len(e.controllers)]
		if until := e.writer.pausedUntil(c.Name()); now.Before(until) {
			next = Earlier(next, until)
			continue
		}
		if free := mostWrites - e.writer.inFlight; free > 0 {
			writes, again := c.Plan(now, free)
			next = Earlier(next, again)
			for _, w := range writes {
				e.begin(c, w, false)
			}
		}
		p, ok := c.(CloudPlanner)
		if free := cloudWritesOf(c) - e.writer.inCloud[c.Name()]; ok && free > 0 {
			writes, again := p.PlanCloud(now, free)
			next = Earlier(next, again)
			for _, w := range writes {
				e.begin(c, w, true)
			}
		}
	}
	e.first++
	return next
}

// cloudWritesOf returns how many cloud writes of a controller may be in flight.
func cloudWritesOf(c Controller) int {
	if b, ok := c.(CloudBatcher); ok {
		return b.MostCloudWrites()
	}
	return mostCloudWrites
}

// fresh reports whether every feed has listed since the term began.
func (e *Engine) fresh() bool {
	for _, f := range e.feeds {
		if !f.isFresh() {
			return false
		}
	}
	return true
}

// observe plans without writing.
func (e *Engine) observe(now time.Time) (next time.Time) {
	waits := !e.again.IsZero() && !now.Before(e.again)
	switch due := e.observed.Add(observeInterval); {
	case !e.listed():
		return time.Time{}
	case !e.changed && !waits:
		return e.again
	case now.Before(due):
		return due
	}
	e.changed, e.observed, e.again = false, now, time.Time{}
	for _, c := range e.controllers {
		var again time.Time
		e.planned[c.Name()], again = e.plan(c, now)
		e.again = Earlier(e.again, again)
	}
	return e.again
}

// plan returns everything that a controller would write now.
func (e *Engine) plan(c Controller, now time.Time) ([]Write, time.Time) {
	const all = 1 << 30
	writes, again := c.Plan(now, all)
	if p, ok := c.(CloudPlanner); ok {
		more, next := p.PlanCloud(now, all)
		writes, again = append(writes, more...), Earlier(again, next)
	}
	for _, w := range writes {
		c.Done(w, ErrNotMade)
	}
	return writes, again
}

// listed reports whether every feed has listed.
func (e *Engine) listed() bool {
	for _, f := range e.feeds {
		if !f.state().Listed {
			return false
		}
	}
	return true
}
