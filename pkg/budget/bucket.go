package budget

import "time"

// bucket is a token bucket of processor time. It starts full, and refills with a share of
// the time that passes. Spending may overdraw it, since the cost is known only afterwards.
type bucket struct {
	share float64       // the refill rate, as a part of one core
	most  time.Duration // the capacity
	debt  time.Duration // the largest overdraft; the bucket forgets the rest

	level time.Duration
	at    time.Time // of the last refill
}

// fill refills the bucket for the time until now.
func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.level, b.at = b.most, now
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.level = min(b.most, b.level+time.Duration(b.share*float64(passed)))
		b.at = now
	}
}

// spend takes cost out of the bucket.
func (b *bucket) spend(now time.Time, cost time.Duration) {
	b.fill(now)
	b.level = max(b.level-cost, -b.debt)
}

// when returns the earliest time, from now on, at which the bucket holds more
// than reserve.
func (b *bucket) when(now time.Time, reserve time.Duration) time.Time {
	b.fill(now)
	if b.level > reserve {
		return now
	}
	return now.Add(time.Duration(float64(reserve-b.level)/b.share) + time.Microsecond)
}
