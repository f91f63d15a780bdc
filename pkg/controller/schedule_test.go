package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A schedule returns what is due in the order of the times, each object at its last time
// alone.
func TestScheduleReturnsWhatIsDueInOrder(t *testing.T) {
	var s Schedule
	start := time.Unix(1_700_000_000, 0)
	if name, ok := s.Pop(start); ok || !s.Next().IsZero() || s.Has("a") {
		t.Errorf("an empty one has %q", name)
	}
	s.Remove("a")
	rnd := rand.New(rand.NewPCG(1, 2))
	due := make(map[string]time.Time)
	for range 1000 {
		name := fmt.Sprint("node-", rnd.IntN(50))
		if rnd.IntN(4) == 0 {
			s.Remove(name)
			delete(due, name)
			continue
		}
		due[name] = start.Add(time.Duration(rnd.IntN(100)) * time.Second)
		s.Set(name, due[name])
	}
	now, last := start.Add(49*time.Second), time.Time{}
	for {
		next := s.Next()
		name, ok := s.Pop(now)
		if !ok {
			break
		}
		at := due[name]
		if !at.Equal(next) || at.Before(last) || at.After(now) || s.Has(name) {
			t.Errorf("%s comes after %v, is due at %v, and Next was %v", name, last, at, next)
		}
		delete(due, name)
		last = at
	}
	for name, at := range due {
		if !at.After(now) || !s.Has(name) {
			t.Errorf("%s is due at %v, and did not come", name, at)
		}
	}
}
