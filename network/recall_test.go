package network

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestSavedPeersArePacedAfterAReboot boots a host while the store is down. The many
// saved peers are applied in portions, like a first list. The node is ready when all
// are applied, and the store's list waits until then.
func TestSavedPeersArePacedAfterAReboot(t *testing.T) {
	const peers = 12 * portion
	for name, back := range map[string]bool{"the store stays down": false, "the store comes back": true} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				l := newLife(t, manyConfig)
				l.out.StateDir = t.TempDir()
				l.withPeers(peers)
				l.start()
				l.after(time.Minute)
				before := l.host.Snapshot()
				l.stop()

				l.host, l.files = newFakeHost(), &fakeFiles{}
				var largest atomic.Int64
				l.host.SetHooks(kerneltest.Hooks{BeforeApply: func(plan netstate.Plan) {
					largest.Store(max(largest.Load(), int64(len(plan))))
					if len(plan) > portion {
						<-time.After(time.Second)
					}
				}})
				l.store.leave()
				l.start()
				l.after(patience + 3*time.Second)
				if v := l.view(); v.Stuck != nil || v.Peers.Count < portion || v.Peers.Count >= peers {
					t.Errorf("%d of %d peers are known: %s", v.Peers.Count, peers, v.Line())
				}
				l.wantReady(false)
				if back {
					l.store.comeBack()
				}
				l.after(time.Minute)
				if most := int64(3 * portion * 3); largest.Load() > most {
					t.Errorf("a plan has %d steps, want %d at most", largest.Load(), most)
				}
				l.wantAll(peers)
				if v := l.view(); v.Remembered.IsZero() != back {
					t.Errorf("the status is %s", v.Line())
				}
				if after := l.host.Snapshot(); !after.Equal(before) {
					t.Error("the kernel differs from that before the reboot")
				}
			})
		})
	}
}
