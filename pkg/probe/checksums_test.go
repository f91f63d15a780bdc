package probe

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// losing returns a function that reports true for a part of the packets. Each kind of
// packet to each peer has random numbers of its own: in whatever order the packets of
// a wave are sent, as many of each kind are lost in each run.
func losing(percent int) func(Try) bool {
	var mu sync.Mutex
	random := make(map[Try]*rand.Rand)
	return func(t Try) bool {
		mu.Lock()
		defer mu.Unlock()
		if random[t] == nil {
			seed := fnv.New64()
			fmt.Fprintf(seed, "%+v", t)
			random[t] = rand.New(rand.NewPCG(seed.Sum64(), uint64(percent)))
		}
		return random[t].IntN(100) < percent
	}
}

// TestLossIsNoEvidence loses packets of every kind at random, as a flooded host does.
// Whatever part of them is lost, no finding about checksums follows.
func TestLossIsNoEvidence(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		for percent := 10; percent < 100; percent += 10 {
			lost := losing(percent)
			for range 100 {
				f := diagnose(t.Context(), passing(func(t Try) bool { return t.Kind == Ping || !lost(t) }), by("tulle.1"), way("a"))
				if f.Cause == Checksums || f.Cause == PeerChecksums {
					t.Errorf("%d%% lost: %s", percent, f.Why())
				}
			}
		}
	})
}

// TestOddsOfFalseEvidence works out how often random losses look like broken checksums:
// the first tries and all packets with a checksum are lost, and nearly all others
// return. At the worst rate that is one diagnosis in 30,000, and less than one in 10^13
// in as many rounds as a proof takes.
func TestOddsOfFalseEvidence(t *testing.T) {
	worst := 0.0
	for percent := 1; percent < 100; percent++ {
		lost := float64(percent) / 100
		returned := 0.0
		for i, ways := 0, 1.0; i <= all-nearly; i++ {
			returned += ways * math.Pow(lost, float64(i)) * math.Pow(1-lost, float64(all-i))
			ways = ways * float64(all-i) / float64(i+1)
		}
		worst = max(worst, math.Pow(lost, tries+all)*returned)
	}
	if worst > 1.0/30_000 || math.Pow(worst, proof) > 1e-13 {
		t.Errorf("one false finding in %.0f, one false proof in %.0g", 1/worst, math.Pow(worst, -proof))
	}
}

// TestSilenceIsNoEvidence answers for some moments, and then not.
func TestSilenceIsNoEvidence(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
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
	bubbletest.Test(t, func(t *testing.T) {
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
				f := diagnose(t.Context(), passing(func(t Try) bool { return !c.breaks(t.Kind) && !lost(t) }), by("tulle.1"), way("a"))
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
