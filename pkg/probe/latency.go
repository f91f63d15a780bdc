package probe

import (
	"maps"
	"time"
)

// Histogram is the distribution of round-trip times.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	Buckets [len(bounds)]uint64 // of at most each of the bounds
}

var bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
}

// Bounds returns the upper bounds of a Histogram's buckets.
func Bounds() []time.Duration { return bounds[:] }

func (h *Histogram) add(d time.Duration) {
	h.Count++
	h.Sum += d
	for i, b := range bounds {
		if d <= b {
			h.Buckets[i]++
		}
	}
}

func (c Counts) clone() Counts {
	c.Failed = maps.Clone(c.Failed)
	return c
}
