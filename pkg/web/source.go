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
	// State reports how the daemon is, within ctx.
	State(ctx context.Context) State
	// Peers tells of all other nodes, in the order of their subnets.
	Peers(ctx context.Context) ([]status.Peer, error)
}

// State is a report, and what is counted beside it.
type State struct {
	status.Report
	Resyncs uint64 // of the kernel
}

// answerLimit is how long the daemon's loop may take.
const answerLimit = 2 * time.Second

// reading is a state, and what is to be known about it.
type reading struct {
	State
	at time.Time
}

func read(ctx context.Context, s Source, limit time.Duration) reading {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return reading{s.State(ctx), time.Now()}
}
