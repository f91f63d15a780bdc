package subnet

import (
	"errors"
	"hash/maphash"
	"slices"
)

const (
	// mostDetailed limits the rejected leases that a Table knows in detail: a store may
	// hold any number, of up to 16 KiB each. Leases that were accepted before, or that
	// only wait for another lease to go, are always known in detail.
	mostDetailed = 100
	// longestDetailed is the length of the longest unreadable key known in detail, in
	// bytes. No lease's key is as long.
	longestDetailed = 200
)

var seed = maphash.MakeSeed()

// surplus counts keys that a Table does not know in detail. It holds a hash of each,
// 8 bytes however long the key and the lease are. Two keys with one hash, which are
// unlikely, count as one.
type surplus map[uint64]struct{}

func (s *surplus) add(key string) {
	if *s == nil {
		*s = make(surplus)
	}
	(*s)[maphash.String(seed, key)] = struct{}{}
}

func (s surplus) remove(key string) {
	if len(s) > 0 {
		delete(s, maphash.String(seed, key))
	}
}

// sift returns u without the unfit leases beyond those that the table knows in
// detail, which it only counts. What it returns shares no memory with them.
func (t *Table) sift(u Update) Update {
	room := t.detailed - len(t.rejected)
	if len(u.Leases) <= room {
		return u
	}
	sifted := false
	for i := range u.Leases {
		l := &u.Leases[i]
		if !t.unfit(l) {
			continue
		}
		key := l.Key()
		if t.entries[key] != nil {
			continue // accepted until now, or known in detail
		}
		if room--; room >= 0 {
			continue
		}
		t.surplus.remove(key)
		t.unfits.add(key)
		t.succeed(l)
		*l, sifted = Lease{}, true
	}
	if sifted {
		u.Leases = slices.Clone(slices.DeleteFunc(u.Leases, func(l Lease) bool { return l == Lease{} }))
	}
	return u
}

// unfit reports whether l is rejected whatever other leases there are.
func (t *Table) unfit(l *Lease) bool {
	visible := t.cfg.visible(*l)
	err := t.cfg.check(visible, t.own)
	return err != nil && !errors.Is(err, errReserved) && !t.isOwn(l.Key(), &visible)
}

// takeAllUnreadable records the unreadable keys of u: the first in detail, the rest
// as a number.
func (t *Table) takeAllUnreadable(u Update) {
	room := t.detailed - len(t.rejected)
	for _, b := range u.Bad {
		t.unfits.remove(b.Key)
		if t.entries[b.Key] == nil {
			if room <= 0 || len(b.Key) > t.longest {
				t.surplus.add(b.Key)
				continue
			}
			room--
			t.surplus.remove(b.Key)
		}
		t.takeUnreadable(b)
	}
}

// takeUnreadable records that the value of a key cannot be read.
func (t *Table) takeUnreadable(b *LeaseError) {
	e := t.entry(b.Key)
	e.departed = false
	e.setBad(b.Err)
	t.linger(e)
}
