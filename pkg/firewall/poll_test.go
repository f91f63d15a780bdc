package firewall

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// pollInterval is the default of --iptables-resync.
const pollInterval = 5 * time.Second

// polling runs a keeper of one part that reports no changes, like legacy iptables.
func polling(t *testing.T, f func(t *testing.T, k *Keeper, polled *fake)) {
	bubbletest.Test(t, func(t *testing.T) {
		polled := &fake{}
		k := NewKeeper(func(context.Context, subnet.Choice) ([]Part, error) {
			return []Part{{Name: "polled", Engine: polled, Wants: func(r Rules) Rules { return r }, Every: pollInterval}}, nil
		}, budget.New().Account(budget.FirewallLimit, budget.Elapsed), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		defer running.Wait()
		defer cancel()
		k.Want(dual())
		after(time.Second)
		polled.count()
		f(t, k, polled)
	})
}

// TestKeeperPollsWithoutWatch checks that the keeper restores within one interval
// what others undid there.
func TestKeeperPollsWithoutWatch(t *testing.T) {
	polling(t, func(t *testing.T, k *Keeper, polled *fake) {
		after(time.Hour)
		if n := polled.count(); n != 720 {
			t.Errorf("polled %d times an hour", n)
		}
		polled.do(func() { polled.holds = Rules{} })
		after(pollInterval + settle)
		if !polled.has(dual()) || k.Status().Healed != 1 {
			t.Errorf("%+v", k.Status())
		}
	})
}

// TestPolledFight checks that polls take a twentieth of the time at most, however
// often others undo polled rules and whatever a poll costs. In a fight they come
// every second, or as often as that limit allows. The status shows how much of the
// time the rules are wrong.
func TestPolledFight(t *testing.T) {
	for _, cost := range []time.Duration{4 * time.Millisecond, 45 * time.Millisecond, 400 * time.Millisecond} {
		for _, every := range []time.Duration{50 * time.Millisecond, time.Second, pollInterval} {
			t.Run(fmt.Sprintf("%v, every %v", cost, every), func(t *testing.T) {
				polling(t, func(t *testing.T, k *Keeper, polled *fake) {
					polled.do(func() { polled.slow = cost })
					begin, right := time.Now(), time.Now()
					var longest time.Duration
					for time.Since(begin) < 10*time.Minute {
						if polled.has(dual()) {
							right = time.Now()
						}
						if len(k.Status().Fights) > 0 && time.Since(begin) > 4*time.Minute {
							longest = max(longest, time.Since(right))
						}
						polled.do(func() { polled.holds = Rules{} })
						after(every)
					}
					n := polled.count()
					if share := float64(n) * cost.Seconds() / time.Since(begin).Seconds(); share > budget.FirewallLimit+0.001 {
						t.Errorf("polls took %.1f %% of the time", 100*share)
					}
					if bound := max(budget.Turn, time.Duration(float64(cost)/budget.FirewallLimit)) + cost + 2*every; longest > bound {
						t.Errorf("gone for %v", longest)
					}
					if f := k.Status().Fights["polled"]; f.Healed < 50 || f.Wrong < 0.4 && every < pollInterval {
						t.Errorf("%d polls, fight %+v", n, f)
					}
					polled.do(func() { polled.slow = 0 })
					after(pollInterval + budget.LongestWait)
					if !polled.has(dual()) {
						t.Error("not restored after the end")
					}
					after(budget.Quiet + pollInterval + budget.LongestWait)
					polled.count()
					after(time.Hour)
					if n := polled.count(); n < 715 || n > 720 {
						t.Errorf("polled %d times an hour after the end", n)
					}
				})
			})
		}
	}
}
