package nodeipam

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
)

func TestANodeGetsOneWrite(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		w := l.one()
		if w.Summary != "set podCIDRs 10.1.0.0/24" || l.requires(w) != "10" {
			t.Errorf("%s, of version %s", w.Summary, l.requires(w))
		}
		l.none()
		l.done(w, 11)
		l.none()
		// The watch lags behind the answer.
		l.shows("a", "1", 10)
		l.none()
		l.shows("a", "1", 11, "10.1.0.0/24")
		l.none()
		if r := l.Report(time.Now()); r.Waiting != 0 || r.Retrying != 0 || r.Pools[0].Used != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// A Node that changes between the decision and the write is written as soon as the watch
// shows the change, however often that happens.
func TestAConflictIsTriedAgainOnceTheWatchShowsTheChange(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		began := time.Now()
		for version := int64(11); version < 30; version += 2 {
			w := l.one()
			l.refuse(w, conflict)
			l.none()
			l.shows("a", "1", version)
			// And the other way round.
			w = l.one()
			l.shows("a", "1", version+1)
			l.refuse(w, conflict)
		}
		w := l.one()
		if took := time.Since(began); took > 0 || l.requires(w) != "30" {
			t.Errorf("after %s, of version %s", took, l.requires(w))
		}
	})
}

// A write that meets a conflict without a change is retried unchanged, with a growing
// back-off. An event reports it.
func TestAConflictWithoutAChangeIsTriedAgainAsItWas(t *testing.T) {
	run(t, "10.1.0.0/23", func(l *lab) {
		l.shows("a", "1", 10)
		first, tries, began := l.one(), 1, time.Now()
		w := first
		for ; time.Since(began) < 10*time.Minute; tries++ {
			l.refuse(w, conflict)
			l.none()
			again := time.Until(l.waiting.next())
			if again < parkedLimit || again > parkedLimit+backoff.Last {
				t.Fatalf("the next try is in %s", again)
			}
			l.pass(again)
			if w = l.one(); w.Summary != first.Summary || l.requires(w) != "10" {
				t.Fatalf("%s, of version %s", w.Summary, l.requires(w))
			}
		}
		if tries < 10 || tries > 40 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		if l.sent("a", assignmentFailed, "10.1.0.0/24", "409") == 0 {
			t.Error("there is no event")
		}
		l.shows("a", "1", 11)
		l.refuse(w, conflict)
		if w = l.one(); l.requires(w) != "11" {
			t.Errorf("of version %s", l.requires(w))
		}
	})
}

// A write without an answer may have been applied. Its block goes to no other Node, and
// the write is repeated unchanged until the Node shows its outcome.
func TestALostAnswerKeepsTheBlock(t *testing.T) {
	for name, c := range map[string]struct {
		shows []string
		then  string // what is written after that
	}{
		"made":     {[]string{"10.1.0.0/24"}, ""},
		"not made": {nil, "a: set podCIDRs 10.1.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, "10.1.0.0/24", func(l *lab) {
				l.shows("a", "1", 10)
				w := l.one()
				l.shows("b", "2", 11)
				for range 5 {
					l.Done(w, errLost)
					l.none()
					l.pass(2 * time.Second)
					if again := l.one(); again.Summary != w.Summary || again.Object != w.Object || l.requires(again) != "10" {
						t.Fatalf("%v, of version %s", again, l.requires(again))
					}
				}
				l.Done(w, errLost)
				l.shows("a", "1", 12, c.shows...)
				l.pass(2 * time.Minute)
				writes, _ := l.plan()
				if got := summaries(writes); len(got) > 1 || len(got) == 1 && got[0] != c.then || len(got) == 0 && c.then != "" {
					t.Errorf("it writes %q, want %q", got, c.then)
				}
			})
		})
	}
}

// A refusal other than a conflict is reported, and the write is retried soon.
func TestARefusalIsReportedAndTriedAgain(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		l.refuse(l.one(), http.StatusUnprocessableEntity)
		l.none()
		if l.sent("a", assignmentFailed, "10.1.0.0/24", "422", "refused by the test") != 1 {
			t.Errorf("%v", l.events)
		}
		l.pass(backoff.First)
		l.done(l.one(), 11)
	})
}

// A fence that the server refuses holds up every Node, so an event names the Node.
func TestARefusedFenceIsReported(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		l.Lead(election.Term{Number: 2})
		l.refuse(l.one(), http.StatusUnprocessableEntity)
		if l.sent("a", assignmentFailed, "no Node gets podCIDRs", "422") != 1 {
			t.Errorf("%v", l.events)
		}
	})
}

// A Node that is deleted while its write is in flight, and perhaps re-created, gets the
// podCIDRs that the write did not set.
func TestADeletedNodeGivesItsBlockBack(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		w := l.one()
		l.delete("a")
		l.shows("a", "2", 12)
		l.none() // it may be made
		l.refuse(w, conflict)
		l.pass(2 * time.Minute)
		w = l.one()
		if w.Object.UID != "2" || l.requires(w) != "12" {
			t.Errorf("%v, of version %s", w.Object, l.requires(w))
		}
		// Deleted and created in one step.
		l.shows("a", "3", 14)
		l.none()
		l.Done(w, errLost)
		l.pass(2 * time.Minute)
		if w = l.one(); w.Object.UID != "3" {
			t.Errorf("%v", w.Object)
		}
		l.delete("a")
		l.Done(w, errLost)
		l.pass(2 * time.Minute)
		l.none()
		if r := l.Report(time.Now()); r.Pools[0].Free != 1 || r.Nodes != 0 || r.Waiting != 0 || len(l.attempts) != 0 {
			t.Errorf("%+v, attempts %v", r, l.attempts)
		}
	})
}

func TestANodeThatIsBeingDeletedGetsNothing(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		v := stateOf("a", "1", 10)
		v.Deleting = true
		l.set("a", v)
		l.none()
		if r := l.Report(time.Now()); r.Waiting != 0 || r.Nodes != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// A write that was not begun keeps no block.
func TestAWriteThatWasNotMadeKeepsNothing(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		for range 3 {
			w := l.one()
			l.Done(w, controller.ErrNotMade)
		}
		if r := l.Report(time.Now()); r.Pools[0].Free != 1 || len(l.attempts) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A term that does not begin cleanly first changes every Node without podCIDRs. It gives
// out blocks once each of them has changed, by any writer.
func TestAFenceComesBeforeEveryBlock(t *testing.T) {
	run(t, "10.1.0.0/20", func(l *lab) {
		l.shows("has", "0", 9, "10.1.15.0/24")
		for i := range 5 {
			l.shows(fmt.Sprint("n", i), fmt.Sprint(i), int64(10+i))
		}
		l.Lead(election.Term{Number: 2})
		if l.Clean() {
			t.Error("clean before the fence")
		}
		writes, _ := l.plan()
		if len(writes) != 5 {
			t.Fatalf("%v", summaries(writes))
		}
		byName := make(map[string]controller.Write)
		for _, w := range writes {
			if !l.attempts[w.Object.Name].isFence() {
				t.Errorf("%s", w.Summary)
			}
			byName[w.Object.Name] = w
		}
		l.shows("new", "9", 50) // the last leader cannot know it
		l.done(byName["n0"], 60)
		l.refuse(byName["n1"], conflict) // which proves nothing before the watch shows it
		l.refuse(byName["n2"], http.StatusNotFound)
		l.shows("n3", "3", 61) // by another
		l.Done(byName["n3"], errLost)
		l.none()
		l.Done(byName["n4"], errLost)
		l.none()
		if l.Clean() || l.Report(time.Now()).Fences != 3 {
			t.Errorf("clean %t, %d fences are left", l.Clean(), l.Report(time.Now()).Fences)
		}
		l.shows("n1", "1", 63)
		l.delete("n2")
		l.pass(backoff.First)
		again := l.one()
		if again.Object.Name != "n4" || !l.attempts["n4"].isFence() {
			t.Fatalf("%v", summaries([]controller.Write{again}))
		}
		l.done(again, 62)
		if !l.Clean() {
			t.Error("not clean after the fence")
		}
		writes, _ = l.plan()
		if len(writes) != 5 {
			t.Errorf("%v", summaries(writes))
		}
		required := make(map[string]string)
		for _, w := range writes {
			required[w.Object.Name] = l.requires(w)
		}
		if required["n0"] != "60" || required["n3"] != "61" || required["n4"] != "62" || required["n1"] != "63" {
			t.Errorf("the writes require %v", required)
		}
	})
}

// A new term forgets what the last one had in flight.
func TestANewTermBeginsWithNothingInFlight(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.shows("a", "1", 10)
		l.Done(l.one(), errLost)
		l.Lead(election.Term{Number: 2, Clean: true})
		if w := l.one(); l.requires(w) != "10" {
			t.Errorf("it requires %s", l.requires(w))
		}
	})
}

// Answers whose resourceVersion is no number count, too.
func TestResourceVersionsNeedNotBeNumbers(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		show := func(version string) {
			l.set("a", node{Node: stateOf("a", "1", 0).Node, version: version})
		}
		show("x")
		l.Lead(election.Term{Number: 2})
		w := l.one()
		l.attempts["a"].answer.ResourceVersion = "y"
		l.Done(w, nil)
		if w = l.one(); l.requires(w) != "y" {
			t.Errorf("it requires %q", l.requires(w))
		}
	})
}

// The range 10.1.0.0/16 has 256 blocks. Each Node beyond them gets an event with the
// numbers, and the oldest of them the first block that is free again.
func TestTheLastBlockAndBeyond(t *testing.T) {
	run(t, "10.1.0.0/16", func(l *lab) {
		const blocks, more = 256, 3
		version, given := int64(1), make(map[string]string)
		for i := range blocks + more {
			version++
			v := stateOf(fmt.Sprintf("n%03d", i), fmt.Sprint(i), version)
			v.Created = int64(i)
			l.set(v.Name, v)
		}
		for writes, _ := l.plan(); len(writes) > 0; writes, _ = l.plan() {
			for _, w := range writes {
				version++
				if other := given[w.Summary]; other != "" {
					t.Errorf("%s and %s: %s", other, w.Object.Name, w.Summary)
				}
				given[w.Summary] = w.Object.Name
				l.done(w, version)
			}
		}
		if len(given) != blocks {
			t.Errorf("%d blocks were given", len(given))
		}
		l.pass(time.Second)
		l.none()
		for i := blocks; i < blocks+more; i++ {
			name := fmt.Sprintf("n%03d", i)
			if l.sent(name, notAvailable, "256 of 256 used, 0 free, 0 resting, 0 reserved", "delete Nodes") == 0 {
				t.Errorf("%s has no event", name)
			}
		}
		if r := l.Report(time.Now()); r.Waiting != more || r.Pools[0].Free != 0 {
			t.Errorf("%+v", r)
		}
		l.delete("n007")
		l.pass(2 * time.Minute)
		w := l.one()
		if w.Object.Name != "n256" || given[w.Summary] != "n007" {
			t.Errorf("%s gets %s, which was %s's", w.Object.Name, w.Summary, given[w.Summary])
		}
		if !slices.ContainsFunc(l.events, func(e controller.Event) bool { return e.Object.Name == "n258" }) {
			t.Error("the last Node has no event")
		}
	})
}

// A list that waited for the loop while the next one began is older than a write that
// ended in between. The Node keeps its block, which goes to no other Node.
func TestAListThatWaitedDoesNotUndoAWrite(t *testing.T) {
	run(t, "10.1.0.0/24", func(l *lab) {
		l.lists = 1
		l.shows("a", "1", 10)
		l.done(l.one(), 11)
		l.lists = 2
		l.list(1, map[string]node{"a": stateOf("a", "1", 10), "b": stateOf("b", "2", 9)})
		l.none()
		l.list(2, map[string]node{"a": stateOf("a", "1", 11, "10.1.0.0/24"), "b": stateOf("b", "2", 9)})
		l.none()
		if r := l.Report(time.Now()); r.Waiting != 1 || r.Pools[0].Used != 1 {
			t.Errorf("%+v", r)
		}
	})
}
