package route

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// smallRoom is room for about eight destinations.
const smallRoom = 400

// inLedger runs a test with a ledger of small parts.
func inLedger(t *testing.T, test func(in *labtest.Lab, open func() *ConfigMaps)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		in.API.Serves["api/v1/configmaps"] = "ConfigMap"
		test(in, func() *ConfigMaps {
			l := NewConfigMaps(in.Client, "kube-system", "tulle-controller-routes")
			l.room = smallRoom
			return l
		})
	})
}

// noted returns an entry of the i-th destination. Without targets, it returns the entry that
// removes the destination.
func noted(i int, targets ...string) cloudroute.Entry {
	e := cloudroute.Entry{Destination: netip.MustParsePrefix(cidrOf(i))}
	if len(targets) > 0 {
		e.Routes = []cloudroute.Owned{{Table: "rtb-a", Targets: targets, Node: nameOf(i)}}
	}
	return e
}

// model holds the entries that a ledger should have.
type model map[netip.Prefix]string

func (m model) apply(entries []cloudroute.Entry) {
	for _, e := range entries {
		if m[e.Destination] = e.Text(); len(e.Routes) == 0 {
			delete(m, e.Destination)
		}
	}
}

// read reads a ledger, and fails the test if an entry cannot be parsed.
func read(t testing.TB, l *ConfigMaps) Contents {
	t.Helper()
	c, err := l.Read(t.Context())
	if err != nil || len(c.Problems) > 0 {
		t.Fatal(c.Problems, err)
	}
	return c
}

// check fails unless the ledger has exactly the model's entries, each destination is in one
// part, and no part is too large.
func (m model) check(t *labtest.Lab, l *ConfigMaps) {
	t.Helper()
	got := make(model)
	got.apply(read(t, l).Entries)
	if len(got) != len(m) {
		t.Fatalf("it has %d destinations, want %d", len(got), len(m))
	}
	for p, want := range m {
		if got[p] != want {
			t.Errorf("%s: %q, want %q", p, got[p], want)
		}
	}
	seen := make(map[string]int)
	for i, part := range partsOf(t) {
		size := 0
		for key, text := range part {
			if size += len(key) + len(text); seen[key] > 0 {
				t.Errorf("%s is in part %d, and in part %d", key, seen[key]-1, i)
			}
			seen[key] = i + 1
		}
		if size > smallRoom+smallRoom/4 {
			t.Errorf("part %d has %d bytes", i, size)
		}
	}
}

// batches returns writes that fill parts, make entries too large for their parts, shrink
// entries, and remove them.
func batches() [][]cloudroute.Entry {
	var all [5][]cloudroute.Entry
	for i := range 30 {
		all[0] = append(all[0], noted(i, "eni-1"))
		switch {
		case i%3 == 0:
			all[1] = append(all[1], noted(i, "eni-2", "eni-1", strings.Repeat("x", 100)))
		case i%3 == 1:
			all[2] = append(all[2], noted(i))
		}
		all[3] = append(all[3], noted(i, "eni-3", strings.Repeat("y", i+1)))
		all[4] = append(all[4], noted(i, "eni-3"))
	}
	return all[:]
}

func TestLedgerGrowsIntoParts(t *testing.T) {
	inLedger(t, func(in *labtest.Lab, open func() *ConfigMaps) {
		l, m := open(), make(model)
		version := read(in, l).Version
		for _, batch := range batches() {
			var err error
			if version, err = l.Write(in.Context(), version, batch); err != nil {
				in.Fatal(err)
			}
			m.apply(batch)
			m.check(in, open())
		}
		if n := len(partsOf(in)); n < 3 || n > 7 {
			in.Errorf("%d parts", n)
		}
		// A write with an outdated version changes nothing.
		version = read(in, l).Version
		other := open()
		if _, err := other.Write(in.Context(), read(in, other).Version, []cloudroute.Entry{noted(0)}); err != nil {
			in.Fatal(err)
		}
		if _, err := l.Write(in.Context(), version, []cloudroute.Entry{noted(0, "eni-9")}); err == nil {
			in.Error("an old write was made")
		}
		if _, err := l.Write(in.Context(), version, nil); err != errReadAgain {
			in.Errorf("%v after a write that failed", err)
		}
		m.apply([]cloudroute.Entry{noted(0)})
		m.check(in, l)
	})
}

// TestKillsAtEveryWriteOfTheLedger: a process may die at any write of the ledger, before or
// after the server has applied it, and no route of ours becomes foreign. The next process reads
// the state before or after the write. Once it has settled, each destination is in one part.
func TestKillsAtEveryWriteOfTheLedger(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for kill := int32(1); ; kill++ {
			var writes atomic.Int32
			inLedger(t, func(in *labtest.Lab, open func() *ConfigMaps) {
				dies := func(r *http.Request) bool { return r.Method != http.MethodGet && writes.Add(1) == kill }
				in.API.Do(func() {
					if lost {
						in.API.Lose = dies
						return
					}
					in.API.Refuse = func(r *http.Request) *metav1.Status {
						if dies(r) {
							return apitest.Refusal(http.StatusInternalServerError, "killed")
						}
						return nil
					}
				})
				l, m := open(), make(model)
				for _, batch := range batches() {
					if _, err := l.Write(in.Context(), read(in, l).Version, batch); err != nil {
						l = open()
						covers(in, read(in, l).Entries, m, batch)
						if _, err := l.Write(in.Context(), read(in, l).Version, batch); err != nil {
							in.Fatal(err)
						}
					}
					m.apply(batch)
					m.check(in, l)
				}
			})
			if writes.Load() < kill || t.Failed() {
				if kill < 10 {
					t.Errorf("only %d writes", kill)
				}
				break
			}
		}
	}
}

// covers fails unless each destination has its entry from before a batch, the one of the batch,
// or both.
func covers(t testing.TB, got []cloudroute.Entry, before model, batch []cloudroute.Entry) {
	t.Helper()
	after := make(model)
	for p, text := range before {
		after[p] = text
	}
	after.apply(batch)
	has := make(map[netip.Prefix][]string)
	for _, e := range got {
		has[e.Destination] = e.Routes[0].Targets
	}
	targets := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(strings.Fields(text)[1], ",")
	}
	for i := range 30 {
		p := netip.MustParsePrefix(cidrOf(i))
		old, now := targets(before[p]), targets(after[p])
		isIn := func(all []string) func(string) bool {
			return func(t string) bool { return slices.Contains(all, t) }
		}
		missing := func(of []string) bool {
			return slices.ContainsFunc(of, func(t string) bool { return !isIn(has[p])(t) })
		}
		strange := slices.ContainsFunc(has[p], func(t string) bool { return !isIn(old)(t) && !isIn(now)(t) })
		if missing(old) && missing(now) || strange {
			t.Errorf("%s has %v after a write of %v over %v", p, has[p], now, old)
		}
	}
}

// TestOneLargeConfigMapIsKept: the ledger of an earlier version is one large ConfigMap. It stays
// as it is. New destinations go to another part, and removals still apply to the first one.
func TestOneLargeConfigMapIsKept(t *testing.T) {
	inLedger(t, func(in *labtest.Lab, open func() *ConfigMaps) {
		data, m := make(map[string]any), make(model)
		for i := range 30 {
			e := noted(i, "eni-1")
			data[e.Key()] = e.Text()
			m.apply([]cloudroute.Entry{e})
		}
		in.API.ChangeObject("ADDED", "api/v1/namespaces/kube-system/configmaps/tulle-controller-routes", map[string]any{
			"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "tulle-controller-routes", "namespace": "kube-system"}, "data": data,
		})
		l := open()
		batch := []cloudroute.Entry{noted(3), noted(40, "eni-1"), noted(41, "eni-1")}
		if _, err := l.Write(in.Context(), read(in, l).Version, batch); err != nil {
			in.Fatal(err)
		}
		m.apply(batch)
		parts := partsOf(in)
		if len(parts) != 2 || len(parts[0]) != 29 || len(parts[1]) != 2 {
			in.Errorf("%v", parts)
		}
		got := make(model)
		got.apply(read(in, l).Entries)
		if fmt.Sprint(got) != fmt.Sprint(m) {
			in.Errorf("%v, want %v", got, m)
		}
	})
}

// TestLedgerUnderAnOlderRole: a Role of an earlier version names only the first ConfigMap. It is
// enough while that one has room. After that, the error names the missing right.
func TestLedgerUnderAnOlderRole(t *testing.T) {
	inLedger(t, func(in *labtest.Lab, open func() *ConfigMaps) {
		in.API.Do(func() {
			in.API.Refuse = func(r *http.Request) *metav1.Status {
				if strings.HasSuffix(r.URL.Path, "-1") {
					return apitest.Refusal(http.StatusForbidden, "configmaps is forbidden")
				}
				return nil
			}
		})
		l := open()
		read(in, l)
		version, err := l.Write(in.Context(), "", []cloudroute.Entry{noted(1, "eni-1")})
		if err != nil {
			in.Fatal(err)
		}
		read(in, l)
		if _, err = l.Write(in.Context(), version, batches()[0]); err == nil || !strings.Contains(err.Error(), "allow get and patch of it in the Role") {
			in.Errorf("%v", err)
		}
		if n := len(partsOf(in)); n != 1 {
			in.Errorf("%d parts", n)
		}
		// Entries with room are written. Known destinations and removals need no room.
		c, err := l.Read(in.Context())
		if err != nil || len(c.Problems) != 1 || len(c.Entries) < 5 || len(c.Entries) >= len(batches()[0]) {
			in.Fatalf("%d entries, %q, %v", len(c.Entries), c.Problems, err)
		}
		if _, err = l.Write(in.Context(), c.Version, []cloudroute.Entry{noted(50, "eni-1"), noted(1, "eni-2"), noted(2)}); err == nil {
			in.Error("there was room")
		}
		m := make(model)
		if c, err = l.Read(in.Context()); err != nil {
			in.Fatal(err)
		}
		m.apply(c.Entries)
		if one := m[noted(1).Destination]; one != noted(1, "eni-2").Text() || m[noted(2).Destination] != "" || m[noted(50).Destination] != "" {
			in.Errorf("%v", m)
		}
	})
}

// TestLedgerThatLosesRights: if a Role loses the rights on existing parts, reads of the ledger
// fail. So the routes in these parts do not become foreign.
func TestLedgerThatLosesRights(t *testing.T) {
	inLedger(t, func(in *labtest.Lab, open func() *ConfigMaps) {
		l, m := open(), make(model)
		if _, err := l.Write(in.Context(), read(in, l).Version, batches()[0]); err != nil {
			in.Fatal(err)
		}
		in.API.Do(func() {
			in.API.Refuse = func(r *http.Request) *metav1.Status {
				if strings.HasSuffix(r.URL.Path, "-1") {
					return apitest.Refusal(http.StatusForbidden, "configmaps is forbidden")
				}
				return nil
			}
		})
		if c, err := l.Read(in.Context()); err == nil {
			in.Errorf("%d entries", len(c.Entries))
		}
		if c, err := open().Read(in.Context()); err != nil || len(c.Problems) != 1 { // a new process cannot know how many parts exist
			in.Errorf("%q, %v", c.Problems, err)
		}
		in.API.Do(func() { in.API.Refuse = nil })
		m.apply(batches()[0])
		m.check(in, l)
	})
}

// TestTheFirstPartWasDeleted: if the first part is deleted, the routes in the other parts stay
// ours. The next write re-creates the first part.
func TestTheFirstPartWasDeleted(t *testing.T) {
	inLedger(t, func(in *labtest.Lab, open func() *ConfigMaps) {
		l := open()
		if _, err := l.Write(in.Context(), read(in, l).Version, batches()[0]); err != nil {
			in.Fatal(err)
		}
		m := make(model)
		for _, e := range read(in, l).Entries {
			if partsOf(in)[0][e.Key()] == "" {
				m.apply([]cloudroute.Entry{e})
			}
		}
		in.API.ChangeObject("DELETED", "api/v1/namespaces/kube-system/configmaps/tulle-controller-routes", map[string]any{
			"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "tulle-controller-routes", "namespace": "kube-system"},
		})
		l = open()
		c := read(in, l)
		if len(c.Entries) == 0 || len(c.Entries) != len(m) {
			in.Errorf("%d entries, want %d", len(c.Entries), len(m))
		}
		if _, err := l.Write(in.Context(), c.Version, []cloudroute.Entry{noted(1, "eni-2")}); err != nil {
			in.Fatal(err)
		}
		m.apply([]cloudroute.Entry{noted(1, "eni-2")})
		m.check(in, open())
	})
}

// TestAPartThatWasDeleted: if another part is deleted, only its destinations are lost. The parts
// after it are read again as soon as it exists again.
func TestAPartThatWasDeleted(t *testing.T) {
	inLab(t, func(l *lab) {
		l.limit(smallRoom)
		for i := range 40 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Minute)
		if n := len(partsOf(l.Lab)); n < 3 {
			t.Fatalf("%d parts", n)
		}
		l.API.ChangeObject("DELETED", "api/v1/namespaces/kube-system/configmaps/tulle-controller-routes-1", map[string]any{
			"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "tulle-controller-routes-1", "namespace": "kube-system"},
		})
		l.add(40)
		l.Pass(30 * time.Minute)
		for i := range 41 {
			l.wantRouted(i)
		}
		l.wantExplained()
		seen := make(map[string]bool)
		for _, part := range partsOf(l.Lab) {
			for key := range part {
				if seen[key] {
					l.Errorf("%s is in two parts", key)
				}
				seen[key] = true
			}
		}
	})
}

// TestFullLedgerStopsOnlyWhatHasNoRoom: a full ledger stops only new destinations. The others
// get their routes, also after their Node has got another instance.
func TestFullLedgerStopsOnlyWhatHasNoRoom(t *testing.T) {
	inLab(t, func(l *lab) {
		l.limit(smallRoom)
		l.API.Do(func() {
			l.API.Refuse = func(r *http.Request) *metav1.Status {
				if strings.HasSuffix(r.URL.Path, "-routes-1") {
					return apitest.Refusal(http.StatusForbidden, "configmaps is forbidden")
				}
				return nil
			}
		})
		const many = 30
		for i := range many {
			l.add(i)
		}
		l.Begin()
		l.Pass(10 * time.Minute)
		var routed []int
		for i := range many {
			if l.cloud.Targets("rtb-a")[cidrOf(i)] != "" {
				routed = append(routed, i)
			}
		}
		if len(routed) < 3 || len(routed) == many {
			t.Fatalf("%d of %d Nodes have routes", len(routed), many)
		}
		l.wantRouted(routed...)
		one := routed[0]
		l.remove(one)
		l.Pass(time.Second)
		l.add(one, func(n *corev1.Node) {
			n.Spec.ProviderID = l.fleet.Launch("another", func(i *cloud.Instance) { i.Forwards = true })
		})
		l.Pass(10 * time.Minute)
		if got := l.cloud.Targets("rtb-a")[cidrOf(one)]; got != "nic-another" {
			t.Errorf("the route of a replaced instance leads to %q", got)
		}
	})
}
