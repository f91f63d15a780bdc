package budget

import (
	"math/rand/v2"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

// heals heals one key of a class as often as the account allows, for a while. It returns
// the number of heals and the longest wait.
func heals(a *Account, c *clock, class Class, cost, during time.Duration) (n int, longest time.Duration) {
	last := c.now.Add(-time.Hour)
	for end := c.now.Add(during); c.now.Before(end); n++ {
		at := a.When(c.now, class, last)
		longest = max(longest, at.Sub(c.now))
		c.now = at.Add(cost)
		a.Heal(c.now, cost)
		last = c.now
	}
	return n, longest
}

func TestCheapHealsNeverWait(t *testing.T) {
	c := newClock()
	a := New().Account(KernelLimit, Elapsed)
	for range 100_000 {
		if at := a.When(c.now, Single, c.now); at != c.now {
			t.Fatalf("waits %v", at.Sub(c.now))
		}
		a.Heal(c.now, 290*time.Microsecond)
		c.pass(10 * time.Millisecond)
	}
}

// TestCostIsBounded: whatever one heal costs, all heals together cost at most the share, or
// a turn a second if that is more. The limit of the account bounds both. No wait is longer
// than a turn, as long as the limit allows.
func TestCostIsBounded(t *testing.T) {
	for _, cost := range []time.Duration{
		10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 30 * time.Millisecond,
		100 * time.Millisecond, 190 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
	} {
		for class := range Classes {
			c := newClock()
			during := max(20*time.Second, 200*cost)
			n, longest := heals(New().Account(KernelLimit, Elapsed), c, class, cost, during)
			took := float64(n) * cost.Seconds() / during.Seconds()
			most := max(share, min(cost.Seconds()/Turn.Seconds()+share, KernelLimit))
			if cost >= 5*time.Second {
				most = 1.0 / 2 // it waits LongestWait at most
			}
			if took > most*1.02+(burst+limitBurst+cost).Seconds()/during.Seconds() {
				t.Errorf("%v each, class %d: took %.1f%% of a core", cost, class, 100*took)
			}
			bound := Turn
			if cost > 190*time.Millisecond {
				bound = min(LongestWait, time.Duration(float64(cost)/KernelLimit)) + time.Millisecond
			}
			if longest > bound {
				t.Errorf("%v each, class %d: waited %v", cost, class, longest)
			}
		}
	}
}

// TestHigherClassIsHealedAtOnce: while other programs keep changing keys of a lower class,
// a key of a higher class is healed at once.
func TestHigherClassIsHealedAtOnce(t *testing.T) {
	for class := Link; class < Single; class++ {
		c := newClock()
		a := New().Account(KernelLimit, Elapsed)
		for range 10 {
			heals(a, c, class+1, time.Millisecond, 30*time.Second)
			if at := a.When(c.now, class, c.now); at != c.now {
				t.Errorf("class %d waits %v", class, at.Sub(c.now))
			}
		}
	}
}

// TestChecksCostOnlyTheirAccount: neither a check that found nothing to heal, nor an
// account at its limit, costs another account anything.
func TestChecksCostOnlyTheirAccount(t *testing.T) {
	c := newClock()
	pool := New()
	kernel, firewall := pool.Account(KernelLimit, Elapsed), pool.Account(FirewallLimit, Elapsed)
	for range 100 {
		firewall.Check(c.now, time.Second)
		if at := kernel.When(c.now, Single, c.now); at != c.now {
			t.Fatalf("the kernel's waits %v", at.Sub(c.now))
		}
		c.pass(time.Second)
	}
	if wait := firewall.When(c.now, Link, time.Time{}).Sub(c.now); wait < 5*time.Second || wait > LongestWait {
		t.Errorf("the firewall's waits %v", wait)
	}
}

// TestTimeMayGoBackwards: neither a clock that is set back nor heals out of order do harm.
func TestTimeMayGoBackwards(t *testing.T) {
	c := newClock()
	a := New().Account(KernelLimit, Elapsed)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		now := c.now.Add(time.Duration(rng.IntN(1000)-500) * time.Millisecond)
		if at := a.When(now, Class(rng.IntN(int(Classes))), now.Add(-time.Duration(rng.IntN(2000))*time.Millisecond)); at.Before(now) || at.Sub(now) > LongestWait+time.Second {
			t.Fatalf("at %v: %v", now, at.Sub(now))
		}
		a.Heal(now, time.Duration(rng.IntN(10))*time.Millisecond)
		c.pass(10 * time.Millisecond)
	}
}

// TestProcessorTimeCountsNoWaiting: a meter of processor time counts work and no waiting.
func TestProcessorTimeCountsNoWaiting(t *testing.T) {
	for name, meter := range map[string]Meter{"Processor": Processor, "Commands": Commands} {
		stop := meter()
		<-time.After(50 * time.Millisecond)
		if idle := stop(); idle > 20*time.Millisecond {
			t.Errorf("%s: %v for waiting", name, idle)
		}
		stop = meter()
		n, begin := 0, threadTime()
		for threadTime()-begin < 30*time.Millisecond {
			n++
		}
		if busy := stop(); busy < 30*time.Millisecond {
			t.Errorf("%s: %v for work", name, busy)
		}
	}
	stop := Elapsed()
	<-time.After(10 * time.Millisecond)
	if took := stop(); took < 10*time.Millisecond {
		t.Errorf("Elapsed: %v", took)
	}
}
