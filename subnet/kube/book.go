package kube

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// entry is one Node as far as it matters. It is never changed, but replaced.
type entry struct {
	name, uid string
	digest    uint64 // of all that was read from it
	revision  int64  // when that was so first, as far as is known
	created   int64
	managed   bool
	key       string // under which watchers know it
	lease     subnet.Lease
	bad       *subnet.LeaseError // in the place of lease
	own       *own               // of the node's own alone
}

// own is what more there is to know of the node's own Node.
type own struct {
	subnets subnet.Pair[netip.Prefix]
	wrong   error  // with its podCIDRs
	values  values // as they stand there
	facts   Facts
	ignored error // what people wrote there that is of no use
	network Condition
	known   bool // network is: there is such a condition
}

// someday is when leases end: a Node's has no end but the Node's.
var someday = time.Unix(1<<33, 0)

// book is what is known of all Nodes. It owns them; what comes from a watch and
// what the answer to a patch says may come in any order, and of each Node the
// newest counts.
type book struct {
	annotations annotations
	seed        maphash.Seed

	mu       sync.Mutex
	name     string // of the node's own; "" while it is not known
	nodes    map[string]*entry
	keys     map[string][]*entry // those that take part, by key
	newest   int64               // revision of the node's own
	complete bool
	changed  chan struct{} // closed, and replaced, at every change
	readers  map[*reader]struct{}
}

func newBook(a annotations) *book {
	return &book{
		annotations: a, seed: maphash.MakeSeed(),
		nodes: make(map[string]*entry), keys: make(map[string][]*entry),
		changed: make(chan struct{}), readers: make(map[*reader]struct{}),
	}
}

// digest is of all that an entry is made from.
func (b *book) digest(v *view, all *values, isOwn bool) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	add := func(text []byte) {
		n := len(text)
		_, _ = h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		_, _ = h.Write(text)
	}
	add(v.uid)
	for _, c := range v.subnets() {
		add(c)
	}
	for _, value := range all {
		if value == nil {
			_ = h.WriteByte(1)
			continue
		}
		add(value)
	}
	if isOwn {
		for _, a := range v.addresses {
			add(a.kind)
			add(a.address)
		}
		add(v.network.status)
		add(v.network.reason)
		add(v.network.message)
	}
	return h.Sum64()
}

// read makes an entry of a Node, or finds the one that there is if it says the
// same: that costs nothing but having been read. The caller holds mu.
func (b *book) read(v *view) *entry {
	all := b.annotations.of(v)
	isOwn := string(v.name) == b.name
	digest := b.digest(v, &all, isOwn)
	if before := b.nodes[string(v.name)]; before != nil && before.digest == digest {
		return before
	}
	e := &entry{name: string(v.name), uid: string(v.uid), digest: digest, revision: v.revision, created: v.created}
	subnets, wrong := parseCIDRs(v.subnets())
	if isOwn {
		e.own = &own{subnets: subnets, wrong: wrong}
		for f, value := range all {
			if value != nil {
				e.own.values[f] = append([]byte{}, value...)
			}
		}
		e.own.facts, e.own.ignored = factsOf(v, &all)
		e.own.network, e.own.known = conditionOf(v.network)
	}
	if string(all[managed]) != "true" {
		return e
	}
	e.managed, e.key = true, subnet.FormatKey(subnets)
	if e.key == "" {
		e.key = e.name
	}
	attrs, err := all.attrs()
	switch {
	case wrong != nil:
		err = wrong
	case subnets == (subnet.Pair[netip.Prefix]{}):
		err = fmt.Errorf("%w: the Node has no podCIDR", subnet.ErrKey)
	}
	if err != nil {
		e.bad = &subnet.LeaseError{Key: e.key, Err: fmt.Errorf("of the Node %s: %w", e.name, err)}
		return e
	}
	if attrs.Node.Name == "" {
		attrs.Node.Name = e.name
	}
	e.lease = subnet.Lease{Subnets: subnets, Attrs: attrs, Expires: someday, Revision: e.revision, Created: e.created}
	return e
}

// take takes in what a Node is now.
func (b *book) take(v *view) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if string(v.name) == b.name {
		if v.revision < b.newest {
			return // it was overtaken by the answer to a patch
		}
		b.newest = v.revision
	}
	before, e := b.nodes[string(v.name)], b.read(v)
	if e == before {
		return
	}
	b.put(e)
	b.wake()
}

// remove takes in that a Node is gone.
func (b *book) remove(v *view) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.nodes[string(v.name)]; e != nil && e.uid == string(v.uid) {
		b.drop(e)
		b.wake()
	}
}

// listing is all Nodes, as they come.
type listing struct {
	book   *book
	nodes  map[string]*entry
	newest int64
}

func (b *book) listing() *listing { return &listing{book: b, nodes: make(map[string]*entry)} }

// add takes in one of them. What the node's own says is all that some wait for.
func (l *listing) add(v *view) {
	b := l.book
	b.mu.Lock()
	l.nodes[string(v.name)] = b.read(v)
	isOwn := string(v.name) == b.name
	early := isOwn && !b.complete
	b.mu.Unlock()
	if isOwn {
		l.newest = v.revision
	}
	if early {
		b.take(v)
	}
}

// replace takes in all Nodes there are. They may be of an older state than what
// was known, where the cluster was set back to a backup.
func (b *book) replace(l *listing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := l.nodes
	b.newest = l.newest
	for name, e := range b.nodes {
		if all[name] == nil {
			b.drop(e)
		}
	}
	for name, e := range all {
		if b.nodes[name] != e {
			b.put(e)
		}
	}
	b.complete = true
	for r := range b.readers {
		r.all = true
	}
	b.wake()
}

// put has e stand where an entry of its name did. The caller holds mu.
func (b *book) put(e *entry) {
	if before := b.nodes[e.name]; before != nil {
		b.drop(before)
	}
	b.nodes[e.name] = e
	if e.managed {
		b.keys[e.key] = append(b.keys[e.key], e)
		b.touch(e.key)
	}
}

func (b *book) drop(e *entry) {
	delete(b.nodes, e.name)
	if !e.managed {
		return
	}
	var rest []*entry
	for _, other := range b.keys[e.key] {
		if other != e {
			rest = append(rest, other)
		}
	}
	if b.keys[e.key] = rest; len(rest) == 0 {
		delete(b.keys, e.key)
	}
	b.touch(e.key)
}

// touch has every reader look at a key again.
func (b *book) touch(key string) {
	for r := range b.readers {
		r.touched[key] = struct{}{}
	}
}

func (b *book) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// at is the entry that stands under a key: should there be several Nodes with one
// podCIDR, the first that can be read.
func (b *book) at(key string) (first *entry) {
	for _, e := range b.keys[key] {
		if first == nil || (first.bad != nil) != (e.bad != nil) && e.bad == nil ||
			(first.bad != nil) == (e.bad != nil) && e.before(first) {
			first = e
		}
	}
	return first
}

// before says whether e was there first; every node says the same.
func (e *entry) before(other *entry) bool {
	if e.created != other.created {
		return e.created < other.created
	}
	return strings.Compare(e.name, other.name) < 0
}

// ownNode is the node's own Node as it is now, nil where there is none, and what
// is closed when anything changes.
func (b *book) ownNode() (e *entry, known bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e = b.nodes[b.name]
	return e, b.name != "" && (e != nil || b.complete), b.changed
}

// own is the name of the node's own Node, "" while it is not known.
func (b *book) own() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.name
}

// rival is another Node that takes part and was given a part of the same subnets
// before e was, if there is one.
func (b *book) rival(e *entry) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.nodes {
		if other.name == e.name || !other.managed || other.bad != nil || !other.before(e) {
			continue
		}
		for f, s := range e.own.subnets {
			if s.IsValid() && s.Overlaps(other.lease.Subnets[f]) {
				return other
			}
		}
	}
	return nil
}

// reader is one who is told of all leases.
type reader struct {
	all     bool // and not of what has changed alone
	touched map[string]struct{}
}

// news is what a reader was not told yet.
func (b *book) news(r *reader) (u subnet.Update, ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.complete:
	case r.all:
		u.Complete, ok, r.all = true, true, false
		u.Leases = make([]subnet.Lease, 0, len(b.keys))
		for key := range b.keys {
			b.tell(&u, key)
		}
		clear(r.touched)
	case len(r.touched) > 0:
		ok = true
		for key := range r.touched {
			b.tell(&u, key)
		}
		clear(r.touched)
	}
	return u, ok, b.changed
}

func (b *book) tell(u *subnet.Update, key string) {
	switch e := b.at(key); {
	case e == nil:
		u.Gone = append(u.Gone, key)
	case e.bad != nil:
		u.Bad = append(u.Bad, e.bad)
	default:
		u.Leases = append(u.Leases, e.lease)
	}
}
