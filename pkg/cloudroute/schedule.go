package cloudroute

import (
	"container/heap"
	"time"
)

// schedule holds when things are due, the first one first. Things of one time come in
// the order in which they were set.
type schedule[T comparable] struct {
	items []*appointment[T]
	of    map[T]*appointment[T]
	sets  int
}

type appointment[T comparable] struct {
	what  T
	at    time.Time
	set   int
	index int
}

func newSchedule[T comparable]() schedule[T] {
	return schedule[T]{of: make(map[T]*appointment[T])}
}

// set makes a thing due at a time, unless it is due earlier.
func (s *schedule[T]) set(what T, at time.Time) {
	if a := s.of[what]; a != nil {
		if at.Before(a.at) {
			a.at = at
			heap.Fix(s, a.index)
		}
		return
	}
	s.sets++
	a := &appointment[T]{what: what, at: at, set: s.sets}
	s.of[what] = a
	heap.Push(s, a)
}

func (s *schedule[T]) remove(what T) {
	if a := s.of[what]; a != nil {
		heap.Remove(s, a.index)
		delete(s.of, what)
	}
}

// pop returns a thing that is due, if there is one, and takes it off.
func (s *schedule[T]) pop(now time.Time) (what T, ok bool) {
	if len(s.items) == 0 || s.items[0].at.After(now) {
		return what, false
	}
	what = s.items[0].what
	s.remove(what)
	return what, true
}

// next returns when the first thing is due, or zero.
func (s *schedule[T]) next() time.Time {
	if len(s.items) == 0 {
		return time.Time{}
	}
	return s.items[0].at
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (s *schedule[T]) Len() int { return len(s.items) }

func (s *schedule[T]) Less(i, j int) bool {
	a, b := s.items[i], s.items[j]
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.set < b.set
}

func (s *schedule[T]) Swap(i, j int) {
	s.items[i], s.items[j] = s.items[j], s.items[i]
	s.items[i].index, s.items[j].index = i, j
}

func (s *schedule[T]) Push(a any) {
	a.(*appointment[T]).index = len(s.items)
	s.items = append(s.items, a.(*appointment[T]))
}

func (s *schedule[T]) Pop() any {
	last := len(s.items) - 1
	a := s.items[last]
	s.items[last] = nil
	s.items = s.items[:last]
	return a
}
