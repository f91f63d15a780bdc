package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
)

// Stream is a resource from elsewhere than an API server, like the leases in etcd. The Engine
// calls Watch outside the loop, and the other functions in it.
type Stream[V any] struct {
	What string
	// Watch passes a full list of the values to the Sink, and then each change, until ctx
	// ends. It may list again at any time. It retries by itself, reports each failure, and
	// reports nil when it works again.
	Watch func(ctx context.Context, to Sink[V])
	// List replaces all values. Set replaces one, and Delete removes one.
	List   func(all map[string]V)
	Set    func(key string, value V)
	Delete func(key string)
}

// Sink takes what a Stream's Watch reads. Its methods never wait for the loop.
type Sink[V any] interface {
	List(all map[string]V)
	Set(key string, value V)
	Delete(key string)
	Report(err error)
}

// FollowStream adds a Stream to an Engine.
func FollowStream[V any](e *Engine, s Stream[V]) {
	e.feeds = append(e.feeds, &stream[V]{Stream: s, engine: e, restart: retry.NewWakeup(), news: make(chan struct{})})
}

// stream is the state of a Stream. It implements feed; session implements Sink for one run of
// Watch.
type stream[V any] struct {
	Stream[V]
	engine  *Engine
	box     mailbox[V]
	restart retry.Wakeup

	mu      sync.Mutex
	wanted  int64 // the number of the wanted list, counted by relist
	has     int64 // the number of the last list that the loop took
	listed  bool
	failure error
	news    chan struct{} // closed, and replaced, when one of them changes
}

// session is one run of Watch.
type session[V any] struct {
	*stream[V]
	number int64 // of its lists
}

// rewatchInterval is the pause before Watch runs again after it has returned by itself.
const rewatchInterval = time.Second

func (s *stream[V]) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.restart.Clear()
		within, end := context.WithCancel(ctx)
		var number int64
		s.change(func() { number = s.wanted })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Watch(within, session[V]{s, number})
		}()
		select {
		case <-s.restart:
		case <-ctx.Done():
		case <-ended:
			_ = retry.Sleep(ctx, rewatchInterval)
		}
		end()
		<-ended
	}
}

func (s *stream[V]) relist() {
	s.change(func() { s.wanted++ })
	s.restart.Wake()
}

func (s *stream[V]) isFresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed && s.has == s.wanted
}

func (s *stream[V]) state() FeedState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := FeedState{What: s.What, Listed: s.listed}
	if s.failure != nil {
		state.Problem = s.failure.Error()
	}
	return state
}

// List implements Sink.
func (s session[V]) List(all map[string]V) {
	s.box.replace(fullList[V]{all: all, wanted: s.number})
	s.engine.news.Wake()
}

// Set implements Sink.
func (s session[V]) Set(key string, value V) {
	s.box.put(key, change[V]{value: value})
	s.engine.news.Wake()
}

// Delete implements Sink.
func (s session[V]) Delete(key string) {
	s.box.put(key, change[V]{gone: true})
	s.engine.news.Wake()
}

// Report implements Sink.
func (s session[V]) Report(err error) {
	s.change(func() { s.failure = err })
	s.engine.news.Wake()
}

func (s *stream[V]) take() func() {
	m := s.box.take()
	if m.list == nil && m.changes == nil {
		return nil
	}
	return func() {
		if l := m.list; l != nil {
			s.Stream.List(l.all)
			s.change(func() { s.has, s.listed = l.wanted, true })
		}
		for key, c := range m.changes {
			if c.gone {
				s.Stream.Delete(key)
			} else {
				s.Stream.Set(key, c.value)
			}
		}
	}
}

// change changes the state, and wakes await.
func (s *stream[V]) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.news)
	s.news = make(chan struct{})
}

func (s *stream[V]) await(ctx context.Context) error {
	for {
		s.mu.Lock()
		listed, err, news := s.listed, s.failure, s.news
		s.mu.Unlock()
		switch {
		case listed:
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", s.What, err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", s.What, ctx.Err())
		}
	}
}
