package cloudipam

import (
	"container/heap"
	"time"
)

// schedule holds when each Node is due, the first one first.
type schedule struct {
	items []*appointment
	of    map[string]*appointment
}

type appointment struct {
	name  string
	at    time.Time
	index int
}

func newSchedule() schedule { return schedule{of: make(map[string]*appointment)} }

// set makes a Node due at a time, and at no other.
func (s *schedule) set(name string, at time.Time) {
	if a := s.of[name]; a != nil {
		a.at = at
		heap.Fix((*byTime)(s), a.index)
		return
	}
	a := &appointment{name: name, at: at}
	s.of[name] = a
	heap.Push((*byTime)(s), a)
}

func (s *schedule) remove(name string) {
	if a := s.of[name]; a != nil {
		heap.Remove((*byTime)(s), a.index)
		delete(s.of, name)
	}
}

// pop returns a Node that is due, if there is one, and takes it off.
func (s *schedule) pop(now time.Time) (name string, ok bool) {
	if len(s.items) == 0 || s.items[0].at.After(now) {
		return "", false
	}
	name = s.items[0].name
	s.remove(name)
	return name, true
}

// next returns when the first Node is due, or zero.
func (s *schedule) next() time.Time {
	if len(s.items) == 0 {
		return time.Time{}
	}
	return s.items[0].at
}

// byTime implements heap.Interface. Nodes of one time come by name.
type byTime schedule

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
