package cloudroute

import (
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

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// world is a cloud, a ledger and a Book that changes both.
type world struct {
	testing.TB
	*Book
	now          time.Time
	tables       map[string]map[netip.Prefix]cloud.Route
	quota        cloud.Quota
	ledger       map[netip.Prefix]Entry
	otherNetwork map[string]bool // tables of another network
	read         time.Time
	every        time.Duration // between two reads of the tables

	// fail, if set, is called before a change. If it returns an error, the change is not made.
	fail func(c Change) error
	made []Change
	// unmarked are changes whose entries the ledger did not have yet.
	unmarked []Change
}

func newWorld(t testing.TB, o Options, tables ...string) *world {
	w := &world{TB: t, now: start, tables: make(map[string]map[netip.Prefix]cloud.Route), ledger: make(map[netip.Prefix]Entry), every: time.Minute, otherNetwork: make(map[string]bool)}
	if o.Grace == 0 {
		o.Grace = 5 * time.Minute
	}
	for _, id := range tables {
		w.tables[id] = map[netip.Prefix]cloud.Route{}
		w.put(id, cloud.Route{Destination: prefix("172.31.0.0/16"), Kind: cloud.ToLocal, Target: "local", Origin: cloud.WithTable})
		w.put(id, cloud.Route{Destination: prefix("0.0.0.0/0"), Kind: cloud.ToGateway, Target: "igw-1"})
	}
	w.Book = New(o)
	w.restart()
	return w
}

// restart starts another leader, which has only the stored state.
func (w *world) restart() {
	w.Book.Reset(w.now)
	w.Book.SetLedger(slices.Collect(maps.Values(w.ledger)), w.now)
	w.readTables()
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func (w *world) put(table string, r cloud.Route) {
	if r.Origin == "" {
		r.Origin = cloud.Created
	}
	if r.State == "" {
		r.State = cloud.Active
	}
	r.To = r.Destination.String()
	w.tables[table][r.Destination] = r
}

func (w *world) readTables() {
	var all []cloud.Table
	for id, routes := range w.tables {
		t := cloud.Table{ID: id, Network: "vpc-1", Quota: w.quota, Routes: slices.Collect(maps.Values(routes))}
		if w.otherNetwork[id] {
			t.Network = "vpc-2"
		}
		all = append(all, t)
	}
	w.read = w.now
	w.Book.SetTables(all, w.now, w.now)
}

// target returns the target of routes to the i-th instance.
func target(i int) Target {
	return Target{Instance: fmt.Sprintf("i-%d", i), Interface: fmt.Sprintf("eni-%d", i), Network: "vpc-1", Forwards: true}
}

// add adds the i-th node with its range.
func (w *world) add(i int, ranges ...string) {
	if ranges == nil {
		ranges = []string{fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)}
	}
	w.SetNode(Node{Name: fmt.Sprintf("worker-%d", i), UID: fmt.Sprintf("uid-%d", i), Created: int64(i), Ranges: ranges, Target: target(i)}, w.now)
}

func (w *world) remove(i int) { w.DeleteNode(fmt.Sprintf("worker-%d", i), w.now) }

// apply makes a change of the cloud.
func (w *world) apply(c Change) error {
	if c.Verb == Forward {
		return nil
	}
	if w.fail != nil {
		if err := w.fail(c); err != nil {
			return err
		}
	}
	refuse := func(k cloud.Kind) error { return &cloud.Error{Kind: k, Action: "CreateRoute", Text: k.String()} }
	marked := slices.ContainsFunc(w.ledger[c.Destination].Routes, func(o Owned) bool {
		return o.Table == c.Table && (c.Verb == cloud.Remove && o.owns(c.Was) || slices.Contains(o.Targets, c.Interface))
	})
	if !marked {
		w.unmarked = append(w.unmarked, c)
	}
	routes := w.tables[c.Table]
	r, there := routes[c.Destination]
	n, known := 0, false
	if w.quota.Most != (subnet.Pair[int]{}) {
		used := cloud.Table{Routes: slices.Collect(maps.Values(routes)), Quota: w.quota}
		n, known = used.Free(subnet.FamilyOf(c.Destination.Addr()))
	}
	switch {
	case routes == nil, c.Verb != cloud.Add && !there:
		return refuse(cloud.Missing)
	case c.Verb == cloud.Add && there, c.Verb != cloud.Add && r.Target != c.Was.Target:
		return refuse(cloud.Changed)
	case c.Verb == cloud.Add && known && n == 0:
		return refuse(cloud.Full)
	}
	w.made = append(w.made, c)
	switch c.Verb {
	case cloud.Remove:
		delete(routes, c.Destination)
	default:
		w.put(c.Table, c.made())
	}
	return nil
}

// turn makes the due changes, and reports whether there were any.
func (w *world) turn() bool {
	entries := w.PlanLedger(w.now)
	for _, e := range entries {
		if w.ledger[e.Destination] = e; len(e.Routes) == 0 {
			delete(w.ledger, e.Destination)
		}
	}
	w.LedgerDone(true, w.now)
	changes, _ := w.Next(w.now, 16)
	for _, c := range changes {
		w.Done(c, w.apply(c), w.now)
	}
	return len(entries)+len(changes) > 0
}

// settle makes changes until none is due now.
func (w *world) settle() {
	w.Helper()
	for n := 0; w.turn(); n++ {
		if n > 10_000 {
			w.Fatal("never at rest")
		}
	}
}

// pass advances the clock.
func (w *world) pass(d time.Duration) {
	w.Helper()
	for end := w.now.Add(d); ; {
		w.settle()
		if !w.now.Before(end) {
			return
		}
		_, again := w.Next(w.now, 0)
		next := w.read.Add(w.every)
		if !w.ReadBy().IsZero() && w.ReadBy().Before(next) {
			next = w.ReadBy()
		}
		if !again.IsZero() && again.Before(next) {
			next = again
		}
		if next.After(end) {
			next = end
		}
		if w.now = next; !w.now.After(w.read) {
			w.now = w.read.Add(time.Second)
		}
		if !w.ReadBy().IsZero() && !w.ReadBy().After(w.now) || w.now.Sub(w.read) >= w.every {
			w.readTables()
		}
	}
}

// want fails unless every table has exactly these routes, beside foreign ones.
func (w *world) want(all map[string]string) {
	w.Helper()
	for id, routes := range w.tables {
		for p, r := range routes {
			if want := all[p.String()]; r.Kind == cloud.ToInterface && r.Target != want {
				w.Errorf("%s: %s leads to %q, want %q", id, p, r.Target, want)
			}
		}
		for p, want := range all {
			if r := routes[prefix(p)]; r.Target != want {
				w.Errorf("%s: %s leads to %q, want %q", id, p, r.Target, want)
			}
		}
	}
	if len(w.unmarked) > 0 {
		w.Errorf("changed before the ledger had it: %v", w.unmarked)
	}
}

// wantStatus fails unless a node has a code.
func (w *world) wantStatus(i int, want Code) {
	w.Helper()
	if s := w.Status(fmt.Sprintf("worker-%d", i)); s.Code != want || s.Text == "" {
		w.Errorf("worker-%d: %+v, want %s", i, s, want)
	}
}

func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}
