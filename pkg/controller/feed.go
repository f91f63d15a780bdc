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

// absentPause is how long to wait before asking again for a resource that the server
// does not have.
const absentPause = time.Minute

// mostFailures limits the back-off between two sessions to about three seconds: few
// replicas follow a cluster, and its Nodes wait for them.
const mostFailures = 6

// Feed follows a resource for a controller. Keep runs outside the loop, the other
// functions in it.
type Feed[T, V any] struct {
	What   string // like "nodes"
	Client *kube.Client
	Path   string
	Format kube.Format[T]
	// Optional marks a resource that some servers do not have. There, the list is empty.
	Optional bool

	// Keep returns what to keep of an object, and a key that no other object has. It
	// keeps no slice of the object.
	Keep func(object *T) (key string, value V)
	// Begin, if set, reports that a full list begins. The list has everything that was
	// written before.
	Begin func()
	// List replaces all objects.
	List func(all map[string]V)
	// Set replaces one object, and Delete removes one. Of changes of one key that come
	// faster than the loop takes them, only the last one arrives: Set may replace an
	// object by one that was created after its deletion.
	Set    func(key string, value V)
	Delete func(key string)
}

// Follow adds a feed to an Engine.
func Follow[T, V any](e *Engine, f Feed[T, V]) {
	p := &pipe[T, V]{Feed: f, engine: e, again: retry.NewWakeup(), news: make(chan struct{})}
	p.watch.Client, p.watch.Path, p.watch.Format, p.watch.Sink = f.Client, f.Path, f.Format, p
	p.watch.Report, p.watch.Pause = p.report, p.pause
	p.outcome = trouble.Outcome{Failed: "Failed to follow a resource; retrying", Works: "Following a resource works again", EachReason: true}
	e.feeds = append(e.feeds, p)
}

// feed is a Feed of any type.
type feed interface {
	run(ctx context.Context)
	// relist starts another list. Until it is complete, the feed is not fresh.
	relist()
	isFresh() bool
	state() FeedState
	// take returns what makes, in the loop, the changes that were read, or nil without
	// any.
	take() func()
	// await waits until the feed has listed. It returns the first failure, or ctx's error.
	await(ctx context.Context) error
}

// FeedState is the state of a feed.
type FeedState struct {
	What string
	// Listed reports whether it has listed since the start.
	Listed bool
	// Problem is why the feed does not work now, or "".
	Problem string
	// Revision is the last resourceVersion that it has read.
	Revision int64
}

// pipe is a Feed at work. It chooses the sessions of its watch.
type pipe[T, V any] struct {
	Feed[T, V]
	engine  *Engine
	watch   kube.Watch[T]
	outcome trouble.Outcome // only the watch uses it
	box     mailbox[V]

	wanted  atomic.Int64 // the list that is wanted, counted by relist
	again   retry.Wakeup // ends the pause for an absent resource when a list is wanted
	session int64        // the wanted list when the session began; only the watch uses it

	mu      sync.Mutex
	has     int64 // the list that was read last
	listed  bool
	failure error         // of the last attempt to follow
	news    chan struct{} // closed, and replaced, when one of them changes
}

func (p *pipe[T, V]) run(ctx context.Context) { p.watch.Run(ctx) }

func (p *pipe[T, V]) relist() {
	p.wanted.Add(1)
	p.again.Wake()
	p.watch.Restart()
}

func (p *pipe[T, V]) isFresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed && p.has == p.wanted.Load()
}

func (p *pipe[T, V]) state() FeedState {
	_, revision := p.watch.Progress()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := FeedState{What: p.What, Listed: p.listed, Revision: revision}
	if p.failure != nil {
		s.Problem = p.failure.Error()
	}
	return s
}

// Choose implements kube.Chooser. It runs before the session's first request.
func (p *pipe[T, V]) Choose(resumed bool) (f kube.Format[T], relist bool) {
	p.again.Clear()
	p.session = p.wanted.Load()
	p.mu.Lock()
	relist = p.has != p.session
	p.mu.Unlock()
	if (relist || !resumed) && p.Begin != nil {
		p.engine.post(p.Begin)
	}
	return p.Format, relist
}

// Refused implements kube.Chooser.
func (p *pipe[T, V]) Refused() {}

// Unfit implements kube.Chooser.
func (p *pipe[T, V]) Unfit() bool { return false }

// List implements kube.Sink.
func (p *pipe[T, V]) List() kube.List[T] { return &listing[T, V]{p, make(map[string]V)} }

// Set implements kube.Sink.
func (p *pipe[T, V]) Set(object *T) {
	key, value := p.Keep(object)
	p.box.put(key, change[V]{value: value})
	p.engine.news.Wake()
}

// Delete implements kube.Sink.
func (p *pipe[T, V]) Delete(object *T) {
	key, _ := p.Keep(object)
	p.box.put(key, change[V]{gone: true})
	p.engine.news.Wake()
}

func (p *pipe[T, V]) take() func() {
	m := p.box.take()
	if m.list == nil && m.changes == nil {
		return nil
	}
	return func() {
		if l := m.list; l != nil {
			p.Feed.List(l.all)
			p.change(func() { p.has, p.listed = l.number, true })
		}
		for key, c := range m.changes {
			if c.gone {
				p.Feed.Delete(key)
			} else {
				p.Feed.Set(key, c.value)
			}
		}
	}
}

// listing is a list while it arrives.
type listing[T, V any] struct {
	pipe *pipe[T, V]
	all  map[string]V
}

// Add implements kube.List.
func (l *listing[T, V]) Add(object *T) (isNew bool) {
	before := len(l.all)
	key, value := l.pipe.Keep(object)
	l.all[key] = value
	return len(l.all) > before
}

// Delete implements kube.List.
func (l *listing[T, V]) Delete(object *T) {
	key, _ := l.pipe.Keep(object)
	delete(l.all, key)
}

// Done implements kube.List.
func (l *listing[T, V]) Done() bool {
	l.pipe.replace(l.all)
	return true
}

// replace passes a complete list to the loop. The feed has listed once the loop has it.
func (p *pipe[T, V]) replace(all map[string]V) {
	p.box.replace(fullList[V]{all, p.session})
	p.engine.news.Wake()
}

// report takes each failure of the watch, and nil when a session begins.
func (p *pipe[T, V]) report(err error) {
	if p.isAbsent(err) {
		p.replace(nil)
		err = nil
	}
	err = explain(err)
	p.outcome.Was(err, "resource", p.What)
	p.change(func() { p.failure = err })
	p.engine.news.Wake()
}

// change changes the state, and wakes await.
func (p *pipe[T, V]) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.news)
	p.news = make(chan struct{})
}

func (p *pipe[T, V]) await(ctx context.Context) error {
	for {
		p.mu.Lock()
		listed, err, news := p.listed, p.failure, p.news
		p.mu.Unlock()
		switch {
		case listed:
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", p.What, err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", p.What, ctx.Err())
		}
	}
}

// isAbsent reports whether err says that the server does not have the resource.
func (p *pipe[T, V]) isAbsent(err error) bool {
	return p.Optional && kube.Code(err) == http.StatusNotFound
}

// pause waits between two sessions.
func (p *pipe[T, V]) pause(ctx context.Context, failures int, err error) error {
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
