package firewall

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// fake is a place for rules that other programs can change.
type fake struct {
	mu    sync.Mutex
	holds Rules
	fails error
	slow  time.Duration
	syncs int
	pokes func()
}

func (f *fake) Sync(ctx context.Context, r Rules) (bool, error) {
	f.mu.Lock()
	f.syncs++
	slow := f.slow
	f.mu.Unlock()
	retry.Sleep(ctx, slow)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return false, f.fails
	}
	changed := !f.holds.Equal(r)
	f.holds = r
	return changed, nil
}

func (f *fake) watch(ctx context.Context, poke func()) error {
	f.mu.Lock()
	f.pokes = poke
	f.mu.Unlock()
	poke()
	<-ctx.Done()
	return ctx.Err()
}

// do changes the rules as another program would, and wakes the watchers.
func (f *fake) do(change func()) {
	f.mu.Lock()
	change()
	poke := f.pokes
	f.mu.Unlock()
	if poke != nil {
		poke()
	}
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.syncs
	f.syncs = 0
	return n
}

func (f *fake) has(r Rules) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holds.Equal(r)
}

func keeping(t *testing.T, f func(t *testing.T, k *Keeper, first, second *fake)) {
	bubbletest.Test(t, func(t *testing.T) {
		first, second := &fake{}, &fake{holds: Rules{Forward: true}}
		tries := 0
		k := NewKeeper(func(context.Context, subnet.Choice) ([]Part, error) {
			if tries++; tries < 5 {
				return nil, errors.New("nothing")
			}
			return []Part{
				{Name: "second", Engine: second},
				{Name: "first", Engine: first, Wants: func(r Rules) Rules { return r }, Watch: first.watch, Every: 5 * time.Minute},
			}, nil
		}, budget.New().Account(budget.FirewallLimit, budget.Elapsed), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		defer running.Wait()
		defer cancel()
		f(t, k, first, second)
	})
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestKeeperWrites(t *testing.T) {
	keeping(t, func(t *testing.T, k *Keeper, first, second *fake) {
		after(time.Hour)
		if err := k.Status().Err; err != nil {
			t.Error(err)
		}
		if first.count()+second.count() > 0 || k.Status().Tried {
			t.Error("something was done before anything was wanted")
		}
		first.do(func() { first.fails = errors.New("no") })
		k.Want(dual())
		after(500 * time.Millisecond) // four waits take at least 750 ms, and at most 1.5 s
		if s := k.Status(); !s.Tried || s.Err == nil || s.Err.Error() != "nothing" {
			t.Errorf("%+v", s)
		}
		after(1500 * time.Millisecond)
		if s := k.Status(); !s.Tried || s.Err == nil || !strings.Contains(s.Err.Error(), "first: no") {
			t.Errorf("%+v", s)
		}
		if second.count() > 0 {
			t.Error("what an earlier run left was removed before there was anything in its place")
		}
		after(time.Hour)
		if n := first.count(); n < 60 || n > 130 {
			t.Errorf("tried %d times in an hour", n)
		}
		first.do(func() { first.fails = nil })
		after(time.Minute)
		if s := k.Status(); s.Err != nil || !first.has(dual()) || !second.has(Rules{}) {
			t.Errorf("%+v", s)
		}
		first.count()
		k.Want(dual())
		after(time.Second)
		if first.count() > 0 {
			t.Error("the same was written again")
		}
		after(time.Hour)
		if n := first.count(); n < 11 || n > 13 {
			t.Errorf("looked %d times in an hour", n)
		}
	})
}

func TestKeeperHeals(t *testing.T) {
	keeping(t, func(t *testing.T, k *Keeper, first, _ *fake) {
		after(time.Minute)
		k.Want(dual())
		after(2 * time.Second)
		first.do(func() { first.holds = Rules{} })
		after(2 * settle)
		if s := k.Status(); !first.has(dual()) || s.Healed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestKeeperHealsThroughFights undoes rules repeatedly, at any rate. They are never
// gone for longer than a turn, and cost their share. The fight is in the status and
// logged once, and everything is restored within a second of its end.
func TestKeeperHealsThroughFights(t *testing.T) {
	const looking = 2 * time.Millisecond
	for _, every := range []time.Duration{10 * time.Second, time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			keeping(t, func(t *testing.T, k *Keeper, first, _ *fake) {
				after(time.Minute)
				k.Want(dual())
				after(2 * time.Second)
				first.count()
				first.do(func() { first.slow = looking })
				log.Take()
				begin, gone := time.Now(), time.Time{}
				var longest time.Duration
				for time.Since(begin) < 30*max(every, time.Second) {
					if first.has(dual()) {
						gone = time.Now()
					}
					first.do(func() { first.holds = Rules{} })
					after(every)
					if first.has(dual()) {
						longest = max(longest, time.Since(gone)-every)
					}
				}
				if longest > budget.Turn+50*time.Millisecond || every >= time.Second && longest > 50*time.Millisecond {
					t.Errorf("gone for %v", longest)
				}
				if share := float64(first.count()) * looking.Seconds() / time.Since(begin).Seconds(); share > 0.03+0.5/time.Since(begin).Seconds() {
					t.Errorf("took %.1f%% of a core", 100*share)
				}
				s := k.Status()
				if f, ok := s.Fights["first"]; !ok || f.Healed < 20 {
					t.Errorf("fights: %v", s.Fights)
				}
				if (s.Err != nil) != (every <= 10*time.Millisecond) {
					t.Errorf("%v", s.Err)
				}
				after(budget.Turn)
				if !first.has(dual()) {
					t.Error("not right within a second of its end")
				}
				after(budget.Quiet + 15*time.Second)
				if s := k.Status(); len(s.Fights) > 0 || s.Err != nil {
					t.Errorf("after the end: %+v", s)
				}
				begun, over := 0, 0
				for _, line := range log.Take() {
					if strings.Contains(line, "keeps changing the firewall's rules") {
						begun++
					}
					if strings.Contains(line, "Other programs no longer change the firewall's rules") {
						over++
					}
				}
				if begun != 1 || over != 1 {
					t.Errorf("logged %d times that it began, and %d times that it ended", begun, over)
				}
			})
		})
	}
}

// TestKeeperLimitsItsCost checks that polling costs a limited share of the time,
// however much other programs change of their rules.
func TestKeeperLimitsItsCost(t *testing.T) {
	keeping(t, func(t *testing.T, k *Keeper, first, _ *fake) {
		after(time.Minute)
		k.Want(dual())
		after(2 * time.Second)
		first.count()
		first.do(func() { first.slow = 10 * time.Millisecond })
		for range 10000 {
			first.do(func() {})
			after(time.Millisecond)
		}
		if n := first.count(); n < 60 || n > 90 {
			t.Errorf("looked %d times in ten seconds", n)
		}
	})
}

func TestKeeperTakesNewRules(t *testing.T) {
	keeping(t, func(t *testing.T, k *Keeper, first, _ *fake) {
		after(time.Minute)
		first.do(func() { first.slow = time.Second })
		k.Want(dual())
		after(2 * time.Second)
		k.Want(Rules{})
		after(time.Millisecond)
		k.Want(Rules{Forward: true}) // while the first is being written
		after(3 * time.Second)
		if s := k.Status(); !first.has(Rules{Forward: true}) || s.Healed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestKeeperRetriesSoonAfterSlowFailure checks that a long wait for another program's
// lock does not lengthen the next wait.
func TestKeeperRetriesSoonAfterSlowFailure(t *testing.T) {
	keeping(t, func(t *testing.T, k *Keeper, first, _ *fake) {
		after(time.Minute)
		first.do(func() { first.fails, first.slow = errors.New("locked"), 10*time.Second })
		k.Want(dual())
		after(12*time.Second + time.Millisecond)
		first.do(func() { first.fails, first.slow = nil, 2*time.Second })
		after(budget.LongestWait + 3*time.Second)
		if !first.has(dual()) {
			t.Error("a failure that took long is not tried again soon")
		}
		first.do(func() { first.holds = Rules{} })
		after(budget.LongestWait + 3*time.Second)
		if !first.has(dual()) {
			t.Error("what others undid after a slow look stays undone")
		}
	})
}

// TestKeeperMovesRulesBetweenParts changes the config so that rules belong elsewhere.
// The keeper removes the old ones when all others are in place, and keeps them as
// long as there is no other place.
func TestKeeperMovesRulesBetweenParts(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var absent error
		places := map[subnet.Choice]*fake{subnet.No: {}, subnet.Yes: {}}
		everything := func(r Rules) Rules { return r }
		k := NewKeeper(func(_ context.Context, c subnet.Choice) ([]Part, error) {
			here, there := places[c], places[subnet.No+subnet.Yes-c]
			if c == subnet.Yes && absent != nil {
				return nil, absent
			}
			return []Part{
				{Name: "earlier", Engine: there, Watch: there.watch},
				{Name: "rules", Engine: here, Wants: everything, Watch: here.watch},
			}, nil
		}, budget.New().Account(budget.FirewallLimit, budget.Elapsed), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		defer running.Wait()
		defer cancel()
		want := func(c subnet.Choice) Rules {
			r := dual()
			r.NFTables = c
			return r
		}
		no, yes := places[subnet.No], places[subnet.Yes]

		k.Want(want(subnet.No))
		after(time.Second)
		if s := k.Status(); s.Err != nil || !no.has(want(subnet.No)) {
			t.Errorf("%+v", s)
		}
		no.do(func() { no.holds = Rules{} })
		after(time.Second)

		absent = errors.New("no nftables")
		k.Want(want(subnet.Yes))
		after(time.Second)
		no.do(func() { no.holds = Rules{} })
		after(time.Second)
		if s := k.Status(); !s.Tried || !errors.Is(s.Err, absent) || s.Healed != 2 || !no.has(want(subnet.Yes)) || !yes.has(Rules{}) {
			t.Errorf("without another place: %+v", s)
		}
		k.Want(want(subnet.No))
		after(time.Second)
		if s := k.Status(); s.Err != nil || s.Healed != 2 {
			t.Errorf("changed back: %+v", s)
		}

		k.Want(want(subnet.Yes))
		after(time.Second)
		absent = nil
		yes.do(func() { yes.fails = errors.New("not now") })
		after(2 * time.Minute)
		if s := k.Status(); s.Err == nil || no.has(Rules{}) {
			t.Errorf("what stood was removed before there was anything in its place: %+v", s)
		}
		yes.do(func() { yes.fails = nil })
		after(2 * time.Minute)
		if s := k.Status(); s.Err != nil || s.Healed != 2 || !yes.has(want(subnet.Yes)) || !no.has(Rules{}) {
			t.Errorf("%+v", s)
		}
		no.count()
		no.do(func() {})
		yes.do(func() { yes.holds = Rules{} })
		after(time.Second)
		if s := k.Status(); s.Healed != 3 || !yes.has(want(subnet.Yes)) || no.count() != 1 {
			t.Errorf("%+v", s)
		}
	})
}
