package budget

import (
	"math"
	"testing"
	"time"
)

// TestFightBeginsAndEnds: some heals in a row begin a fight, which has a rate and the part
// of the time in which the key was wrong. It ends after a while without heals.
func TestFightBeginsAndEnds(t *testing.T) {
	for _, every := range []time.Duration{50 * time.Second, 10 * time.Second, time.Second, 10 * time.Millisecond, time.Millisecond} {
		for _, wrong := range []float64{0.001, 0.2, 0.9} {
			c := newClock()
			var f Fights[string]
			begun := 0
			for n := range 200 {
				c.pass(every)
				if f.Heal("key", c.now.Add(-time.Duration(wrong*float64(every))), c.now) {
					begun = n + 1
				}
				if f.Sweep(c.now); f.Fought("key") != (n+1 >= patience) {
					t.Fatalf("every %v: a fight after %d: %t", every, n+1, f.Fought("key"))
				}
			}
			got, ok := f.Of("key", c.now)
			if !ok || begun != patience || got.Healed != 200 {
				t.Errorf("every %v: %+v, begun at %d", every, got, begun)
			}
			if want := 1 / every.Seconds(); math.Abs(got.Rate-want) > want/50 {
				t.Errorf("every %v: %v a second", every, got.Rate)
			}
			if math.Abs(got.Wrong-wrong) > 0.02 || got.Lost() != (wrong > 0.5) {
				t.Errorf("every %v: wrong %v of the time, not %v", every, got.Wrong, wrong)
			}
			c.pass(Quiet - time.Second)
			if over := f.Sweep(c.now); len(over) > 0 || len(f.All(c.now)) != 1 {
				t.Errorf("over too soon: %v", over)
			}
			c.pass(sweepEvery)
			if over := f.Sweep(c.now); over["key"].Healed != 200 || len(f.All(c.now)) != 0 {
				t.Errorf("every %v: over: %v", every, over)
			}
			if _, ok := f.Due(); ok {
				t.Error("something is left")
			}
		}
	}
}

func TestSingleHealsAreNoFight(t *testing.T) {
	c := newClock()
	var f Fights[int]
	for n := range 1000 {
		if f.Heal(n, c.now, c.now) || f.Heal(-1, c.now, c.now) {
			t.Fatalf("a fight after %d", n)
		}
		c.pass(Quiet + sweepEvery)
		f.Sweep(c.now)
	}
	if len(f.rows) > 0 {
		t.Errorf("%d rows are left", len(f.rows))
	}
}

// TestAcquittedKeyRestartsFromZero: Acquit forgets the heals of a key, but no fight.
func TestAcquittedKeyRestartsFromZero(t *testing.T) {
	c := newClock()
	var f Fights[int]
	for range patience {
		f.Heal(1, c.now, c.now)
	}
	for range 10 * patience {
		f.Heal(2, c.now, c.now)
		f.Acquit(func(int) bool { return true })
	}
	if !f.Fought(1) || f.Fought(2) {
		t.Errorf("fights over %v", f.All(c.now))
	}
}

// TestRateReadsAsWords checks the words for the rate of a fight.
func TestRateReadsAsWords(t *testing.T) {
	for rate, want := range map[float64]string{0: "seldom", 0.1: "once in 10 s", 0.2: "once in 5 s", 1: "once a second", 12.4: "12 times a second"} {
		if got := Rate(rate); got != want {
			t.Errorf("%v: %q", rate, got)
		}
	}
}
