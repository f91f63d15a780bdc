package cloudroute

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Entry is the ledger's entry of one destination. An Entry without routes stands for a
// destination that the ledger does not have.
type Entry struct {
	Destination netip.Prefix
	Routes      []Owned // in the order of their tables
}

// Owned is one of our routes in one table. The route may not be written yet.
type Owned struct {
	Table string
	// Targets are the targets that the route may have: first the wanted one, and then the
	// former ones for as long as a write of them may still arrive.
	Targets []string
	// Node is the last node that needed the route.
	Node string
}

// Equal reports whether two entries are the same.
func (e Entry) Equal(f Entry) bool {
	return e.Destination == f.Destination && slices.EqualFunc(e.Routes, f.Routes, Owned.equal)
}

func (o Owned) equal(p Owned) bool {
	return o.Table == p.Table && o.Node == p.Node && slices.Equal(o.Targets, p.Targets)
}

// Join returns an entry with all routes and targets of two entries of one destination.
func (e Entry) Join(f Entry) Entry {
	all := slices.Clone(e.Routes)
	for _, o := range f.Routes {
		i := slices.IndexFunc(all, func(p Owned) bool { return p.Table == o.Table })
		if i < 0 {
			all = append(all, o)
			continue
		}
		all[i].Targets = slices.Clone(all[i].Targets)
		for _, t := range o.Targets {
			if !slices.Contains(all[i].Targets, t) {
				all[i].Targets = append(all[i].Targets, t)
			}
		}
	}
	slices.SortFunc(all, func(o, p Owned) int { return strings.Compare(o.Table, p.Table) })
	return Entry{e.Destination, all}
}

// String returns the route in the format of the ledger.
func (o Owned) String() string {
	return o.Table + " " + strings.Join(o.Targets, ",") + " " + o.Node
}

// Text returns the routes in the format of the ledger, one line each.
func (e Entry) Text() string {
	var b strings.Builder
	for _, o := range e.Routes {
		b.WriteString(o.String() + "\n")
	}
	return b.String()
}

// Key returns the destination as a key of a ConfigMap, which allows no colon and no
// slash.
func (e Entry) Key() string {
	return keys.Replace(e.Destination.String())
}

var keys = strings.NewReplacer(":", "-", "/", "_")

// ParseEntry parses an entry. It refuses an invalid entry as a whole, so no route in it counts
// as ours.
func ParseEntry(key, text string) (Entry, error) {
	fail := func(why string) (Entry, error) {
		return Entry{}, fmt.Errorf("entry %.100q of the ledger: %s", key, why)
	}
	address, bits, ok := strings.Cut(key, "_")
	p, err := netip.ParsePrefix(strings.ReplaceAll(address, "-", ":") + "/" + bits)
	e := Entry{Destination: p}
	if !ok || err != nil || p != p.Masked() || e.Key() != key {
		return fail("not a destination like 10.4.7.0_24")
	}
	for line := range strings.Lines(text) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(words) != 3 || words[0] == "" || words[2] == "" || !strings.HasSuffix(line, "\n") {
			return fail(fmt.Sprintf("the line %.100q is not a table, its targets and a node", line))
		}
		o := Owned{Table: words[0], Targets: strings.Split(words[1], ","), Node: words[2]}
		if slices.Contains(o.Targets, "") {
			return fail(fmt.Sprintf("the line %.100q has an empty target", line))
		}
		if n := len(e.Routes); n > 0 && e.Routes[n-1].Table >= o.Table {
			return fail(fmt.Sprintf("the tables %.100q and %.100q are out of order", e.Routes[n-1].Table, o.Table))
		}
		e.Routes = append(e.Routes, o)
	}
	if len(e.Routes) == 0 {
		return fail("no route")
	}
	return e, nil
}
