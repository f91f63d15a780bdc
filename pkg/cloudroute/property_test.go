package cloudroute

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// model computes the tables that a settled Book must produce, with lists and loops.
type model struct {
	nodes   map[string]Node
	foreign map[string]map[netip.Prefix]cloud.Route // by table; our routes never have these targets
}

// owner returns the node to which a range must be routed, or nil.
func (m model) owner(p netip.Prefix) *Node {
	var oldest *Node
	for _, n := range m.nodes {
		if slices.Contains(n.Ranges, p.String()) && (oldest == nil || older(n, *oldest)) {
			oldest = &n
		}
	}
	if oldest == nil || oldest.Target.id(p) == "" {
		return nil
	}
	for _, n := range m.nodes {
		if n.Target.Instance == oldest.Target.Instance && older(n, *oldest) {
			return nil
		}
	}
	return oldest
}

func older(a, b Node) bool {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name)) < 0
}

// step makes one random change of the world and the model.
func (m model) step(w *world, rnd *rand.Rand) {
	i := rnd.IntN(12)
	name := fmt.Sprintf("worker-%d", i)
	tables := slices.Sorted(maps.Keys(w.tables))
	id := tables[rnd.IntN(len(tables))]
	p := prefix(fmt.Sprintf("10.0.%d.0/24", rnd.IntN(16)))
	switch rnd.IntN(12) {
	case 0, 1, 2, 3:
		n := Node{Name: name, UID: fmt.Sprint(rnd.IntN(3)), Created: int64(rnd.IntN(5)), Target: target(rnd.IntN(14))}
		for range 1 + rnd.IntN(2) {
			r := fmt.Sprintf("10.0.%d.0/24", rnd.IntN(16))
			if rnd.IntN(4) == 0 {
				r = prefix(fmt.Sprintf("fd00:0:0:%d::/64", rnd.IntN(4))).String()
			}
			n.Ranges = append(n.Ranges, r)
		}
		if rnd.IntN(6) == 0 {
			n.Target = Target{}
		}
		m.nodes[name] = n
		w.SetNode(n, w.now)
	case 4:
		if n, ok := m.nodes[name]; ok {
			n.Target = target(rnd.IntN(14))
			m.nodes[name] = n
			w.SetTarget(name, n.Target, w.now)
		}
	case 5, 6:
		delete(m.nodes, name)
		w.DeleteNode(name, w.now)
	case 7: // a person deletes a route
		delete(w.tables[id], p)
		delete(m.foreign[id], p)
	case 8: // a person writes one
		r := cloud.Route{Destination: p, Kind: cloud.ToInterface, Target: "eni-hand"}
		if _, there := w.tables[id][p]; rnd.IntN(2) == 0 || !there {
			w.put(id, r)
			m.foreign[id][p] = w.tables[id][p]
		}
	case 9:
		w.restart()
	default:
		w.pass(time.Duration(rnd.IntN(400)) * time.Second)
	}
}

// check compares the tables of a settled Book with the model.
func (m model) check(w *world) {
	w.Helper()
	for id, routes := range w.tables {
		for p, r := range m.foreign[id] {
			if routes[p] != r {
				w.Fatalf("%s: the foreign route of %s was touched: %+v", id, p, routes[p])
			}
		}
		for i := range 16 + 4 {
			p := prefix(fmt.Sprintf("10.0.%d.0/24", i))
			if i >= 16 {
				p = prefix(fmt.Sprintf("fd00:0:0:%d::/64", i-16))
			}
			r, there := routes[p]
			if _, foreign := m.foreign[id][p]; foreign {
				continue
			}
			claimed := slices.ContainsFunc(slices.Collect(maps.Values(m.nodes)), func(n Node) bool { return slices.Contains(n.Ranges, p.String()) })
			switch n := m.owner(p); {
			case n != nil && !(there && r.LeadsTo(n.Target.instance(p))):
				w.Fatalf("%s: %s leads to %+v, want %s; %+v", id, p, r, n.Target.Interface, w.Status(n.Name))
			case n == nil && !claimed && there && len(m.nodes) > 0 && w.needed > 0:
				w.Fatalf("%s: %s leads to %s, and no node needs it", id, p, r)
			}
		}
	}
	if len(w.unmarked) > 0 {
		w.Fatalf("changed before the ledger had it: %+v", w.unmarked)
	}
}

// TestTablesAgreeWithPlainRules makes random changes of nodes, tables and faults. Once the Book
// has settled, every route that a node needs exists, no route of ours that no node needs does,
// and no foreign route has changed.
func TestTablesAgreeWithPlainRules(t *testing.T) {
	for seed := range uint64(60) {
		rnd := seeded(t, seed)
		w := newWorld(t, Options{}, "rtb-a", "rtb-b")
		m := model{nodes: make(map[string]Node), foreign: map[string]map[netip.Prefix]cloud.Route{"rtb-a": {}, "rtb-b": {}}}
		for range 60 {
			w.fail = func(c Change) error {
				switch rnd.IntN(12) {
				case 0:
					return errors.New("connection reset")
				case 1:
					return &cloud.Error{Kind: cloud.Throttled, After: time.Second}
				case 2: // made, and the answer is lost
					w.fail = nil
					_ = w.apply(c)
					return &cloud.Error{Kind: cloud.Unavailable}
				}
				return nil
			}
			m.step(w, rnd)
		}
		w.fail = nil
		w.pass(30 * time.Minute)
		m.check(w)
	}
}

// TestQuotasAreUsedUpAndNeverExceeded: no table ever has more routes than its quota, and a node
// waits only if the table is full.
func TestQuotasAreUsedUpAndNeverExceeded(t *testing.T) {
	for seed := range uint64(20) {
		rnd := seeded(t, seed)
		w := newWorld(t, Options{Grace: time.Minute}, "rtb-a", "rtb-b")
		w.quota = cloud.Quota{Most: subnet.Pair[int]{subnet.IPv4: 12}}
		w.restart()
		full := 0
		w.fail = func(Change) error { return nil }
		live := make(map[int]bool)
		for range 100 {
			if i := rnd.IntN(30); live[i] && rnd.IntN(2) == 0 {
				w.remove(i)
				delete(live, i)
			} else if !live[i] {
				w.add(i)
				live[i] = true
			}
			w.pass(time.Duration(rnd.IntN(60)) * time.Second)
			for id, routes := range w.tables {
				if len(routes) > 12 {
					t.Fatalf("%s has %d routes", id, len(routes))
				}
			}
		}
		w.pass(30 * time.Minute)
		for i := range live {
			if w.Status(fmt.Sprintf("worker-%d", i)).Code == TableFull {
				full++
			}
		}
		if want := max(0, len(live)-10); full != want {
			t.Errorf("%d nodes wait, want %d of %d", full, want, len(live))
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add("10.4.7.0_24", "rtb-a eni-1,eni-2 worker-1\nrtb-b eni-1 worker-1\n")
	f.Add("fd00-0-0-7--_64", "rtb-a eni-1 worker-1\n")
	f.Add("10.4.7.1_24", "rtb-a  worker-1")
	f.Fuzz(func(t *testing.T, key, text string) {
		e, err := ParseEntry(key, text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("a long error: %q", err)
			}
			return
		}
		if e.Key() != key || e.Text() != text || len(e.Routes) == 0 {
			t.Errorf("%q %q became %q %q", key, text, e.Key(), e.Text())
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	w := newWorld(b, Options{}, "rtb-a", "rtb-b", "rtb-c")
	for i := range 5000 {
		w.add(i)
	}
	w.settle()
	b.Run("node", func(b *testing.B) {
		for b.Loop() {
			w.add(6000)
			w.settle()
			w.remove(6000)
			w.settle()
		}
	})
	b.Run("reading", func(b *testing.B) {
		for b.Loop() {
			w.readTables()
			w.settle()
		}
	})
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			w.restart()
			w.settle()
		}
	})
}
