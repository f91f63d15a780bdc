package controller

import (
	"context"
	"testing"

	"github.com/tulle-net/tulle/pkg/election"
)

// TestLateLoopDoesNotChangeTheState: if the loop does not answer in time, State returns a
// value that the loop no longer sets.
func TestLateLoopDoesNotChangeTheState(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{Number: 7})
		late, cancel := context.WithCancel(l.t.Context())
		cancel()
		for range 1000 {
			if s, ok := l.State(late); !ok && s.Leading {
				l.t.Fatal("it leads, as nothing has answered")
			}
		}
	})
}
