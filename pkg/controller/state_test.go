package controller

import (
	"context"
	"testing"

	"github.com/tulle-net/tulle/pkg/election"
)

// Without the loop's answer in time, State returns nothing that the loop may still set.
func TestStateWithoutAnAnswerIsNotTheLoops(t *testing.T) {
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
