package web

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/status"
)

// Source is the daemon.
type Source interface {
	// Alive reports, within ctx, whether the daemon's loop answers.
	Alive(ctx context.Context) bool
	// State returns the daemon's state, within ctx.
	State(ctx context.Context) State
	// Peers returns all other nodes, in the order of their subnets.
	Peers(ctx context.Context) ([]status.Peer, error)
}

// State is a report with further counts.
type State struct {
	status.Report
	Resyncs uint64 // with the kernel
}

// answerLimit is the time limit of the daemon's loop.
const answerLimit = httpd.AnswerLimit

// reading is a state, and when it was read.
type reading struct {
	State
	at time.Time
}

func read(ctx context.Context, s Source, limit time.Duration) reading {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return reading{s.State(ctx), time.Now()}
}
