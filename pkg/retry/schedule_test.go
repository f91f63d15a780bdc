package retry

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is what a Schedule is compared with: a list, searched whole.
type model struct {
	entries []entry
	added   int
}

type entry struct {
	what, number int
	at           time.Time
}

func (m *model) set(what int, at time.Time, sooner bool) {
	i := slices.IndexFunc(m.entries, func(e entry) bool { return e.what == what })
	switch {
	case i < 0:
		m.added++
		m.entries = append(m.entries, entry{what, m.added, at})
	case !sooner || at.Before(m.entries[i].at):
		m.entries[i].at = at
	}
}

func (m *model) remove(what int) {
	m.entries = slices.DeleteFunc(m.entries, func(e entry) bool { return e.what == what })
}

// first returns the entry that is due first.
func (m *model) first(byName bool) (e entry, ok bool) {
	if len(m.entries) == 0 {
		return e, false
	}
	return slices.MinFunc(m.entries, func(a, b entry) int {
		second := cmp.Compare(a.number, b.number)
		if byName {
			second = cmp.Compare(a.what, b.what)
		}
		return cmp.Or(a.at.Compare(b.at), second)
	}), true
}

// TestScheduleReturnsWhatIsDueInOrder changes schedules at random. Each thing is due at
// one time, and things of one time come in the order that Compare says, or else in that
// in which they were added.
func TestScheduleReturnsWhatIsDueInOrder(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for _, byName := range []bool{false, true} {
		var s Schedule[int]
		if byName {
			s.Compare = cmp.Compare[int]
		}
		if what, ok := s.Pop(start); ok || !s.Next().IsZero() || s.Has(0) || s.Due(start) {
			t.Errorf("an empty one has %d", what)
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		var m model
		for range 5000 {
			what, now := rnd.IntN(50), start.Add(time.Duration(rnd.IntN(20))*time.Second)
			switch rnd.IntN(5) {
			case 0:
				s.Set(what, now)
				m.set(what, now, false)
			case 1:
				s.Advance(what, now)
				m.set(what, now, true)
			case 2:
				s.Remove(what)
				m.remove(what)
			default:
				want, exists := m.first(byName)
				if !s.Next().Equal(want.at) || s.Has(what) != slices.ContainsFunc(m.entries, func(e entry) bool { return e.what == what }) {
					t.Fatalf("the first is due at %v, want %v", s.Next(), want.at)
				}
				due := exists && !want.at.After(now)
				if got, ok := s.Pop(now); ok != due || ok && got != want.what {
					t.Fatalf("%d is due, %v; want %d, %v", got, ok, want.what, due)
				}
				if due {
					m.remove(want.what)
				}
			}
		}
	}
}
