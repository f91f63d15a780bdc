package ipam

import (
	"math"
	"slices"
	"time"
)

// Forecast is when a pool will be full if it grows on as it did lately.
//
// It follows from when the present Nodes were created. The last four weeks, or the
// time since the oldest Node was created if that is shorter, are cut into four parts.
// The pace is that of the second slowest part. So a pool counts as growing if Nodes
// came in three parts of four: many Nodes that were created or replaced at once are
// no growth.
type Forecast struct {
	PerDay float64   // Nodes more a day
	Full   time.Time // zero: not in sight
}

const (
	day = 24 * time.Hour
	// longestLook is how far a forecast looks back, and shortestLook how far it must
	// be able to.
	longestLook  = 4 * 7 * day
	shortestLook = day
	// horizon is how far ahead a day is in sight.
	horizon = 5 * 365 * day
)

// forecast returns when the blocks that are left will be used, from when Nodes were
// created.
func forecast(created []int64, left uint64, now time.Time) Forecast {
	if len(created) == 0 {
		return Forecast{}
	}
	look := min(now.Sub(time.Unix(slices.Min(created), 0)), longestLook)
	if look < shortestLook {
		return Forecast{}
	}
	var parts [4]int
	for _, c := range created {
		age := max(now.Sub(time.Unix(c, 0)), 0)
		if part := float64(age) / float64(look) * float64(len(parts)); part < float64(len(parts)) {
			parts[int(part)]++
		}
	}
	slices.Sort(parts[:])
	f := Forecast{PerDay: float64(parts[1]*len(parts)) / (float64(look) / float64(day))}
	if f.PerDay == 0 {
		return f
	}
	if days := math.Ceil(float64(left) / f.PerDay); days <= float64(horizon/day) {
		f.Full = now.Add(time.Duration(days) * day)
	}
	return f
}
