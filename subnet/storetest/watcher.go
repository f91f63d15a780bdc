package storetest

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// patience is how long the suite waits for a condition before it fails. It is far
// longer than any store takes.
const patience = 10 * time.Second

// view follows a store's Watch. It takes each message when the test asks for it.
type view struct {
	t       *testing.T
	updates chan subnet.Update
	leases  map[string]subnet.Lease
	bad     map[string]*subnet.LeaseError
	lists   int // complete lists so far
}

// watcher watches s until the test ends.
func watcher(t *testing.T, s Store) *view {
	v := &view{
		t:       t,
		updates: make(chan subnet.Update),
		leases:  map[string]subnet.Lease{},
		bad:     map[string]*subnet.LeaseError{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, func(u subnet.Update) {
			select {
			case v.updates <- u:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		receive(t, ended, "the end of Watch")
	})
	return v
}

// next takes the store's next message and applies it to the view. what names what the
// test waits for.
func (v *view) next(what string) subnet.Update {
	v.t.Helper()
	u := receive(v.t, v.updates, what)
	if u.Complete {
		v.lists++
		clear(v.leases)
		clear(v.bad)
	}
	for _, key := range u.Gone {
		delete(v.leases, key)
		delete(v.bad, key)
	}
	for _, l := range u.Leases {
		v.leases[l.Key()] = l
		delete(v.bad, l.Key())
	}
	for _, b := range u.Bad {
		v.bad[b.Key] = b
		delete(v.leases, b.Key)
	}
	return u
}

// await takes messages until the view meets a condition.
func (v *view) await(what string, met func(leases map[string]subnet.Lease) bool) {
	v.t.Helper()
	for !met(v.leases) {
		v.next(what)
	}
}

// awaitUpdate takes messages until one meets a condition.
func (v *view) awaitUpdate(what string, met func(subnet.Update) bool) {
	v.t.Helper()
	for !met(v.next(what)) {
	}
}

// receive returns the next value of c. It fails the test after patience.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out after %v waiting for %s", patience, what)
		panic("unreachable")
	}
}

// noLeak fails the test if goroutines of a store outlive it.
func noLeak(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		leaked := goroutines()
		if len(leaked) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines were left:\n%s", len(leaked), strings.Join(leaked, "\n\n"))
			return
		}
	}
}

// goroutines returns the stacks of goroutines in a store, without those of tests.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	return slices.DeleteFunc(strings.Split(string(buf), "\n\n"), func(stack string) bool {
		return !strings.Contains(stack, "tulle/subnet") || strings.Contains(stack, "testing.tRunner")
	})
}
