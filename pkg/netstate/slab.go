package netstate

import "iter"

// slab holds values in places that they keep. A ref to a place needs half the memory of a
// pointer, and the garbage collector need not follow it. A slab grows without copying.
type slab[T any] struct {
	chunks []*[chunk]T
	used   ref   // the last place that was ever used
	free   []ref // places before it to use again
}

// ref is a place in a slab, from 1. 0 is none.
type ref uint32

// chunk is how many places a slab gains at once.
const chunk = 64

// at returns the value in a place.
func (s *slab[T]) at(r ref) *T { return &s.chunks[(r-1)/chunk][(r-1)%chunk] }

// add returns a place with the zero value.
func (s *slab[T]) add() ref {
	if last := len(s.free) - 1; last >= 0 {
		r := s.free[last]
		s.free = s.free[:last]
		return r
	}
	if int(s.used) == len(s.chunks)*chunk {
		s.chunks = append(s.chunks, new([chunk]T))
	}
	s.used++
	return s.used
}

// remove frees a place, and makes its value zero.
func (s *slab[T]) remove(r ref) {
	var zero T
	*s.at(r) = zero
	s.free = append(s.free, r)
}

// places returns how many places take memory.
func (s *slab[T]) places() int { return len(s.chunks) * chunk }

// all iterates over the places that were ever used, also those that are free now.
func (s *slab[T]) all() iter.Seq2[ref, *T] {
	return func(yield func(ref, *T) bool) {
		for r := ref(1); r <= s.used; r++ {
			if !yield(r, s.at(r)) {
				return
			}
		}
	}
}
