package kube

import "github.com/tulle-net/tulle/subnet"

// reader is one caller of Watch.
type reader struct {
	all     bool // the next update is a complete list
	touched map[string]struct{}
}

// nextUpdate returns what has changed since the reader's last update. ok is false if
// nothing has.
func (b *book) nextUpdate(r *reader) (u subnet.Update, ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.complete:
	case r.all:
		u.Complete, ok, r.all = true, true, false
		u.Leases = make([]subnet.Lease, 0, len(b.keys))
		for key := range b.keys {
			b.add(&u, key)
		}
		clear(r.touched)
	case len(r.touched) > 0:
		ok = true
		for key := range r.touched {
			b.add(&u, key)
		}
		clear(r.touched)
	}
	return u, ok, b.changed
}

// add adds the present state of a key to an update.
func (b *book) add(u *subnet.Update, key string) {
	switch e := b.at(key); {
	case e == nil:
		u.Gone = append(u.Gone, key)
	case e.bad != nil:
		u.Bad = append(u.Bad, e.bad)
	default:
		u.Leases = append(u.Leases, e.lease)
	}
}

// touch marks a key as changed for every reader.
func (b *book) touch(key string) {
	for r := range b.readers {
		r.touched[key] = struct{}{}
	}
}

// at returns the entry for a key. Of several Nodes with one podCIDR, it is the first
// readable one.
func (b *book) at(key string) (first *entry) {
	for _, e := range b.keys[key] {
		if first == nil || (first.bad != nil) != (e.bad != nil) && e.bad == nil ||
			(first.bad != nil) == (e.bad != nil) && e.before(first) {
			first = e
		}
	}
	return first
}
