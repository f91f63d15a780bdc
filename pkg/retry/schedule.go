package retry

import (
	"container/heap"
	"time"
)

// Schedule holds when things are due, the first one first. Its zero value is empty.
type Schedule[T comparable] struct {
	// Compare orders things that are due at one time. Without it, the thing that was
	// added first comes first.
	Compare func(a, b T) int

	items []*appointment[T]
	of    map[T]*appointment[T]
	added int
}

type appointment[T comparable] struct {
	what   T
	at     time.Time
	number int // counts what was added
	index  int
}

// Set makes a thing due at a time, and at no other.
func (s *Schedule[T]) Set(what T, at time.Time) {
	if a := s.of[what]; a != nil {
		a.at = at
		heap.Fix((*byTime[T])(s), a.index)
		return
	}
	if s.of == nil {
		s.of = make(map[T]*appointment[T])
	}
	s.added++
	a := &appointment[T]{what: what, at: at, number: s.added}
	s.of[what] = a
	heap.Push((*byTime[T])(s), a)
}

// Advance makes a thing due at a time, unless it is due earlier.
func (s *Schedule[T]) Advance(what T, at time.Time) {
	if a := s.of[what]; a == nil || at.Before(a.at) {
		s.Set(what, at)
	}
}

// Remove makes a thing due at no time.
func (s *Schedule[T]) Remove(what T) {
	if a := s.of[what]; a != nil {
		heap.Remove((*byTime[T])(s), a.index)
		delete(s.of, what)
	}
}

// Has reports whether a thing is due at some time.
func (s *Schedule[T]) Has(what T) bool { return s.of[what] != nil }

// Due reports whether a thing is due.
func (s *Schedule[T]) Due(now time.Time) bool {
	return len(s.items) > 0 && !s.items[0].at.After(now)
}

// Pop removes the first thing that is due, and returns it. It returns false if nothing is
// due.
func (s *Schedule[T]) Pop(now time.Time) (what T, ok bool) {
	if !s.Due(now) {
		return what, false
	}
	what = s.items[0].what
	s.Remove(what)
	return what, true
}

// Next returns when the first thing is due, or zero.
func (s *Schedule[T]) Next() time.Time {
	if len(s.items) == 0 {
		return time.Time{}
	}
	return s.items[0].at
}

// byTime implements heap.Interface.
type byTime[T comparable] Schedule[T]

func (h *byTime[T]) Len() int { return len(h.items) }

func (h *byTime[T]) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	if order := a.at.Compare(b.at); order != 0 {
		return order < 0
	}
	if h.Compare != nil {
		return h.Compare(a.what, b.what) < 0
	}
	return a.number < b.number
}

func (h *byTime[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}

func (h *byTime[T]) Push(a any) {
	a.(*appointment[T]).index = len(h.items)
	h.items = append(h.items, a.(*appointment[T]))
}

func (h *byTime[T]) Pop() any {
	last := len(h.items) - 1
	a := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return a
}
