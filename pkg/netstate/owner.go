package netstate

import (
	"maps"
	"slices"
)

// owner is one of those that a state has objects for.
type owner struct {
	name string
	last *held // put last for it; each sibling was put before
}

// ownerName returns the name of h's owner, or "".
func (h *held) ownerName() string {
	if h.owner == nil {
		return ""
	}
	return h.owner.name
}

// own makes h, which has no owner, the last of the owner's objects.
func (s *State) own(name string, h *held) {
	if name == "" {
		return
	}
	o := s.owners[name]
	if o == nil {
		if s.owners == nil {
			s.owners = make(map[string]*owner)
		}
		o = &owner{name: name}
		s.owners[name] = o
	}
	h.owner, h.sibling, o.last = o, o.last, h
}

// disown takes h from its owner. It costs a step for each object that the owner was
// given after it.
func (s *State) disown(h *held) {
	o := h.owner
	if o == nil {
		return
	}
	at := &o.last
	for *at != h {
		at = &(*at).sibling
	}
	*at, h.owner, h.sibling = h.sibling, nil, nil
	if o.last == nil {
		delete(s.owners, o.name)
	}
}

// Owned returns an owner's objects in the order in which it was given them.
func (s *State) Owned(owner string) []Object {
	o := s.owners[owner]
	if o == nil {
		return nil
	}
	var all []Object
	for h := o.last; h != nil; h = h.sibling {
		all = append(all, h.Object)
	}
	slices.Reverse(all)
	return all
}

// Expect makes room for n more owners, which costs less than to grow for each.
func (s *State) Expect(n int) {
	owners := make(map[string]*owner, len(s.owners)+n)
	maps.Copy(owners, s.owners)
	s.owners = owners
}
