package route

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloudroute"
)

// layout is where a ledger in ConfigMaps has its destinations.
type layout struct {
	parts  []part
	places map[netip.Prefix]place
	// twice are the destinations that several parts have, after a crash.
	twice map[netip.Prefix]*duplicate
	// closed is why the part after the last one cannot be read, or nil.
	closed error

	read map[netip.Prefix]cloudroute.Entry // nil after take
}

// part is one ConfigMap. Without a version, it does not exist yet.
type part struct {
	version string
	size    int // of its keys and values, in bytes
}

// place is where a destination is.
type place struct{ part, size int }

// duplicate is a destination that also other parts have.
type duplicate struct {
	joined cloudroute.Entry // what all of them say
	others []place
}

// changes are what keys of parts get; nil removes a key.
type changes map[int]map[string]any

func (c changes) set(part int, key string, text any) {
	if c[part] == nil {
		c[part] = make(map[string]any)
	}
	c[part][key] = text
}

func newLayout() *layout {
	return &layout{
		places: make(map[netip.Prefix]place), twice: make(map[netip.Prefix]*duplicate), read: make(map[netip.Prefix]cloudroute.Entry),
	}
}

// sizeOf returns how many bytes an entry takes.
func sizeOf(e cloudroute.Entry) int { return len(e.Key()) + len(e.Text()) }

// add records an entry of a part.
func (l *layout) add(part int, e cloudroute.Entry) {
	p, at := e.Destination, place{part, sizeOf(e)}
	if _, has := l.places[p]; !has {
		l.places[p], l.read[p] = at, e
		return
	}
	d := l.twice[p]
	if d == nil {
		d = new(duplicate)
		l.twice[p] = d
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

// plan returns what to write to the parts, and what to remove from others once that is
// written. The layout is the one after both. Entries that several parts have are joined.
// With an error, entries for which there is no room are left as they are.
func (l *layout) plan(entries []cloudroute.Entry, room int) (sets, drops changes, err error) {
	sets, drops = make(changes), make(changes)
	has := make(map[netip.Prefix]bool, len(entries))
	for _, e := range entries {
		has[e.Destination] = true
	}
	entries = slices.Clone(entries)
	for p, d := range l.twice {
		if !has[p] {
			entries = append(entries, d.joined)
		}
	}
	for _, e := range entries {
		at, is := l.places[e.Destination]
		size, to := sizeOf(e), at.part
		switch {
		case len(e.Routes) == 0 && !is:
		case len(e.Routes) == 0:
			sets.set(at.part, e.Key(), nil)
			l.parts[at.part].size -= at.size
			delete(l.places, e.Destination)
		default:
			if is {
				l.parts[at.part].size -= at.size
			}
			// An entry that grows may use what new ones leave free.
			if !is || l.parts[at.part].size+size > room+room/4 {
				var full error
				if to, full = l.roomFor(size, room); full != nil {
					if err = full; is {
						l.parts[at.part].size += at.size
					}
					continue
				}
			}
			if is && to != at.part {
				drops.set(at.part, e.Key(), nil)
			}
			sets.set(to, e.Key(), e.Text())
			l.parts[to].size += size
			l.places[e.Destination] = place{to, size}
		}
		l.separate(e, drops)
	}
	return sets, drops, err
}

// separate removes an entry from all parts but its own.
func (l *layout) separate(e cloudroute.Entry, drops changes) {
	d := l.twice[e.Destination]
	if d == nil {
		return
	}
	delete(l.twice, e.Destination)
	own, is := l.places[e.Destination]
	for _, at := range d.others {
		if l.parts[at.part].size -= at.size; !is || own.part != at.part {
			drops.set(at.part, e.Key(), nil)
		}
	}
}

// roomFor returns the first part with room for an entry, which may be a new one.
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
