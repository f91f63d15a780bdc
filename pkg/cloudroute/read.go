package cloudroute

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// table is a route table of the last read, with our changes since then.
type table struct {
	cloud.Table
	routes     map[netip.Prefix]cloud.Route
	began, end time.Time // of the read
	used       subnet.Pair[int]
	reserved   subnet.Pair[int]
	// limit is the number of routes at which the cloud reported the table as full; 0 is no
	// limit. It is valid until limited.
	limit   subnet.Pair[int]
	limited time.Time
}

// newTable returns a table of a read that began and ended at these times.
func newTable(v cloud.Table, began, end time.Time) *table {
	t := &table{Table: v, routes: make(map[netip.Prefix]cloud.Route, len(v.Routes)), began: began, end: end}
	for f := range t.used {
		t.used[f] = v.Used(subnet.Family(f))
	}
	for _, r := range v.Routes {
		if _, twice := t.routes[r.Destination]; r.Destination.IsValid() && (!twice || r.Origin != cloud.Propagated) {
			t.routes[r.Destination] = r
		}
	}
	t.Routes = nil
	return t
}

// count adds n to the count of the routes of p's family.
func (t *table) count(to *subnet.Pair[int], p netip.Prefix, n int) {
	if t.Quota.Shared {
		to[subnet.IPv4] += n
		to[subnet.IPv6] += n
		return
	}
	to[subnet.FamilyOf(p.Addr())] += n
}

// most returns the maximum number of routes of a family; 0 is unknown.
func (t *table) most(f subnet.Family) int {
	if t.limit[f] > 0 && (t.Quota.Most[f] == 0 || t.limit[f] < t.Quota.Most[f]) {
		return t.limit[f]
	}
	return t.Quota.Most[f]
}

// hasRoom reports whether the table has room for a route to p.
func (t *table) hasRoom(p netip.Prefix) bool {
	f := subnet.FamilyOf(p.Addr())
	most := t.most(f)
	return most == 0 || t.used[f]+t.reserved[f] < most
}

// accepted records that the cloud accepted a route. If the limit has expired, the cloud
// reported it at another time: it does not hold any more.
func (t *table) accepted(f subnet.Family, now time.Time) {
	switch {
	case !now.After(t.limited):
	case t.Quota.Shared:
		t.limit = subnet.Pair[int]{}
	default:
		t.limit[f] = 0
	}
}

// set records the state of a route after one of our changes.
func (t *table) set(p netip.Prefix, r cloud.Route, there bool) {
	if _, was := t.routes[p]; was != there {
		t.count(&t.used, p, map[bool]int{true: 1, false: -1}[there])
	}
	if there {
		t.routes[p] = r
	} else {
		delete(t.routes, p)
	}
}

// SetTables replaces the cluster's tables with those of a complete read. The read may lack our
// changes that ended after began, the time of its beginning.
func (b *Book) SetTables(all []cloud.Table, began, now time.Time) {
	same := b.hasTables && len(all) == len(b.ids)
	before, local := b.tables, b.local
	b.tables, b.ids, b.local, b.hasTables, b.read, b.readBy = make(map[string]*table, len(all)), nil, nil, true, now, time.Time{}
	for _, v := range all {
		t, old := newTable(v, began, now), before[v.ID]
		same = same && old != nil && old.Network == t.Network
		b.tables[v.ID], b.ids = t, append(b.ids, v.ID)
		if old != nil {
			b.keepLimit(t, old, now)
		}
		for p, r := range t.routes {
			if r.Kind == cloud.ToLocal {
				b.local = append(b.local, p)
			}
		}
	}
	slices.Sort(b.ids)
	slices.SortFunc(b.local, netip.Prefix.Compare)
	b.local = slices.Compact(b.local)
	same = same && slices.Equal(local, b.local)
	for p, d := range b.dests {
		for i := range d.slots {
			s := &d.slots[i]
			if t, old := b.tables[s.table], before[s.table]; t != nil && old != nil && (s.inFlight || s.wrote.Add(settleTime).After(began)) {
				r, there := old.routes[p]
				t.set(p, r, there)
			}
		}
		if !same || len(d.claims) == 0 || b.changed(d, before) {
			b.examine(d, now)
		}
	}
	b.reserve()
}

// changed reports whether a destination's routes differ from those before the read.
func (b *Book) changed(d *dest, before map[string]*table) bool {
	for id, t := range b.tables {
		r, there := t.routes[d.prefix]
		if old, was := before[id].routes[d.prefix]; there != was || r != old {
			return true
		}
	}
	return false
}

// keepLimit copies the limit at which the cloud reported a table as full to the table of a new
// read. Once the limit has expired, it allows one more route.
func (b *Book) keepLimit(t, old *table, now time.Time) {
	if old.limit == (subnet.Pair[int]{}) {
		return
	}
	t.limit, t.limited = old.limit, old.limited
	for f := range t.limit {
		if t.limit[f] > 0 && now.After(t.limited) {
			t.limit[f] = t.used[f] + 1
			b.retryQueue = true
		}
	}
}

// reserve counts the reserved room in the new tables, and lets Admit try the waiting
// destinations again.
func (b *Book) reserve() {
	for _, t := range b.tables {
		t.reserved = subnet.Pair[int]{}
	}
	for _, d := range b.dests {
		for i := range d.slots {
			if s := &d.slots[i]; s.reserved && b.tables[s.table] != nil {
				b.tables[s.table].count(&b.tables[s.table].reserved, d.prefix, 1)
			}
		}
	}
	b.retryQueue = true
}

// SetLedger replaces the entries of the ledger.
func (b *Book) SetLedger(all []Entry, now time.Time) {
	has := make(map[netip.Prefix][]Owned, len(all))
	for _, e := range all {
		has[e.Destination] = e.Routes
		b.dest(e.Destination)
	}
	first := !b.hasLedger
	b.hasLedger = true
	for p, d := range maps.Clone(b.dests) {
		if !first && slices.EqualFunc(d.owned, has[p], Owned.equal) {
			continue
		}
		if d.owned = has[p]; len(d.claims) == 0 && d.gone.IsZero() {
			d.gone = now
		}
		b.examine(d, now)
	}
}

// read parses a range of a node. It returns a finding for an invalid one.
func (b *Book) parseRange(n *node, text string) (p netip.Prefix, f Finding) {
	wrong := func(c Code, why string) (netip.Prefix, Finding) {
		return netip.Prefix{}, Finding{n.Name, n.UID, c, fmt.Sprintf("podCIDR %.100q %s", text, why)}
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || p.Addr().Is4In6():
		return wrong(Malformed, "is not a network; delete and re-create the Node")
	case p != p.Masked():
		return wrong(Malformed, "has host bits, and should be "+p.Masked().String()+"; delete and re-create the Node")
	case p.Bits() < 8:
		return wrong(Outside, "is larger than a /8; delete and re-create the Node")
	}
	within := func(r netip.Prefix) bool { return r.Bits() <= p.Bits() && r.Overlaps(p) }
	if len(b.options.Within) > 0 && !slices.ContainsFunc(b.options.Within, within) {
		return wrong(Outside, "is not in "+join(b.options.Within)+"; delete and re-create the Node, or add its range")
	}
	return p, Finding{}
}

func join(all []netip.Prefix) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}
