package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
	// patience is the longest that a server is left alone because it asks for it.
	patience = 5 * time.Minute
)

// Pause waits after so many failures in a row, the last of which was err. It waits at
// least half of the time that grows with the failures, so that programs which failed
// together do not come back together, and not less than the server asked for.
func Pause(ctx context.Context, failures int, err error) error {
	d := min(firstWait<<min(failures-1, 10), lastWait)
	d = d/2 + rand.N(d/2)
	if refused, ok := errors.AsType[*Error](err); ok && refused.After > 0 {
		after := min(refused.After, patience)
		d = max(d, after+rand.N(after/2+1))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}
