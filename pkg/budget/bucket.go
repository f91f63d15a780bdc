package budget

import "time"

// bucket holds time that may be spent. It fills with a share of the time that
// passes. Spending may overdraw it, since the price is known only afterwards.
type bucket struct {
	share float64       // what flows in, as a part of one core
	most  time.Duration // what it holds when full, as it is at first
	debt  time.Duration // what it may be overdrawn by; it forgets the rest

	level time.Duration
	at    time.Time // when level was true
}

// fill adds what has flowed in until now.
func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.level, b.at = b.most, now
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.level = min(b.most, b.level+time.Duration(b.share*float64(passed)))
		b.at = now
	}
}

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
