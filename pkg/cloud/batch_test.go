package cloud

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// source is a fake that records the keys of each read.
type source struct {
	mu    sync.Mutex
	reads [][]string
	fail  error
	lose  string // a failing read does not return this key
}

func (s *source) read(_ context.Context, keys []string) (map[string]Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(keys)
	s.reads = append(s.reads, keys)
	<-time.After(100 * time.Millisecond)
	all := make(map[string]Instance)
	for _, k := range keys {
		if s.fail == nil || k != s.lose {
			all[k] = Instance{ID: k, State: Running}
		}
	}
	return all, s.fail
}

func TestBatchCombinesReads(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := &source{}
		b := NewBatch(s.read)
		var running sync.WaitGroup
		for _, keys := range [][]string{{"a", "b"}, {"b", "c"}, {"c"}} {
			running.Go(func() {
				got, err := b.Instances(t.Context(), keys)
				if err != nil || len(got) != len(keys) {
					t.Errorf("%v: %v, %v", keys, got, err)
				}
			})
		}
		running.Wait()
		if len(s.reads) != 1 || !slices.Equal(s.reads[0], []string{"a", "b", "c"}) {
			t.Errorf("%q", s.reads)
		}
		// For a second the answer comes from the cache. After that it is read again.
		if got, err := b.Instances(t.Context(), []string{"a", "c"}); err != nil || len(got) != 2 || len(s.reads) != 1 {
			t.Errorf("%v, %v, %d reads", got, err, len(s.reads))
		}
		if got, err := b.Instances(t.Context(), []string{"a", "d"}); err != nil || len(got) != 2 || !slices.Equal(s.reads[1], []string{"d"}) {
			t.Errorf("%v, %v, %q", got, err, s.reads)
		}
		<-time.After(time.Second)
		if _, err := b.Instances(t.Context(), []string{"a"}); err != nil || len(s.reads) != 3 {
			t.Errorf("%v, %d reads", err, len(s.reads))
		}
	})
}

// TestBatchCachesOfferedInstances: for a while, offered instances cost no read. Those that do
// not run are not cached, because their state may soon change.
func TestBatchCachesOfferedInstances(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := &source{}
		b := NewBatch(s.read)
		b.Offer(map[string]Instance{
			"a": {ID: "a", State: Running, Type: "large"}, "b": {ID: "b", State: Starting}, "c": {State: Absent, Problem: "no such instance"},
		})
		<-time.After(offerTime - time.Millisecond)
		if got, err := b.Instances(t.Context(), []string{"a"}); err != nil || got["a"].Type != "large" || len(s.reads) != 0 {
			t.Errorf("%v, %v, %q", got, err, s.reads)
		}
		if got, err := b.Instances(t.Context(), []string{"a", "b", "c"}); err != nil || len(got) != 3 || !slices.Equal(s.reads[0], []string{"b", "c"}) {
			t.Errorf("%v, %v, %q", got, err, s.reads)
		}
		<-time.After(cacheTime)
		if got, err := b.Instances(t.Context(), []string{"a"}); err != nil || got["a"].Type != "" || len(s.reads) != 2 {
			t.Errorf("%v, %v, %q", got, err, s.reads)
		}
	})
}

// TestBatchReturnsTheErrorOfMissingKeys: only callers that miss a key get the error, and the
// next call reads that key again.
func TestBatchReturnsTheErrorOfMissingKeys(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := &source{fail: errors.New("denied"), lose: "b"}
		b := NewBatch(s.read)
		var running sync.WaitGroup
		for key, want := range map[string]error{"a": nil, "b": s.fail} {
			running.Go(func() {
				got, err := b.Instances(t.Context(), []string{key})
				if _, known := got[key]; err != want || known != (want == nil) {
					t.Errorf("%s: %v, %v", key, got, err)
				}
			})
		}
		running.Wait()
		s.fail = nil
		if got, err := b.Instances(t.Context(), []string{"b"}); err != nil || got["b"].State != Running {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestBatchOutlivesItsFirstCaller: a caller that gives up does not end a read for which
// another one waits.
func TestBatchOutlivesItsFirstCaller(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := &source{}
		b := NewBatch(s.read)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if got, err := b.Instances(ctx, []string{"a"}); len(got) > 0 || KindOf(err) != Unavailable || err == nil {
				t.Errorf("%v, %v", got, err)
			}
		})
		running.Go(func() {
			if got, err := b.Instances(t.Context(), []string{"a"}); len(got) != 1 || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
		synctest.Wait()
		cancel()
		running.Wait()
	})
}

// TestBatchEndsBeforeItsCallers: a slow read ends before the controllers stop waiting, so that
// they get the instances that it has found.
func TestBatchEndsBeforeItsCallers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b := NewBatch(func(ctx context.Context, _ []string) (map[string]Instance, error) {
			<-ctx.Done()
			return map[string]Instance{"a": {ID: "a", State: Running}}, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the limit of controller.Lookup
		defer cancel()
		if got, err := b.Instances(ctx, []string{"a", "b"}); got["a"].ID != "a" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", got, err)
		}
	})
}
