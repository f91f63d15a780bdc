package controller

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// streamLab is a stream. The test passes the values of its Watch.
type streamLab struct {
	*stream[int]
	sinks chan Sink[int]
	ends  chan bool // makes Watch return
	has   map[string]int
}

func newStreamLab(t *testing.T) *streamLab {
	l := &streamLab{sinks: make(chan Sink[int], 100), ends: make(chan bool), has: make(map[string]int)}
	l.stream = &stream[int]{engine: New(Options{Mode: WriteMode}), restart: retry.NewWakeup(), news: make(chan struct{}), Stream: Stream[int]{
		What: "things",
		Watch: func(ctx context.Context, to Sink[int]) {
			l.sinks <- to
			select {
			case <-ctx.Done():
			case <-l.ends:
			}
		},
		List:   func(all map[string]int) { l.has = maps.Clone(all) },
		Set:    func(key string, value int) { l.has[key] = value },
		Delete: func(key string) { delete(l.has, key) },
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return l
}

// deliver takes what was read, as the loop does.
func (l *streamLab) deliver() {
	if apply := l.take(); apply != nil {
		apply()
	}
}

// TestStreamIsFreshOnlyAfterALaterList: the loop gets the last state of everything, in the
// order of reading. After relist, only a list of a later watch makes the stream fresh.
func TestStreamIsFreshOnlyAfterALaterList(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newStreamLab(t)
		first := <-l.sinks
		first.List(map[string]int{"a": 1, "b": 1})
		first.Set("a", 2)
		first.Set("c", 2)
		first.Delete("b")
		if l.isFresh() {
			t.Error("it is fresh before the loop has the list")
		}
		l.deliver()
		if !l.isFresh() || !maps.Equal(l.has, map[string]int{"a": 2, "c": 2}) {
			t.Errorf("fresh: %v, %v", l.isFresh(), l.has)
		}
		l.relist()
		first.List(map[string]int{"late": 1})
		l.deliver()
		if l.isFresh() {
			t.Error("a list of the watch before is fresh")
		}
		second := <-l.sinks
		second.List(map[string]int{"d": 3})
		l.deliver()
		if !l.isFresh() || !maps.Equal(l.has, map[string]int{"d": 3}) {
			t.Errorf("fresh: %v, %v", l.isFresh(), l.has)
		}
	})
}

// TestStreamReportsWhyItHasNoList: await returns the failure, and nil once there is a list.
func TestStreamReportsWhyItHasNoList(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newStreamLab(t)
		to := <-l.sinks
		to.Report(errors.New("no such host"))
		if err := l.await(t.Context()); err == nil || !strings.Contains(err.Error(), "read things: no such host") || l.state().Problem != "no such host" {
			t.Errorf("%v, %+v", err, l.state())
		}
		to.Report(nil)
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.await(within); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- l.await(t.Context()) }()
		synctest.Wait()
		to.List(nil)
		l.deliver()
		if err := <-waited; err != nil || !l.state().Listed {
			t.Errorf("%v, %+v", err, l.state())
		}
	})
}

// TestStreamPausesBeforeItWatchesAgain: a Watch that returns by itself runs again after a
// pause.
func TestStreamPausesBeforeItWatchesAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newStreamLab(t)
		began := time.Now()
		for range 5 {
			<-l.sinks
			l.ends <- true
		}
		<-l.sinks
		if took := time.Since(began); took != 5*rewatchInterval {
			t.Errorf("6 watches within %s", took)
		}
	})
}
