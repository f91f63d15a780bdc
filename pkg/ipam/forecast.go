package ipam

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Forecast is when a pool will be full if it keeps its recent pace of growth.
//
// It depends on when the current Nodes were created. The last four weeks, or the time since
// the oldest Node was created if that is shorter, are divided into four parts. The pace is
// that of the second slowest part. So a pool counts as growing only if Nodes were created in
// three parts of four. Many Nodes that were created or replaced at once do not count as
// growth.
type Forecast struct {
	PerDay float64   // growth, in Nodes a day
	Full   time.Time // zero if it is beyond the horizon
}

const (
	day = 24 * time.Hour
	// longestLook is how far back a forecast looks, and shortestLook the least age of the
	// oldest Node for a forecast.
	longestLook  = 4 * 7 * day
	shortestLook = day
	// horizon is how far ahead a forecast gives a date.
	horizon = 5 * 365 * day
)

// forecast returns when the remaining blocks will be used. created are the creation times of
// the Nodes, the oldest first.
func forecast(created []int64, left uint64, now time.Time) Forecast {
	if len(created) == 0 {
		return Forecast{}
	}
	age := func(created int64) time.Duration {
		return now.Sub(time.Unix(min(max(created, 0), now.Unix()), 0))
	}
	look := min(age(created[0]), longestLook)
	if look < shortestLook {
		return Forecast{}
	}
	// younger returns how many Nodes are of the first parts.
	var parts [4]int
	younger := func(first int) int {
		older := sort.Search(len(created), func(i int) bool {
			return float64(age(created[i]))/float64(look)*float64(len(parts)) < float64(first)
		})
		return len(created) - older
	}
	for i := range parts {
		parts[i] = younger(i+1) - younger(i)
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
