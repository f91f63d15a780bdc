package netstate

import (
	"hash/maphash"
	"iter"
	"slices"
)

// owner is one of those that a state has objects for.
type owner struct {
	name string // "" in a place that is free
	last ref    // put last for it; each sibling was put before
	next ref    // in its chain
}

// owners are those that have objects, in a hash table like a State's. A map would need
// twice the memory.
type owners struct {
	chains []ref
	slab   slab[owner]
	seed   maphash.Seed
	len    int
}

// slot returns where the owner of this name is in its chain. It holds 0 if there is none.
func (o *owners) slot(name string) *ref {
	at := o.chain(name)
	for *at != 0 && o.slab.at(*at).name != name {
		at = &o.slab.at(*at).next
	}
	return at
}

// chain returns the chain of a name. There must be chains.
func (o *owners) chain(name string) *ref {
	return &o.chains[maphash.String(o.seed, name)%uint64(len(o.chains))]
}

// find returns the owner of this name, or nil.
func (o *owners) find(name string) *owner {
	if o.len == 0 {
		return nil
	}
	if r := *o.slot(name); r != 0 {
		return o.slab.at(r)
	}
	return nil
}

// add returns the owner of this name, a new one if there is none.
func (o *owners) add(name string) ref {
	if o.len >= len(o.chains) {
		o.grow(max(8, 2*len(o.chains)))
	}
	at := o.slot(name)
	if *at == 0 {
		*at = o.slab.add()
		o.slab.at(*at).name = name
		o.len++
	}
	return *at
}

// remove removes the owner of this name.
func (o *owners) remove(name string) {
	at := o.slot(name)
	r := *at
	*at = o.slab.at(r).next
	o.slab.remove(r)
	o.len--
}

// grow makes so many chains.
func (o *owners) grow(chains int) {
	if o.chains == nil {
		o.seed = maphash.MakeSeed()
	}
	o.chains = make([]ref, chains)
	for r, w := range o.slab.all() {
		if w.name != "" {
			at := o.chain(w.name)
			w.next, *at = *at, r
		}
	}
}

// all iterates over the owners, in no order.
func (o *owners) all() iter.Seq[*owner] {
	return func(yield func(*owner) bool) {
		for _, w := range o.slab.all() {
			if w.name != "" && !yield(w) {
				return
			}
		}
	}
}

// ownerName returns the name of h's owner, or "".
func (s *State) ownerName(h *held) string {
	if h.owner == 0 {
		return ""
	}
	return s.owners.slab.at(h.owner).name
}

// own makes what is at r, which has no owner, the last of the owner's objects.
func (s *State) own(name string, r ref) {
	if name == "" {
		return
	}
	h := s.items.at(r)
	h.owner = s.owners.add(name)
	o := s.owners.slab.at(h.owner)
	h.sibling, o.last = o.last, r
}

// disown takes what is at r from its owner. It costs a step for each object that the
// owner was given after it.
func (s *State) disown(r ref) {
	h := s.items.at(r)
	if h.owner == 0 {
		return
	}
	o := s.owners.slab.at(h.owner)
	at := &o.last
	for *at != r {
		at = &s.items.at(*at).sibling
	}
	*at, h.owner, h.sibling = h.sibling, 0, 0
	if o.last == 0 {
		s.owners.remove(o.name)
	}
}

// owned returns where an owner's objects are, in the order in which it was given them.
func (s *State) owned(o *owner) (all []ref) {
	for r := o.last; r != 0; r = s.items.at(r).sibling {
		all = append(all, r)
	}
	slices.Reverse(all)
	return all
}

// Owned returns an owner's objects in the order in which it was given them.
func (s *State) Owned(owner string) []Object {
	o := s.owners.find(owner)
	if o == nil {
		return nil
	}
	var all []Object
	for r := o.last; r != 0; r = s.items.at(r).sibling {
		all = append(all, s.items.at(r).Object)
	}
	slices.Reverse(all)
	return all
}

// Expect makes room for n more owners, which costs less than to grow for each.
func (s *State) Expect(n int) {
	if chains := s.owners.len + n; chains > len(s.owners.chains) {
		s.owners.grow(chains)
	}
}
