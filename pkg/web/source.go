package web

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
)

// Source is a daemon that can be asked.
type Source interface {
	// Alive says, within ctx, whether the daemon's loop still turns.
	Alive(ctx context.Context) bool
	// State tells how the daemon is. With an error it is what could be told
	// without the daemon's loop, which did not answer within ctx.
	State(ctx context.Context) (State, error)
	// Peers tells of all other nodes, in the order of their subnets.
	Peers(ctx context.Context) ([]status.Peer, error)
}

// State is a report, and what is counted beside it.
type State struct {
	status.Report
	// Listed says that all peers are known: from the store, or from what was
	// remembered of it.
	Listed  bool
	Resyncs uint64 // of the kernel
}

// answerLimit is how long the daemon's loop may take.
const answerLimit = 2 * time.Second

// reading is a state, and what is to be known about it.
type reading struct {
	State
	at time.Time
	// stuck is why the loop did not answer; then all that only the loop knows is
	// missing from the State.
	stuck error
}

func read(ctx context.Context, s Source, limit time.Duration) reading {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	state, err := s.State(ctx)
	return reading{state, time.Now(), err}
}
