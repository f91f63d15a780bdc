package network

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/snapshot"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestMemoryIsTrimmedBetweenPortions checks that memory is trimmed between the portions
// of a first list, each of which leaves some behind.
func TestMemoryIsTrimmedBetweenPortions(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, manyConfig)
		l.withPeers(3 * portion)
		trimmed := make(map[int]bool) // at these numbers of peers
		l.trim = func() {
			if l.agent.peers != nil { // in the agent's goroutine
				trimmed[l.agent.peers.Len()] = true
			}
		}
		l.start()
		l.soon()
		l.stop()
		if !trimmed[portion] || !trimmed[2*portion] || !trimmed[3*portion] {
			t.Errorf("trimmed with %v peers", trimmed)
		}
	})
}

// TestMemoryIsTrimmedAroundASave checks that memory is trimmed during and after a save,
// which needs parts of the program that nothing else needs.
func TestMemoryIsTrimmedAroundASave(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
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
