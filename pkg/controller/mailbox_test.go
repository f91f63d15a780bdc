package controller

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
)

// thing is an object of a feed in a test.
type thing struct{ name, value string }

// received is what the loop received.
type received struct {
	calls   []string
	flushes int
	now     map[string]string
}

// follow adds a feed of things that a test reads itself.
func (l *lab) follow() (*pipe[thing], *received) {
	got := &received{now: make(map[string]string)}
	other := New(Options{})
	Follow(other, Feed[thing, string]{
		What:  "things",
		Keep:  func(o *thing) (string, string) { return o.name, o.value },
		Begin: func(list int64) { got.calls = append(got.calls, fmt.Sprint("begin ", list)) },
		NumberedList: func(list int64, all map[string]string) {
			got.calls = append(got.calls, fmt.Sprintf("list %d of %d", list, len(all)))
			got.now = maps.Clone(all)
		},
		Set: func(key, value string) {
			got.calls = append(got.calls, "set "+key)
			got.now[key] = value
		},
		Delete: func(key string) {
			got.calls = append(got.calls, "delete "+key)
			delete(got.now, key)
		},
		Flush: func() { got.flushes++ },
	})
	p := other.feeds[0].(*pipe[thing])
	p.engine = l.Engine
	l.post(func() { l.feeds = append(l.feeds, p) })
	synctest.Wait()
	return p, got
}

// busy keeps the loop busy until release is called.
func (l *lab) busy() (release func()) {
	free := make(chan struct{})
	l.post(func() { <-free })
	synctest.Wait()
	return func() { close(free); synctest.Wait() }
}

// TestReaderNeverWaitsForTheLoop: the reader continues however long the loop plans. The loop
// then gets the last state of each object, and plans once.
func TestReaderNeverWaitsForTheLoop(t *testing.T) {
	c := newFake("a", 0)
	run(t, Options{}, func(l *lab) {
		p, got := l.follow()
		l.begin(election.Term{})
		p.Choose(false)
		p.List().Done()
		synctest.Wait()
		release := l.busy()
		plans, calls, flushes := c.plans, len(got.calls), got.flushes
		for i := range 100_000 {
			name := fmt.Sprintf("thing-%d", i%50)
			p.Set(&thing{name, fmt.Sprint(i)})
			if i%3 == 0 {
				p.Delete(&thing{name: name})
			}
		}
		if n := len(p.box.held.changes); n != 50 {
			t.Errorf("%d changes of 50 objects wait", n)
		}
		release()
		if n := len(got.calls) - calls; n != 50 {
			t.Errorf("the loop got %d changes of 50 objects", n)
		}
		if n := got.flushes - flushes; n != 1 {
			t.Errorf("%d flushes of what was taken at once", n)
		}
		if n := c.plans - plans; n > 2 {
			t.Errorf("%d plans for what waited", n)
		}
		want := make(map[string]string)
		for i := 99_950; i < 100_000; i++ {
			if i%3 != 0 {
				want[fmt.Sprintf("thing-%d", i%50)] = fmt.Sprint(i)
			}
		}
		if !maps.Equal(got.now, want) {
			t.Errorf("the loop has %v, want %v", got.now, want)
		}
	}, c)
}

// TestListReplacesWaitingChanges: a list replaces the changes before it. Changes after it are
// applied after it.
func TestListReplacesWaitingChanges(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		p, got := l.follow()
		release := l.busy()
		p.Set(&thing{"early", "1"})
		for _, value := range []string{"1", "2"} {
			list := p.List()
			list.Add(&thing{"kept", value})
			list.Add(&thing{"gone", value})
			list.Done()
		}
		p.Delete(&thing{name: "gone"})
		release()
		if want := []string{"list 0 of 2", "delete gone"}; !slices.Equal(got.calls, want) {
			t.Errorf("the loop got %q, want %q", got.calls, want)
		}
		if want := map[string]string{"kept": "2"}; !maps.Equal(got.now, want) {
			t.Errorf("the loop has %v", got.now)
		}
	})
}

// TestBeginComesBeforeItsList: a list has what was written before its Begin. So the loop gets
// Begin first, and the writes that end between the two in their order.
func TestBeginComesBeforeItsList(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		p, got := l.follow()
		release := l.busy()
		l.post(func() { got.calls = append(got.calls, "a write") })
		p.Choose(false)
		l.post(func() { got.calls = append(got.calls, "a later write") })
		p.List().Done()
		p.Set(&thing{"a", "1"})
		release()
		if want := []string{"a write", "begin 1", "a later write", "list 1 of 0", "set a"}; !slices.Equal(got.calls, want) {
			t.Errorf("the loop got %q, want %q", got.calls, want)
		}
	})
}

// TestWaitingListKeepsItsNumber: while the loop is busy, the next list may begin before the
// loop has taken the last one. Each keeps its own number.
func TestWaitingListKeepsItsNumber(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		p, got := l.follow()
		p.Choose(false)
		synctest.Wait()
		release := l.busy()
		p.List().Done()
		p.Choose(false)
		release()
		p.List().Done()
		synctest.Wait()
		if want := []string{"begin 1", "begin 2", "list 1 of 0", "list 2 of 0"}; !slices.Equal(got.calls, want) {
			t.Errorf("the loop got %q, want %q", got.calls, want)
		}
	})
}

// TestAbsentResourceIsANilList: for a resource that the server does not have, List gets nil,
// not an empty list.
func TestAbsentResourceIsANilList(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		p, _ := l.follow()
		p.optional = true
		var lists []bool // whether each is nil
		p.takers = append(p.takers[:0], Feed[thing, int]{
			Keep: func(o *thing) (string, int) { return o.name, 0 },
			List: func(all map[string]int) { lists = append(lists, all == nil) },
		}.taker())
		p.report(&kube.Error{Code: http.StatusNotFound})
		synctest.Wait()
		p.List().Done()
		synctest.Wait()
		if want := []bool{true, false}; !slices.Equal(lists, want) {
			t.Errorf("the lists are nil: %v, want %v", lists, want)
		}
	})
}

// TestMissingResourceKeepsItsObjects: a server that lacks for a while what it had takes nothing
// away. One that lacks it for longer, or in a new term, does not have it. The next list of it
// is a full one.
func TestMissingResourceKeepsItsObjects(t *testing.T) {
	for name, c := range map[string]struct {
		missing time.Duration
		term    bool // a new one
		gone    bool
	}{
		"for a moment":  {},
		"for a while":   {missing: absentLimit - time.Second},
		"for long":      {missing: absentLimit, gone: true},
		"in a new term": {term: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, func(l *lab) {
				p, got := l.follow()
				p.optional = true
				missing := &kube.Error{Code: http.StatusNotFound}
				p.Choose(false)
				list := p.List()
				list.Add(&thing{"a", "1"})
				list.Done()
				synctest.Wait()
				if c.term {
					p.wanted.Add(1)
				}
				for _, pause := range []time.Duration{0, c.missing} {
					l.pass(pause)
					if _, relist := p.Choose(true); relist != c.term {
						t.Errorf("it lists: %v", relist)
					}
					p.report(missing)
				}
				synctest.Wait()
				if gone := len(got.now) == 0; gone != c.gone || (p.state().Problem == "") != c.gone {
					t.Errorf("it has %v; %+v", got.now, p.state())
				}
				if _, relist := p.Choose(true); relist != c.gone {
					t.Errorf("the next session lists: %v", relist)
				}
				p.report(nil)
				l.pass(absentLimit)
				p.report(missing)
				synctest.Wait()
				if gone := len(got.now) == 0; gone != c.gone {
					t.Errorf("after it came back, it has %v", got.now)
				}
			})
		})
	}
}

// TestTermEndsThePauseForAnAbsentResource: a new term waits for every list, so it ends the
// pause before the next request for an absent resource.
func TestTermEndsThePauseForAnAbsentResource(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		p, _ := l.follow()
		p.optional = true
		began, paused := time.Now(), make(chan time.Duration)
		go func() {
			_ = p.pause(l.t.Context(), 1, &kube.Error{Code: http.StatusNotFound})
			paused <- time.Since(began)
		}()
		l.pass(time.Second)
		p.wanted.Add(1)
		p.again.Wake()
		if took := <-paused; took > time.Second {
			t.Errorf("the pause lasts %v", took)
		}
	})
}

// TestFeedFailureWakesTheLoop: a feed's failure counts as a change.
func TestFeedFailureWakesTheLoop(t *testing.T) {
	changes := 0
	run(t, Options{Changed: func() { changes++ }}, func(l *lab) {
		p, _ := l.follow()
		before := changes
		p.report(fmt.Errorf("no server"))
		l.pass(time.Second)
		if changes == before {
			t.Error("nothing was reported")
		}
	})
}

// TestFeedsOfOneResourceShareAWatch: controllers that follow one resource share its watch, and
// each gets the values that it keeps. Another format needs another watch.
func TestFeedsOfOneResourceShareAWatch(t *testing.T) {
	run(t, Options{}, func(l *lab) {
		p, got := l.follow()
		lengths, begun := make(map[string]int), 0
		other := Feed[thing, int]{
			What: "things", Keep: func(o *thing) (string, int) { return o.name, len(o.value) },
			Begin:  func(int64) { begun++ },
			List:   func(all map[string]int) { lengths = maps.Clone(all) },
			Set:    func(key string, n int) { lengths[key] = n },
			Delete: func(key string) { delete(lengths, key) },
		}
		feeds := len(l.feeds)
		Follow(l.Engine, other)
		if len(l.feeds) != feeds {
			t.Fatalf("%d feeds, want %d", len(l.feeds), feeds)
		}
		p.Choose(false)
		list := p.List()
		list.Add(&thing{"a", "1"})
		list.Add(&thing{"b", "22"})
		list.Done()
		p.Set(&thing{"c", "333"})
		p.Delete(&thing{name: "a"})
		synctest.Wait()
		if want := map[string]string{"b": "22", "c": "333"}; !maps.Equal(got.now, want) || begun != 1 {
			t.Errorf("the first has %v, the second began %d times", got.now, begun)
		}
		if want := map[string]int{"b": 2, "c": 3}; !maps.Equal(lengths, want) {
			t.Errorf("the second has %v", lengths)
		}
		other.Path = "api/v1/others"
		Follow(l.Engine, other)
		if len(l.feeds) != feeds+1 {
			t.Errorf("%d feeds, want another one", len(l.feeds))
		}
		l.feeds = l.feeds[:feeds]
	})
}
