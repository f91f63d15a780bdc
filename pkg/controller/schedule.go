package controller

import (
	"container/heap"
	"time"
)

// Schedule holds when each of a controller's objects is due, the first one first. Its zero
// value is empty.
type Schedule struct {
	items []*appointment
	of    map[string]*appointment
}

type appointment struct {
	name  string
	at    time.Time
	index int
}

// Set makes an object due at a time, and at no other.
func (s *Schedule) Set(name string, at time.Time) {
	if a := s.of[name]; a != nil {
		a.at = at
		heap.Fix((*byTime)(s), a.index)
		return
	}
	a := &appointment{name: name, at: at}
	if s.of == nil {
		s.of = make(map[string]*appointment)
	}
	s.of[name] = a
	heap.Push((*byTime)(s), a)
}

// Remove makes an object due at no time.
func (s *Schedule) Remove(name string) {
	if a := s.of[name]; a != nil {
		heap.Remove((*byTime)(s), a.index)
		delete(s.of, name)
	}
}

// Has reports whether an object is due at some time.
func (s *Schedule) Has(name string) bool { return s.of[name] != nil }

// Due reports whether an object is due.
func (s *Schedule) Due(now time.Time) bool { return len(s.items) > 0 && !s.items[0].at.After(now) }

// Pop returns an object that is due, if there is one, and takes it off.
func (s *Schedule) Pop(now time.Time) (name string, ok bool) {
	if !s.Due(now) {
		return "", false
	}
	name = s.items[0].name
	s.Remove(name)
	return name, true
}

// Next returns when the first object is due, or zero.
func (s *Schedule) Next() time.Time {
	if len(s.items) == 0 {
		return time.Time{}
	}
	return s.items[0].at
}

// byTime implements heap.Interface. Objects of one time come by name.
type byTime Schedule

func (h *byTime) Len() int { return len(h.items) }

func (h *byTime) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.name < b.name
}

func (h *byTime) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}

func (h *byTime) Push(a any) {
	a.(*appointment).index = len(h.items)
	h.items = append(h.items, a.(*appointment))
}

func (h *byTime) Pop() any {
	last := len(h.items) - 1
	a := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return a
}
