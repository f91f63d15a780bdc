package kube

import "github.com/tulle-net/tulle/subnet"

// reader is one who is told of all leases.
type reader struct {
	all     bool // and not of what has changed alone
	touched map[string]struct{}
}

// nextUpdate returns what has changed since the reader's last update.
func (b *book) nextUpdate(r *reader) (u subnet.Update, ok bool, changed <-chan struct{}) {
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

// touch has every reader look at a key again.
func (b *book) touch(key string) {
	for r := range b.readers {
		r.touched[key] = struct{}{}
	}
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
