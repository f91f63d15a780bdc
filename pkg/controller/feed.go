package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// absentPause is the longest pause before the next request for a resource that the server
// does not have.
const absentPause = time.Minute

// absentLimit is how long a server may lack a resource that it had before its objects count
// as gone. Meanwhile, a proxy or a server of another version may answer in its place.
const absentLimit = 10 * time.Minute

// mostFailures limits the back-off between two sessions to about three seconds. A short one
// is cheap, because only a few replicas follow a cluster, and Nodes wait for them.
const mostFailures = 6

// Feed follows a resource for a controller. The Engine calls Keep outside the loop, and the
// other functions in it.
type Feed[T, V any] struct {
	What   string // like "nodes"
	Client *kube.Client
	Path   string
	Format kube.Format[T]
	// Optional marks a resource that some servers do not have. From them, List gets nil. If a
	// server had the resource, List gets nil only in a new term, or after absentLimit.
	Optional bool

	// Keep returns the value to keep of an object, and the object's unique key. All feeds
	// of a resource return the same key. Keep must copy what it keeps of the object.
	Keep func(object *T) (key string, value V)
	// Begin, if set, gets the number of a full list before its request is sent: the list
	// has everything that was written before. A later list may begin before the loop has
	// taken an earlier one.
	Begin func(list int64)
	// List replaces all objects. For a server without the resource, it gets nil. A feed
	// with Begin sets NumberedList instead, which also gets the list's number.
	List         func(all map[string]V)
	NumberedList func(list int64, all map[string]V)
	// Set replaces one object, and Delete removes one. While the loop is busy, only the
	// last change of each key is kept. So Set may also replace an object by a new one of
	// the same key.
	Set    func(key string, value V)
	Delete func(key string)
	// Flush, if set, is called after the List, the Sets and the Deletes that the loop took
	// together. It computes what depends on all objects.
	Flush func()
}

// Follow adds a feed to an Engine. Feeds of one resource in one format share a watch.
func Follow[T, V any](e *Engine, f Feed[T, V]) {
	for _, other := range e.feeds {
		if p, is := other.(*pipe[T]); is && p.watch.Client == f.Client && p.watch.Path == f.Path && p.format.Kind() == f.Format.Kind() && p.optional == f.Optional {
			p.takers = append(p.takers, f.taker())
			return
		}
	}
	p := &pipe[T]{
		what: f.What, format: f.Format, optional: f.Optional, takers: []taker[T]{f.taker()},
		engine: e, again: retry.NewWakeup(), news: make(chan struct{}),
	}
	p.watch.Client, p.watch.Path, p.watch.Format, p.watch.Sink = f.Client, f.Path, f.Format, p
	p.watch.Report, p.watch.Pause = p.report, p.pause
	p.outcome = trouble.Outcome{Failed: "Failed to follow a resource; retrying", Works: "Following a resource works again", EachReason: true}
	e.feeds = append(e.feeds, p)
}

// Replace carries out a Feed's List by its Set and its Delete: it sets all objects of the
// list, and then deletes those of known that the list does not have.
func Replace[Known, V any](known map[string]Known, list map[string]V, set func(key string, value V), remove func(key string)) {
	for key, value := range list {
		set(key, value)
	}
	for key := range known {
		if _, exists := list[key]; !exists {
			remove(key)
		}
	}
}

// taker is a Feed of any value.
type taker[T any] struct {
	keep   func(object *T) (key string, value any)
	begin  func(list int64)                 // nil without one
	list   func(of *fullList[[]any], i int) // takes the i-th value of each object
	set    func(key string, value any)
	delete func(key string)
	flush  func() // nil without one
}

// taker returns f as a taker.
func (f Feed[T, V]) taker() taker[T] {
	return taker[T]{
		keep:  func(object *T) (string, any) { return f.Keep(object) },
		begin: f.Begin,
		list: func(of *fullList[[]any], i int) {
			var mine map[string]V
			if of.all != nil {
				mine = make(map[string]V, len(of.all))
			}
			for key, values := range of.all {
				mine[key] = values[i].(V)
			}
			if f.NumberedList != nil {
				f.NumberedList(of.number, mine)
			} else {
				f.List(mine)
			}
		},
		set:    func(key string, value any) { f.Set(key, value.(V)) },
		delete: f.Delete,
		flush:  f.Flush,
	}
}

// feed is a Feed of any type.
type feed interface {
	run(ctx context.Context)
	// relist starts another list. Until it is complete, the feed is not fresh.
	relist()
	isFresh() bool
	state() FeedState
	// take returns a function that applies in the loop what was read, or nil if nothing
	// was read.
	take() func()
	// await waits until the feed has listed. It returns the first failure, or ctx's error.
	await(ctx context.Context) error
}

// FeedState is the state of a feed.
type FeedState struct {
	What string
	// Listed is set if it has read a full list since the start.
	Listed bool
	// Problem is why the feed fails now, or "".
	Problem string
	// Revision is the last resourceVersion that it read.
	Revision int64
}

// pipe is the watch of one or more Feeds. As kube.Chooser, it decides how each session of the
// watch begins.
type pipe[T any] struct {
	what     string
	format   kube.Format[T]
	optional bool
	takers   []taker[T]
	engine   *Engine
	watch    kube.Watch[T]
	outcome  trouble.Outcome // only the watch uses it
	box      mailbox[[]any]  // the values of the takers

	wanted atomic.Int64 // the number of the wanted list, counted by relist
	again  retry.Wakeup // ends the pause for an absent resource when a list is wanted
	// Only the watch uses what follows.
	session int64     // the wanted list when the session began
	begun   int64     // counts the lists that have begun
	relists bool      // the session began with a list that was wanted
	held    bool      // a list was read since the resource was last absent
	missing time.Time // since when the server lacks the resource while held; zero if it has it

	mu      sync.Mutex
	has     int64 // the number of the last list that the loop took
	listed  bool
	failure error         // of the last attempt to follow
	news    chan struct{} // closed, and replaced, when one of them changes
}

func (p *pipe[T]) run(ctx context.Context) { p.watch.Run(ctx) }

func (p *pipe[T]) relist() {
	p.wanted.Add(1)
	p.again.Wake()
	p.watch.Restart()
}

func (p *pipe[T]) isFresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed && p.has == p.wanted.Load()
}

func (p *pipe[T]) state() FeedState {
	_, revision := p.watch.Progress()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := FeedState{What: p.what, Listed: p.listed, Revision: revision}
	if p.failure != nil {
		s.Problem = p.failure.Error()
	}
	return s
}

// Choose implements kube.Chooser. It runs before the session's first request.
func (p *pipe[T]) Choose(resumed bool) (f kube.Format[T], relist bool) {
	p.again.Clear()
	p.session = p.wanted.Load()
	p.mu.Lock()
	p.relists = p.has != p.session
	p.mu.Unlock()
	relist = p.relists || !p.held
	if !relist && resumed {
		return p.format, relist
	}
	p.begun++
	number := p.begun // fixed here: the loop may run this after the next list has begun
	for _, t := range p.takers {
		if t.begin != nil {
			p.engine.post(func() { t.begin(number) })
		}
	}
	return p.format, relist
}

// Refused implements kube.Chooser.
func (p *pipe[T]) Refused() {}

// Unfit implements kube.Chooser.
func (p *pipe[T]) Unfit() bool { return false }

// List implements kube.Sink.
func (p *pipe[T]) List() kube.List[T] { return &listing[T]{p, make(map[string][]any)} }

// Set implements kube.Sink.
func (p *pipe[T]) Set(object *T) {
	key, values := p.keep(object)
	p.box.put(key, change[[]any]{value: values})
	p.engine.news.Wake()
}

// Delete implements kube.Sink.
func (p *pipe[T]) Delete(object *T) {
	key, _ := p.takers[0].keep(object)
	p.box.put(key, change[[]any]{gone: true})
	p.engine.news.Wake()
}

// keep returns what the takers keep of an object.
func (p *pipe[T]) keep(object *T) (key string, values []any) {
	values = make([]any, len(p.takers))
	for i, t := range p.takers {
		key, values[i] = t.keep(object)
	}
	return key, values
}

func (p *pipe[T]) take() func() {
	m := p.box.take()
	if m.list == nil && m.changes == nil {
		return nil
	}
	return func() {
		if l := m.list; l != nil {
			for i, t := range p.takers {
				t.list(l, i)
			}
			p.change(func() { p.has, p.listed = l.wanted, true })
		}
		for key, c := range m.changes {
			for i, t := range p.takers {
				if c.gone {
					t.delete(key)
				} else {
					t.set(key, c.value[i])
				}
			}
		}
		for _, t := range p.takers {
			if t.flush != nil {
				t.flush()
			}
		}
	}
}

// listing is a full list that is arriving.
type listing[T any] struct {
	pipe *pipe[T]
	all  map[string][]any
}

// Add implements kube.List.
func (l *listing[T]) Add(object *T) (isNew bool) {
	before := len(l.all)
	key, values := l.pipe.keep(object)
	l.all[key] = values
	return len(l.all) > before
}

// Delete implements kube.List.
func (l *listing[T]) Delete(object *T) {
	key, _ := l.pipe.takers[0].keep(object)
	delete(l.all, key)
}

// Done implements kube.List.
func (l *listing[T]) Done() bool {
	l.pipe.held = true
	l.pipe.replace(l.all)
	return true
}

// replace passes a full list to the loop. The feed counts as listed when the loop takes it.
func (p *pipe[T]) replace(all map[string][]any) {
	p.box.replace(fullList[[]any]{all: all, wanted: p.session, number: p.begun})
	p.engine.news.Wake()
}

// report records each failure of the watch, and nil when a session begins.
func (p *pipe[T]) report(err error) {
	switch {
	case err == nil:
		p.missing = time.Time{}
	case p.isAbsent(err) && p.isGone():
		p.held, p.missing = false, time.Time{}
		p.replace(nil)
		err = nil
	}
	err = explain(err)
	p.outcome.Was(err, "resource", p.what)
	p.change(func() { p.failure = err })
	p.engine.news.Wake()
}

// change changes the state, and wakes await.
func (p *pipe[T]) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.news)
	p.news = make(chan struct{})
}

func (p *pipe[T]) await(ctx context.Context) error {
	for {
		p.mu.Lock()
		listed, err, news := p.listed, p.failure, p.news
		p.mu.Unlock()
		switch {
		case listed:
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", p.what, err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", p.what, ctx.Err())
		}
	}
}

// isAbsent reports whether err says that the server does not have the resource.
func (p *pipe[T]) isAbsent(err error) bool {
	return p.optional && kube.Code(err) == http.StatusNotFound
}

// isGone reports whether a resource that the server lacks counts as absent.
func (p *pipe[T]) isGone() bool {
	if !p.held || p.relists { // a new term waits for every list
		return true
	}
	now := time.Now()
	if p.missing.IsZero() {
		p.missing = now
	}
	return now.Sub(p.missing) >= absentLimit
}

// pause waits between two sessions.
func (p *pipe[T]) pause(ctx context.Context, failures int, err error) error {
	if p.isAbsent(err) {
		timer := time.NewTimer(absentPause/2 + rand.N(absentPause/2))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.again: // a new term waits for the list
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	return kube.Pause(ctx, min(failures, mostFailures), err)
}
