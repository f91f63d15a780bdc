package probe

import (
	"context"
	"math/rand/v2"
	"sync"
)

// A finding about checksums may change how the host sends. So it needs evidence that
// a flood's random losses hardly ever produce: in one diagnosis of 30,000 at the worst
// rate of losses, and only several such findings in a row are a proof. Packets with and
// without checksums are sent in the same moments, in random order. All of one kind must
// be lost, and nearly all of the other return.
const (
	waves   = 4 // one after the other
	perWave = 2 // packets of each kind
	all     = waves * perWave
	nearly  = all - 1
)

// checksums returns Checksums or PeerChecksums if there is evidence for it, else
// Well.
func (d diagnosis) checksums(ctx context.Context) Cause {
	var returned [HalfBare + 1]int
	for range waves {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, i := range rand.Perm(len(returned) * perWave) {
			kind := Kind(i / perWave)
			wg.Go(func() {
				if _, err := d.once(ctx, kind, small); err == nil {
					mu.Lock()
					defer mu.Unlock()
					returned[kind]++
				}
			})
		}
		wg.Wait()
		if returned[UDP] > 0 || ctx.Err() != nil {
			return Well
		}
	}
	switch {
	case returned[HalfBare] >= nearly:
		return PeerChecksums
	case returned[HalfBare] == 0 && returned[Bare] >= nearly:
		return Checksums
	}
	return Well
}
