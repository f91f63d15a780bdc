package cloudroute

import (
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// isUnsure reports whether the cloud may report the table as full, though the known quota has
// room: the quota is unknown or assumed, or the cloud reported the table as full before.
func (t *table) isUnsure(f subnet.Family) bool {
	return t.Quota.Most[f] == 0 || t.Quota.Assumed != "" || t.limit[f] > 0
}

// firstAdd returns the only table that may get the route to a destination now, or "" if all may.
//
// If a quota is unsure, the fullest table gets the route first. If the cloud reports that table as
// full, no other table gets the route. So the range has a route in all tables or in none, unless
// the tables have different quotas, or another program adds routes meanwhile. A table whose route
// fails for another reason delays no other table.
func (b *Book) firstAdd(d *dest) (id string) {
	if len(b.ids) < 2 || b.options.DryRun {
		return ""
	}
	f := subnet.FamilyOf(d.prefix.Addr())
	var first *table
	unsure := false
	for _, id := range b.ids {
		t, s := b.tables[id], d.slot(id)
		if b.inspect(d, t).verb != cloud.Add || !s.reserved || s.fails() {
			continue
		}
		if s.inFlight {
			return id
		}
		unsure = unsure || t.isUnsure(f)
		if first == nil || t.isFuller(first, f) {
			first = t
		}
	}
	if !unsure {
		return ""
	}
	return first.ID
}

// isFuller reports whether the cloud is likely to report t as full before u.
func (t *table) isFuller(u *table, f subnet.Family) bool {
	if limited := t.limit[f] > 0; limited != (u.limit[f] > 0) {
		return limited
	}
	return t.used[f] > u.used[f]
}

// fails reports whether the last attempt has failed, and not because the table was full.
func (s *slot) fails() bool { return s.failures > 0 && cloud.KindOf(s.err) != cloud.Full }
