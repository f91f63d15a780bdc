package cloudroute

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// Status returns the state of a node's routes. It is empty for a node that does not exist.
func (b *Book) Status(name string) Status {
	n := b.nodes[name]
	switch {
	case n == nil:
		return Status{}
	case len(n.Ranges) == 0:
		return Status{NoRange, "the node has no podCIDR yet; run node IPAM"}
	case len(n.faults) > 0:
		return Status{n.faults[0].Code, n.faults[0].Text}
	case n.Target.Problem != "":
		return Status{NoInstance, n.Target.Problem}
	case !b.isReady():
		return Status{Unknown, "the route tables have not been read yet"}
	case !n.Target.isKnown():
		return Status{Unknown, "the instance has not been looked up yet"}
	case !b.ownsInstance(n):
		older := b.byInstance[n.Target.Instance][0].Name
		return Status{SharedInstance, fmt.Sprintf("instance %s belongs to the older node %s; correct the providerID of one of the two", n.Target.Instance, older)}
	case len(b.ids) == 0:
		return Status{NoTables, "no route table is ours; tag one, or name it in the cloud's config"}
	}
	worst := Status{Code: Routed, Text: fmt.Sprintf("routed to %s in %d tables", cmp.Or(n.Target.Instance, n.Target.Interface), len(b.ids))}
	for _, d := range n.dests {
		if older := d.claims[0]; older != n {
			return Status{Duplicate, fmt.Sprintf("podCIDR %s belongs to the older node %s; delete and re-create one of the two Nodes", d.prefix, older.Name)}
		}
		for _, id := range b.ids {
			v := b.inspect(d, b.tables[id])
			if rank(v.code) > rank(worst.Code) {
				worst = Status{v.code, b.explain(d, b.tables[id], v)}
			}
		}
	}
	if !n.Target.Forwards && rank(NoForwarding) > rank(worst.Code) {
		worst = Status{NoForwarding, b.explainForwarding(n)}
	}
	return worst
}

// explainForwarding returns why a node does not forward packets yet.
func (b *Book) explainForwarding(n *node) string {
	f := b.options.Forwarding
	switch {
	case n.Target.ForwardFix != "":
		return fmt.Sprintf("%s at %s; %s", f.Is(false), n.Target.Instance, n.Target.ForwardFix)
	case n.forward.err != nil:
		return fmt.Sprintf("failed to switch %s of %s; retrying: %v", f.Switch(), n.Target.Instance, n.forward.err)
	}
	return fmt.Sprintf("switching %s of %s", f.Switch(), n.Target.Instance)
}

// rank orders codes of routes by urgency. Those on which a person must act come last.
func rank(c Code) int {
	return slices.Index([]Code{Routed, Pending, NoForwarding, Blackhole, Failing, TableFull, OtherNetwork, NoAddress, OwnAddresses, Taken}, c)
}

// explain describes the state of a route in one sentence, with the fix.
func (b *Book) explain(d *dest, t *table, v view) string {
	route, s := fmt.Sprintf("route %s in %s", d.prefix, t.ID), d.slot(t.ID)
	switch v.code {
	case Routed:
		return route + " leads to " + v.route.String()
	case Blackhole:
		return fmt.Sprintf("%s leads to %s: the instance does not run", route, v.route)
	case Taken:
		if other := cmp.Or(v.route.Rival, v.route.Split); other != "" {
			return fmt.Sprintf("%s leads to %s, and another route that is not ours leads to %s; remove that one if nothing needs it", route, v.route, other)
		}
		return fmt.Sprintf("%s leads to %s and is not ours; remove it if nothing needs it, and the controller adds its own", route, v.route)
	case OwnAddresses:
		return route + " overlaps the addresses of the cloud's own network; delete and re-create the Node with another podCIDR"
	case OtherNetwork:
		return fmt.Sprintf("%s cannot lead to network %s, because the table is in %s; use a table of that network", route, v.node.Target.Network, t.Network)
	case NoAddress:
		return fmt.Sprintf("%s needs an address of %s on the primary interface of %s; add one, or give the Node no such podCIDR", route, subnet.FamilyOf(d.prefix.Addr()), v.node.Target.Instance)
	case TableFull:
		return fmt.Sprintf("%s has no room: %s; raise the quota, or remove nodes", route, b.usage(t, subnet.FamilyOf(d.prefix.Addr())))
	case Failing:
		return fmt.Sprintf("%s cannot be written; retrying: %v", route, s.err)
	case Leftover:
		return fmt.Sprintf("%s leads to %s, but no node needs it; the controller removes it after %s", route, v.route, b.options.Grace)
	case Foreign:
		return fmt.Sprintf("%s leads to %s, and is not ours", route, v.route)
	case Unknown:
		return route + " waits for its instance"
	}
	if v.verb == cloud.Replace {
		return fmt.Sprintf("%s leads to %s, and is about to be replaced", route, v.route)
	}
	return route + " is about to be written"
}

// Findings yields the problems of nodes, in the order of the nodes' names.
func (b *Book) Findings() iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
			n := b.nodes[name]
			s := b.Status(name)
			soon := s.Code == NoForwarding && n.Target.ForwardFix == "" && n.forward.err == nil
			if s.Code.IsProblem() && !soon && !yield(Finding{name, n.UID, s.Code, s.Text}) {
				return
			}
		}
	}
}

// Usages returns the usage of each table.
func (b *Book) Usages() (all []Usage) {
	for _, id := range b.ids {
		t := b.tables[id]
		all = append(all, b.usage(t, subnet.IPv4))
		if six := b.usage(t, subnet.IPv6); !t.Quota.Shared && six.Used+six.Waiting > 0 {
			all = append(all, six)
		}
	}
	return all
}

func (b *Book) usage(t *table, f subnet.Family) Usage {
	u := Usage{Table: t.ID, Name: t.Name, Family: f, Used: t.used[f], Most: t.most(f), Assumed: t.Quota.Assumed}
	for _, d := range b.queue {
		if d.full && (t.Quota.Shared || subnet.FamilyOf(d.prefix.Addr()) == f) {
			u.Waiting++
		}
	}
	return u
}

// Rows returns the existing and the missing routes of all tables, sorted by table and
// destination.
func (b *Book) Rows() (all []Row) {
	for _, id := range b.ids {
		t := b.tables[id]
		for p, d := range b.dests {
			v := b.inspect(d, t)
			if v.code == "" {
				continue
			}
			r := Row{Table: id, Destination: p.String(), Code: v.code, Ours: v.recorded, Node: v.owned.Node, Text: b.explain(d, t, v)}
			if len(d.claims) > 0 {
				r.Node = d.claims[0].Name
			}
			if v.there {
				r.Target = v.route.String()
			}
			all = append(all, r)
		}
		for p, r := range t.routes {
			if b.dests[p] == nil {
				all = append(all, Row{Table: id, Destination: r.To, Target: r.String(), Code: Foreign, Text: "not ours"})
			}
		}
	}
	slices.SortFunc(all, func(x, y Row) int {
		return cmp.Or(strings.Compare(x.Table, y.Table), compareText(x.Destination, y.Destination))
	})
	return all
}

// compareText compares two destinations as prefixes, or as text if one of them is no prefix.
func compareText(x, y string) int {
	p, err := netip.ParsePrefix(x)
	q, err2 := netip.ParsePrefix(y)
	if err != nil || err2 != nil {
		return strings.Compare(x, y)
	}
	return p.Compare(q)
}

// Explain returns the state of every route of a node.
func (b *Book) Explain(name string) (all []Row) {
	n := b.nodes[name]
	if n == nil {
		return nil
	}
	for _, d := range n.dests {
		for _, id := range b.ids {
			v := b.inspect(d, b.tables[id])
			all = append(all, Row{Table: id, Destination: d.prefix.String(), Target: v.route.String(), Node: name, Code: v.code, Ours: v.recorded, Text: b.explain(d, b.tables[id], v)})
		}
	}
	return all
}

// Counts returns the number of nodes with each code.
func (b *Book) Counts() map[Code]int {
	n := make(map[Code]int)
	for name := range b.nodes {
		n[b.Status(name).Code]++
	}
	return n
}

// Entries returns the number of destinations in the ledger.
func (b *Book) Entries() (n int) {
	for _, d := range b.dests {
		if len(d.owned) > 0 {
			n++
		}
	}
	return n
}
