package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// seen records what a watch reports.
type seen struct {
	mu     sync.Mutex
	leases map[string]subnet.Lease
	bad    map[string]*subnet.LeaseError
	lists  int
	least  int // fewest leases since the first list
}

func (l *lab) watch(node string) *seen {
	s := &seen{leases: make(map[string]subnet.Lease), bad: make(map[string]*subnet.LeaseError), least: -1}
	l.background(func(ctx context.Context) {
		_ = l.store(node).Watch(ctx, func(u subnet.Update) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if u.Complete {
				s.lists++
				clear(s.leases)
				clear(s.bad)
			}
			for _, key := range u.Gone {
				delete(s.leases, key)
				delete(s.bad, key)
			}
			for _, l := range u.Leases {
				s.leases[l.Key()] = l
				delete(s.bad, l.Key())
			}
			for _, b := range u.Bad {
				s.bad[b.Key] = b
				delete(s.leases, b.Key)
			}
			if n := len(s.leases); s.least < 0 || n < s.least {
				s.least = n
			}
		})
	})
	return s
}

// background runs f until the test ends.
func (l *lab) background(f func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	end = func() { cancel(); running.Wait() }
	l.t.Cleanup(end)
	return end
}

// soon is longer than a server's start and the longest back-off.
const soon = 40 * time.Second

func (s *seen) await(t testing.TB, what string, met func() bool) {
	t.Helper()
	kerneltest.Eventually(t, soon, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if met() {
			return nil
		}
		return fmt.Errorf("not %s: %d lists, leases %v, bad %v", what, s.lists, s.leases, s.bad)
	})
}

func (l *lab) failing(node, what string, words ...string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, soon, func() error {
		text := l.store(node).Status().Failing[what]
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("%s: %q, without %q", what, text, word)
			}
		}
		if len(words) == 0 && text != "" {
			return fmt.Errorf("%s: %s", what, text)
		}
		return nil
	})
}

// acquired is the result of an Acquire in the background.
type acquired struct {
	lease subnet.Lease
	err   error
}

func (l *lab) acquire(c subnet.Claim) <-chan acquired {
	got := make(chan acquired, 1)
	l.background(func(ctx context.Context) {
		lease, err := l.store(c.Node.Name).Acquire(ctx, c)
		got <- acquired{lease, err}
	})
	return got
}

func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(soon):
		t.Fatalf("nothing within %v", soon)
		panic("unreachable")
	}
}

// leased returns a node's lease that a Hold keeps, and the end of the Hold.
func (l *lab) leased(i int) (own subnet.Lease, ended <-chan error) {
	l.t.Helper()
	got := receive(l.t, l.acquire(claim(i)))
	if got.err != nil {
		l.t.Fatal(got.err)
	}
	result := make(chan error, 1)
	s := l.store(got.lease.Node.Name)
	l.background(func(ctx context.Context) { result <- s.Hold(ctx, got.lease) })
	return got.lease, result
}

// set writes one annotation.
func (l *lab) set(node, name, text string) {
	l.t.Helper()
	l.annotate(node, map[string]*string{prefix + "/" + name: &text})
}
