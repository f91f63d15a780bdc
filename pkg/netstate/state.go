package netstate

import (
	"iter"
	"slices"
	"strings"
)

// State is a set of objects, at most one for each key. The zero State is
// empty and ready to use. It is not safe for concurrent use, and Diff counts
// as a use.
type State struct {
	objects map[Key]*held
	pass    uint64 // of Diff; see held
}

// held is an object with who wants it, and the last Diff pass that met it in
// the kernel. The mark lives here so that a resync of a large state needs no
// set of its own.
type held struct {
	Object
	owner string
	pass  uint64
}

// Of makes a State of objects; of two with one key the later stays.
func Of(objects ...Object) *State {
	s := &State{}
	for _, o := range objects {
		s.Put(o)
	}
	return s
}

// Put adds o in place of what had its key.
func (s *State) Put(o Object) { s.PutFor("", o) }

// PutFor is Put with a note of who wants o.
func (s *State) PutFor(owner string, o Object) {
	if s.objects == nil {
		s.objects = make(map[Key]*held)
	}
	s.objects[o.Key()] = &held{Object: o, owner: owner}
}

// Owner is who wants the object with key k.
func (s *State) Owner(k Key) string {
	if h := s.objects[k]; h != nil {
		return h.owner
	}
	return ""
}

// Get returns the object with key k.
func (s *State) Get(k Key) (Object, bool) {
	h := s.objects[k]
	if h == nil {
		return nil, false
	}
	return h.Object, true
}

// Delete removes the object with key k.
func (s *State) Delete(k Key) { delete(s.objects, k) }

// Len is the number of objects.
func (s *State) Len() int { return len(s.objects) }

// All iterates over the objects in no order.
func (s *State) All() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, h := range s.objects {
			if !yield(h.Object) {
				return
			}
		}
	}
}

// Sorted returns the objects in the order of their keys.
func (s *State) Sorted() []Object {
	return slices.SortedFunc(s.All(), func(a, b Object) int { return a.Key().Compare(b.Key()) })
}

// Equal says whether both hold the same objects.
func (s *State) Equal(o *State) bool {
	if s.Len() != o.Len() {
		return false
	}
	for k, h := range s.objects {
		if other, ok := o.Get(k); !ok || other != h.Object {
			return false
		}
	}
	return true
}

// String prints an object a line, sorted.
func (s *State) String() string {
	var b strings.Builder
	for _, o := range s.Sorted() {
		b.WriteString(o.String())
		b.WriteByte('\n')
	}
	return b.String()
}
