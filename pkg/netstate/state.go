package netstate

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
)

// State is a set of objects, at most one for each key. The zero State is
// empty and ready to use. It is not safe for concurrent use, and Diff counts
// as a use.
type State struct {
	// chains is a hash table of items. A map would also store the keys, which take more
	// room than everything else here, and which each object can compute.
	chains []ref
	items  slab[held]
	seed   maphash.Seed
	len    int
	pass   uint16 // of Diff; see held
	owners owners
}

// held is an object with its owner, the last Diff pass that met it in the
// kernel, and whether it was ever placed there. The marks live here so that a
// resync of a large state needs no set of its own.
type held struct {
	Object      // nil in a place that is free
	owner   ref // 0 if it has none
	sibling ref // of the same owner
	next    ref // in its chain
	hash    uint32
	pass    uint16
	placed  bool
}

// Of makes a State of objects; of two with one key the later stays.
func Of(objects ...Object) *State {
	s := &State{}
	for _, o := range objects {
		s.Put(o)
	}
	return s
}

// hash returns what decides which chain k is in.
func (s *State) hash(k Key) uint32 {
	ip := k.IP.As16()
	b := append(make([]byte, 0, 64), ip[:]...)
	b = append(b, k.MAC[:]...)
	b = append(b, byte(k.Kind), k.Bits)
	if k.Kind == KindWGPeer {
		peer := k.Peer.Bytes()
		b = append(b, peer[:]...)
	}
	b = binary.NativeEndian.AppendUint32(b, k.Metric)
	return uint32(maphash.Bytes(s.seed, b) ^ maphash.String(s.seed, k.Name))
}

// chain returns the chain of a hash. There must be chains.
func (s *State) chain(hash uint32) *ref { return &s.chains[hash%uint32(len(s.chains))] }

// slot returns where k is in its chain. It holds 0 if k is not in the state.
func (s *State) slot(k Key, hash uint32) *ref {
	at := s.chain(hash)
	for *at != 0 {
		h := s.items.at(*at)
		if h.hash == hash && h.Key() == k {
			break
		}
		at = &h.next
	}
	return at
}

// find returns what has key k, or nil.
func (s *State) find(k Key) *held {
	if s.len == 0 {
		return nil
	}
	if at := *s.slot(k, s.hash(k)); at != 0 {
		return s.items.at(at)
	}
	return nil
}

// grow makes room for one more.
func (s *State) grow() {
	if s.len < len(s.chains) {
		return
	}
	if s.chains == nil {
		s.seed = maphash.MakeSeed()
	}
	s.chains = make([]ref, max(8, 2*len(s.chains)))
	for r, h := range s.all() {
		at := s.chain(h.hash)
		h.next, *at = *at, r
	}
}

// all iterates over what is held, in no order. Some may be deleted meanwhile, but none
// put.
func (s *State) all() iter.Seq2[ref, *held] {
	return func(yield func(ref, *held) bool) {
		for r, h := range s.items.all() {
			if h.Object != nil && !yield(r, h) {
				return
			}
		}
	}
}

// Put adds o in place of what had its key.
func (s *State) Put(o Object) { s.PutFor("", o) }

// PutFor does Put, and notes o's owner.
func (s *State) PutFor(owner string, o Object) {
	s.grow()
	k := o.Key()
	hash := s.hash(k)
	at := s.slot(k, hash)
	if *at == 0 {
		*at = s.items.add()
		s.items.at(*at).hash = hash
		s.len++
	}
	h := s.items.at(*at)
	h.Object, h.pass = o, 0
	if s.ownerName(h) != owner {
		s.disown(*at)
		s.own(owner, *at)
	}
}

// Placed reports whether the kernel has held an object of ours with key k since
// the state wants one. What stands there now then came later.
func (s *State) Placed(k Key) bool {
	h := s.find(k)
	return h != nil && h.placed
}

// SetPlaced notes that the kernel holds an object of ours with key k.
func (s *State) SetPlaced(k Key) {
	if h := s.find(k); h != nil {
		h.placed = true
	}
}

// beginPass begins a pass of Diff.
func (s *State) beginPass() {
	s.pack()
	if s.pass > math.MaxUint16-3 {
		for _, h := range s.all() {
			h.pass = 0
		}
		s.pass = 0
	}
	s.pass += 2 // an object met has it, one that holds what is wanted has one more
}

// Owner returns the owner of the object with key k.
func (s *State) Owner(k Key) string {
	if h := s.find(k); h != nil {
		return s.ownerName(h)
	}
	return ""
}

// Get returns the object with key k.
func (s *State) Get(k Key) (Object, bool) {
	h := s.find(k)
	if h == nil {
		return nil, false
	}
	return h.Object, true
}

// Delete removes the object with key k.
func (s *State) Delete(k Key) {
	if s.len == 0 {
		return
	}
	at := s.slot(k, s.hash(k))
	if r := *at; r != 0 {
		s.disown(r)
		*at = s.items.at(r).next
		s.items.remove(r)
		s.len--
	}
}

// pack gives back the memory of a state that was much larger.
func (s *State) pack() {
	if s.items.places() <= 4*s.len+chunk {
		return
	}
	packed := State{pass: s.pass}
	move := func(h *held) {
		packed.PutFor(s.ownerName(h), h.Object)
		to := packed.find(h.Key())
		to.pass, to.placed = h.pass, h.placed
	}
	for o := range s.owners.all() {
		for _, r := range s.owned(o) {
			move(s.items.at(r))
		}
	}
	for _, h := range s.all() {
		if h.owner == 0 {
			move(h)
		}
	}
	*s = packed
}

// Len returns the number of objects.
func (s *State) Len() int { return s.len }

// All iterates over the objects in no order. Some may be deleted meanwhile, but
// none put.
func (s *State) All() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, h := range s.all() {
			if !yield(h.Object) {
				return
			}
		}
	}
}

// Sorted returns the objects in the order of their keys.
func (s *State) Sorted() []Object {
	all := slices.Collect(s.All())
	sort.Slice(all, func(i, j int) bool { return all[i].Key().Compare(all[j].Key()) < 0 })
	return all
}

// Equal reports whether both hold the same objects.
func (s *State) Equal(o *State) bool {
	if s.Len() != o.Len() {
		return false
	}
	for _, h := range s.all() {
		if other, ok := o.Get(h.Key()); !ok || other != h.Object {
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
