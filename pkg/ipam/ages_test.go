package ipam

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAgesAreThoseOfTheNodesThatAreLeft: after any changes, ages has the remaining Nodes'.
func TestAgesAreThoseOfTheNodesThatAreLeft(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var a ages
		var want []int64
		for range 5000 {
			switch n := rnd.IntN(100); {
			case n < 60:
				created := rnd.Int64N(50)
				a.add(created)
				want = append(want, created)
			case n < 99 && len(want) > 0:
				i := rnd.IntN(len(want))
				a.remove(want[i])
				want = slices.Delete(want, i, i+1)
			default:
				a.inOrder()
			}
			if waits := len(a.came) + len(a.went); waits > len(a.sorted)+mostUnsorted {
				t.Fatalf("%d changes wait of %d", waits, len(a.sorted))
			}
		}
		slices.Sort(want)
		if got := a.inOrder(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}
