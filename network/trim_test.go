package network

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/snapshot"
	"github.com/tulle-net/tulle/subnet"
)

// TestMemoryIsTrimmedBetweenPortions: a first list is much work, of which each portion
// leaves memory behind.
func TestMemoryIsTrimmedBetweenPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		onFake(t, onEth0(), `{"Type": "vxlan"}`, func(p *peerSet) {
			trims := 0
			p.trim = func() { trims++ }
			const peers = 3 * portion
			u := subnet.Update{Complete: true}
			for i := range peers {
				key := fmt.Sprintf("10.5.%d.%d-28", i/16+2, i%16*16)
				u.Leases = append(u.Leases, fakePeer(t, key, "198.18.1.1", fmt.Sprintf("3a:00:00:00:%02x:%02x", i>>8, i&255), int64(i)))
			}
			p.Update(u)
			if p.Len() != peers || trims != peers/portion {
				t.Errorf("%d peers, %d trims", p.Len(), trims)
			}
		})
	})
}

// TestMemoryIsTrimmedAroundASave: a save needs parts of the program that nothing else
// needs.
func TestMemoryIsTrimmedAroundASave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.StateDir = t.TempDir()
		var before, after atomic.Int32 // trims, by whether there is a snapshot
		l.trim = func() {
			if _, err := os.Stat(snapshot.Path(l.out.StateDir)); err != nil {
				before.Add(1)
			} else {
				after.Add(1)
			}
		}
		l.peer(9)
		l.start()
		l.after(saveAfter - time.Second)
		idle := before.Load()
		l.after(time.Minute)
		if before.Load() < idle+2 || after.Load() == 0 {
			t.Errorf("%d trims before the save's, %d until its end, and %d after it", idle, before.Load(), after.Load())
		}
	})
}
