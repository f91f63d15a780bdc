package probe

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// losing returns a function that reports true in a part of its calls, the same calls
// in each run.
func losing(percent int) func() bool {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, uint64(percent)))
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100) < percent
	}
}

// TestLossIsNoEvidence loses packets of every kind at random, as a flooded host does.
// Whatever part of them is lost, no finding about checksums follows.
func TestLossIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for percent := 10; percent < 100; percent += 10 {
			lost := losing(percent)
			for range 100 {
				f := diagnose(t.Context(), passing(func(t Try) bool { return t.Kind == Ping || !lost() }), by("tulle.1"), way("a"))
				if f.Cause == Checksums || f.Cause == PeerChecksums {
					t.Errorf("%d%% lost: %s", percent, f.Why())
				}
			}
		}
	})
}

// TestSilenceIsNoEvidence answers for some moments, and then not.
func TestSilenceIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for silence := range 50 {
			began := time.Now()
			f := diagnose(t.Context(), passing(func(t Try) bool {
				return t.Kind == Ping || time.Since(began) > time.Duration(silence)*100*time.Millisecond
			}), by("tulle.1"), way("a"))
			if f.Cause != Well {
				t.Errorf("silent for %d00 ms: %s", silence, f.Why())
			}
		}
	})
}

// TestFewLossesHideNoBrokenChecksum loses one packet in fifty, on a host that
// breaks checksums.
func TestFewLossesHideNoBrokenChecksum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := losing(2)
		for _, c := range []struct {
			breaks func(Kind) bool
			want   Cause
		}{
			{func(k Kind) bool { return k == UDP || k == HalfBare }, Checksums},
			{func(k Kind) bool { return k == UDP }, PeerChecksums},
		} {
			found := 0
			for range 100 {
				f := diagnose(t.Context(), passing(func(t Try) bool { return !c.breaks(t.Kind) && !lost() }), by("tulle.1"), way("a"))
				if f.Cause == c.want {
					found++
				}
			}
			if found < 95 {
				t.Errorf("%s is found in %d of 100 rounds", c.want, found)
			}
		}
	})
}

// TestFindingIsProvenInRounds finds a cause repeatedly.
func TestFindingIsProvenInRounds(t *testing.T) {
	p := &Prober{}
	find := func(c Cause) Result {
		p.take([]string{"a"}, []Finding{{Path: way("a"), Cause: c}}, time.Now())
		r, _ := p.Of("a")
		return r
	}
	for range 3 {
		for round := 1; round <= proof+1; round++ {
			if r := find(Checksums); r.Proven() != (round >= proof) || r.Rounds != round {
				t.Errorf("round %d: %+v", round, r)
			}
		}
		for range proof + 1 {
			if find(Well).Proven() {
				t.Error("well, and proven to be broken")
			}
		}
		for range proof - 1 {
			find(Checksums)
		}
		if find(PeerChecksums).Proven() || find(Checksums).Proven() {
			t.Error("other causes between prove a cause")
		}
		find(Well)
	}
}
