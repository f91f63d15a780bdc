package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
)

var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: 30 * time.Second}

// patience limits how long a program waits because the API server asks for it.
const patience = 5 * time.Minute

// Pause backs off after that many failures in a row, the last of which was err. It
// waits at least half of the back-off, at random, so that programs which failed
// together do not retry together. It waits at least as long as the server asked for.
func Pause(ctx context.Context, failures int, err error) error {
	d := backoff.After(failures)
	if refused, ok := errors.AsType[*Error](err); ok && refused.After > 0 {
		after := min(refused.After, patience)
		d = max(d, after+rand.N(after/2+1))
	}
	return retry.Sleep(ctx, d)
}
