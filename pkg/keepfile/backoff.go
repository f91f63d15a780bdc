package keepfile

import (
	"math/rand/v2"
	"time"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second // a mount that becomes writable again sends no event
)

// backoff is how long to wait after so many failures: half of the time at
// least, so that many who failed together do not come back together.
func backoff(failures int) time.Duration {
	d := lastRetry
	if failures < 12 {
		d = min(firstRetry<<(failures-1), lastRetry)
	}
	return d/2 + rand.N(d/2)
}
