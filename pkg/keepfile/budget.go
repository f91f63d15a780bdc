package keepfile

import (
	"math/rand/v2"
	"time"
)

const (
	freeWrites = 5                // before others count as changing it again and again
	refill     = 20 * time.Second // until one of those comes back
	writeEvery = time.Second      // when there is none left

	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// budget is how often a file may be written because of others.
type budget struct {
	whole time.Time // when all that was spent has come back
	last  time.Time // when some was spent
}

// spend takes one write, or says how long to wait for it. Over says that there
// were too many.
func (b *budget) spend(now time.Time) (wait time.Duration, over bool) {
	if b.whole.Before(now) {
		b.whole = now
	}
	over = b.whole.Sub(now) > (freeWrites-1)*refill
	if wait = writeEvery - now.Sub(b.last); over && wait > 0 {
		return wait, true
	}
	b.last = now
	if b.whole = b.whole.Add(refill); over {
		b.whole = now.Add(freeWrites * refill)
	}
	return 0, over
}

// calm says that all has come back.
func (b *budget) calm(now time.Time) bool { return !b.whole.After(now) }

// backoff is how long to wait after so many failures: half of the time at
// least, so that many who failed together do not come back together.
func backoff(failures int) time.Duration {
	d := lastRetry
	if failures < 12 {
		d = min(firstRetry<<(failures-1), lastRetry)
	}
	return d/2 + rand.N(d/2)
}
