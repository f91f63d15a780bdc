package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

var log logtest.Log

func TestMain(m *testing.M) {
	log.Keep()
	goleak.VerifyTestMain(m)
}

// fakeFeed is a feed that lists when a test calls list.
type fakeFeed struct {
	mu      sync.Mutex
	wanted  int
	has     int
	lists   bool // relist lists at once
	hasList bool
}

func (f *fakeFeed) run(ctx context.Context) { <-ctx.Done() }

func (f *fakeFeed) relist() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted++
	if f.lists {
		f.has, f.hasList = f.wanted, true
	}
}

func (f *fakeFeed) isFresh() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasList && f.has == f.wanted
}

func (f *fakeFeed) state() FeedState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return FeedState{What: "things", Listed: f.hasList}
}

func (f *fakeFeed) take() func() { return nil }

func (f *fakeFeed) await(context.Context) error { return nil }

// list lists now.
func (f *fakeFeed) list() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has, f.hasList = f.wanted, true
}

// fake is a controller that writes each of its objects once.
type fake struct {
	name string
	do   func(ctx context.Context, name string) error // makes a write

	pending []string
	plans   int
	asked   []int // for how many writes at most
	led     []election.Term
	errors  map[string][]error // of each object's writes, in order
	again   time.Duration
	hold    time.Duration // the pause after a failed write
	held    []heldWrite

	unclean bool
}

func newFake(name string, n int) *fake {
	f := &fake{name: name, errors: make(map[string][]error), do: func(context.Context, string) error { return nil }}
	for i := range n {
		f.pending = append(f.pending, fmt.Sprintf("%s-%d", name, i))
	}
	return f
}

func (f *fake) Name() string { return f.name }

// heldWrite is a failed write that waits for its retry.
type heldWrite struct {
	name string
	at   time.Time
}

func (f *fake) Plan(now time.Time, n int) (writes []Write, again time.Time) {
	f.plans++
	for len(f.held) > 0 && !f.held[0].at.After(now) {
		f.pending = append(f.pending, f.held[0].name)
		f.held = f.held[1:]
	}
	if len(f.held) > 0 {
		again = f.held[0].at
	}
	f.asked = append(f.asked, n)
	for len(writes) < n && len(f.pending) > 0 {
		name := f.pending[0]
		f.pending = f.pending[1:]
		writes = append(writes, Write{
			Controller: f.name, Object: Ref{Kind: "Thing", Name: name}, Verb: Patch, Summary: "set it",
			Do: func(ctx context.Context) error { return f.do(ctx, name) },
		})
	}
	if f.again > 0 {
		again = Earlier(again, now.Add(f.again))
	}
	return writes, again
}

// Done implements Controller. It plans a failed write again.
func (f *fake) Done(w Write, err error) {
	f.errors[w.Object.Name] = append(f.errors[w.Object.Name], err)
	switch {
	case err != nil && f.hold > 0:
		f.held = append(f.held, heldWrite{w.Object.Name, time.Now().Add(f.hold)})
	case err != nil:
		f.pending = append(f.pending, w.Object.Name)
	}
}

func (f *fake) Lead(t election.Term) { f.led = append(f.led, t) }

func (f *fake) Clean() bool { return !f.unclean }

// written counts the objects that were written.
func (f *fake) written() (n int) {
	for _, all := range f.errors {
		if all[len(all)-1] == nil {
			n++
		}
	}
	return n
}

// lab runs an Engine in a bubble of synctest.
type lab struct {
	*Engine
	t    *testing.T
	feed *fakeFeed
	lead context.CancelFunc // ends the term
	led  chan bool          // what Lead returned
}

// run runs test with an Engine of controllers.
func run(t *testing.T, o Options, test func(l *lab), controllers ...*fake) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		if o.Mode == "" {
			o.Mode = WriteMode
		}
		if o.WriteTimeout == 0 {
			o.WriteTimeout = 5 * time.Second
		}
		l := &lab{Engine: New(o), t: t, feed: &fakeFeed{lists: true}, led: make(chan bool, 1), lead: func() {}}
		l.feeds = append(l.feeds, l.feed)
		for _, c := range controllers {
			l.Add(c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Run(ctx)
		}()
		test(l)
		l.lead()
		synctest.Wait()
		cancel()
		<-ended
	})
}

// begin begins a term.
func (l *lab) begin(t election.Term) {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.lead = cancel
	go func() { l.led <- l.Lead(ctx, t) }()
	synctest.Wait()
}

// look returns the state.
func (l *lab) look() State {
	l.t.Helper()
	s, ok := l.State(l.t.Context())
	if !ok {
		l.t.Fatal("the loop does not answer")
	}
	return s
}

// wrote counts the objects that a controller has written, while the loop goes on.
func (l *lab) wrote(c *fake) (n int) {
	l.t.Helper()
	if !l.Do(l.t.Context(), func() { n = c.written() }) {
		l.t.Fatal("the loop does not answer")
	}
	return n
}

// pass lets time pass.
func (l *lab) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
