package route

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloudroute"
)

// layout says which part of a ledger has which destination.
type layout struct {
	parts     []part
	locations map[netip.Prefix]location
	// duplicates are the destinations that several parts have, as after a crash.
	duplicates map[netip.Prefix]*duplicate
	// closed is why the part after the last one cannot be read, or nil.
	closed error

	read map[netip.Prefix]cloudroute.Entry // nil after take
}

// part is one ConfigMap. Without a version, it does not exist yet.
type part struct {
	version string
	size    int // of its keys and values, in bytes
}

// location is the part that has a destination, and the size of the entry there.
type location struct{ part, size int }

// duplicate is a destination that several parts have.
type duplicate struct {
	joined cloudroute.Entry // of the entries in all parts
	others []location
}

// changes holds the new values of keys, by part; nil removes a key.
type changes map[int]map[string]any

func (c changes) set(part int, key string, text any) {
	if c[part] == nil {
		c[part] = make(map[string]any)
	}
	c[part][key] = text
}

func newLayout() *layout {
	return &layout{
		locations: make(map[netip.Prefix]location), duplicates: make(map[netip.Prefix]*duplicate), read: make(map[netip.Prefix]cloudroute.Entry),
	}
}

// sizeOf returns the size of an entry in bytes.
func sizeOf(e cloudroute.Entry) int { return len(e.Key()) + len(e.Text()) }

// add records an entry of a part.
func (l *layout) add(part int, e cloudroute.Entry) {
	p, at := e.Destination, location{part, sizeOf(e)}
	if _, has := l.locations[p]; !has {
		l.locations[p], l.read[p] = at, e
		return
	}
	d := l.duplicates[p]
	if d == nil {
		d = new(duplicate)
		l.duplicates[p] = d
	}
	l.read[p] = l.read[p].Join(e)
	d.joined, d.others = l.read[p], append(d.others, at)
}

// take returns the entries that were read.
func (l *layout) take() []cloudroute.Entry {
	all := slices.SortedFunc(maps.Values(l.read), func(e, f cloudroute.Entry) int { return e.Destination.Compare(f.Destination) })
	l.read = nil
	return all
}

// plan returns the keys to set, and the keys to drop once those are set. It changes the layout
// to the one after both. It joins the entries of a destination that several parts have. If it
// also returns an error, it has skipped the entries for which there is no room.
func (l *layout) plan(entries []cloudroute.Entry, room int) (sets, drops changes, err error) {
	sets, drops = make(changes), make(changes)
	has := make(map[netip.Prefix]bool, len(entries))
	for _, e := range entries {
		has[e.Destination] = true
	}
	entries = slices.Clone(entries)
	for p, d := range l.duplicates {
		if !has[p] {
			entries = append(entries, d.joined)
		}
	}
	for _, e := range entries {
		at, known := l.locations[e.Destination]
		size, to := sizeOf(e), at.part
		switch {
		case len(e.Routes) == 0 && !known:
		case len(e.Routes) == 0:
			sets.set(at.part, e.Key(), nil)
			l.parts[at.part].size -= at.size
			delete(l.locations, e.Destination)
		default:
			if known {
				l.parts[at.part].size -= at.size
			}
			// An entry that grows may use the reserve above room, which new entries may not.
			if !known || l.parts[at.part].size+size > room+room/4 {
				var full error
				if to, full = l.roomFor(size, room); full != nil {
					if err = full; known {
						l.parts[at.part].size += at.size
					}
					continue
				}
			}
			if known && to != at.part {
				drops.set(at.part, e.Key(), nil)
			}
			sets.set(to, e.Key(), e.Text())
			l.parts[to].size += size
			l.locations[e.Destination] = location{to, size}
		}
		l.separate(e, drops)
	}
	return sets, drops, err
}

// separate removes an entry from all parts except its own.
func (l *layout) separate(e cloudroute.Entry, drops changes) {
	d := l.duplicates[e.Destination]
	if d == nil {
		return
	}
	delete(l.duplicates, e.Destination)
	own, is := l.locations[e.Destination]
	for _, at := range d.others {
		if l.parts[at.part].size -= at.size; !is || own.part != at.part {
			drops.set(at.part, e.Key(), nil)
		}
	}
}

// roomFor returns the first part with room for an entry. It adds a part if no other has room.
func (l *layout) roomFor(size, room int) (int, error) {
	for i, p := range l.parts {
		if p.size+size <= room {
			return i, nil
		}
	}
	switch {
	case l.closed != nil && len(l.parts) > 0:
		return 0, fmt.Errorf("the ledger needs another part: %w", l.closed)
	case len(l.parts) == mostParts:
		return 0, fmt.Errorf("its %d parts are full; use fewer route tables", mostParts)
	}
	l.parts = append(l.parts, part{})
	return len(l.parts) - 1, nil
}
