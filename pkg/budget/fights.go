package budget

import (
	"fmt"
	"math"
	"time"
)

const (
	// patience is the number of heals in a row that make a fight.
	patience = 20
	// Quiet is how long other programs must leave a key alone for the row to end.
	Quiet = time.Minute
	// memory is the time constant of a fight's rate.
	memory = 10 * time.Second
	// sweepEvery is how often Sweep looks for finished rows.
	sweepEvery = 10 * time.Second
)

// Fight is a key that other programs change again and again.
type Fight struct {
	Since  time.Time // of the first heal
	Healed int       // the number of heals
	Rate   float64   // recent heals a second
	Wrong  float64   // the recent part of the time in which the key was wrong
}

// Lost reports whether the key is wrong more often than right, so that what
// depends on it does not work.
func (f Fight) Lost() bool { return f.Wrong > 0.5 }

// String describes the fight for people.
func (f Fight) String() string {
	return fmt.Sprintf("another program keeps changing it, %s; it is wrong %.0f%% of the time", Rate(f.Rate), 100*f.Wrong)
}

// Rate formats a number of times a second for people.
func Rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return "seldom"
	case perSecond < 0.95:
		return fmt.Sprintf("once in %.0f s", 1/perSecond)
	case perSecond < 1.5:
		return "once a second"
	default:
		return fmt.Sprintf("%.0f times a second", perSecond)
	}
}

// Fights counts for each key how often in a row it was healed, and so finds those
// that other programs keep changing. The zero Fights is empty and ready to use. It
// is not safe for concurrent use.
type Fights[K comparable] struct {
	rows  map[K]*row
	swept time.Time
}

// row is a number of heals without a long pause. In heals, wrong and span, older events
// count less.
type row struct {
	since, last        time.Time
	all                int
	heals, wrong, span float64
}

// Heal records that k was healed now, and since when it was wrong. It reports whether that
// begins a fight.
func (f *Fights[K]) Heal(k K, wrong, now time.Time) (begins bool) {
	if f.rows == nil {
		f.rows = make(map[K]*row)
	}
	if len(f.rows) == 0 {
		f.swept = now
	}
	r := f.rows[k]
	if r == nil {
		r = &row{since: now, last: wrong}
		f.rows[k] = r
	}
	r.pass(now)
	r.heals++
	r.wrong += max(0, now.Sub(wrong).Seconds())
	r.last = now
	r.all++
	return r.all == patience
}

// pass fades the counts for the time until now.
func (r *row) pass(now time.Time) {
	passed := max(0, now.Sub(r.last).Seconds())
	fades := math.Exp(-passed / memory.Seconds())
	r.heals, r.wrong, r.span = r.heals*fades, r.wrong*fades, r.span*fades+passed
}

func (r row) fight(now time.Time) Fight {
	r.pass(now)
	f := Fight{Since: r.since, Healed: r.all}
	if r.span > 0 {
		f.Rate, f.Wrong = r.heals/r.span, min(1, r.wrong/r.span)
	}
	return f
}

// Of returns the fight over k, and whether there is one.
func (f *Fights[K]) Of(k K, now time.Time) (Fight, bool) {
	r := f.rows[k]
	if r == nil || r.all < patience {
		return Fight{}, false
	}
	return r.fight(now), true
}

// All returns the fights under way.
func (f *Fights[K]) All(now time.Time) map[K]Fight {
	all := make(map[K]Fight)
	for k, r := range f.rows {
		if r.all >= patience {
			all[k] = r.fight(now)
		}
	}
	return all
}

// Acquit ends the rows of the keys that match, except fights: their heals had another
// cause than a program that keeps changing them.
func (f *Fights[K]) Acquit(match func(K) bool) {
	for k, r := range f.rows {
		if r.all < patience && match(k) {
			delete(f.rows, k)
		}
	}
}

// Sweep ends the rows of the keys that no program changed for the time Quiet, and returns
// the fights among them. Before the time that Due returns, it does nothing.
func (f *Fights[K]) Sweep(now time.Time) map[K]Fight {
	if due, ok := f.Due(); !ok || now.Before(due) {
		return nil
	}
	f.swept = now
	over := make(map[K]Fight)
	for k, r := range f.rows {
		if now.Sub(r.last) < Quiet {
			continue
		}
		if r.all >= patience {
			over[k] = Fight{Since: r.since, Healed: r.all}
		}
		delete(f.rows, k)
	}
	return over
}

// Due returns when to call Sweep, if ever.
func (f *Fights[K]) Due() (at time.Time, ok bool) {
	return f.swept.Add(sweepEvery), len(f.rows) > 0
}

// Fought reports whether there is a fight over k.
func (f *Fights[K]) Fought(k K) bool {
	r := f.rows[k]
	return r != nil && r.all >= patience
}
