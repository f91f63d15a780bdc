//go:build flannel

package e2e

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// TestFlannelClonesReplaced replaces flanneld with tulled on three hosts that share a
// machine-id, in another order than they joined, under a flood of pings. Each keeps
// its subnet. Over IPv6, containers of flannel's time have an MTU that is too large for
// a vxlan; those that are made later do not.
func TestFlannelClonesReplaced(t *testing.T) {
	for name, config := range flannelConfigs {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1, config)
			for _, h := range w.Hosts {
				h.SetMachineID(imageID)
				w.startFlannel(h)
			}
			for _, h := range w.Hosts {
				h.AddPod()
			}
			for _, h := range w.Hosts[1:] {
				w.answers(w.Hosts[0], h)
			}
			w.answers(w.Hosts[1], w.Hosts[2])
			w.eventually(func() error { return w.allPeers(w.Hosts[2]) })
			leases := w.leases()
			flood := w.floods(w.Hosts[0])
			for _, h := range []*clustertest.Host{w.Hosts[1], w.Hosts[2], w.Hosts[0]} {
				w.daemons[h].Kill()
				w.startKnown(h).WaitLog("Kernel in sync with all peers")
				flood.more(1000)
			}
			flood.wantLost(0)
			now := w.leases()
			for key, value := range leases {
				// What a peer reads of a node is unchanged; tulle only adds to it.
				if !strings.HasPrefix(now[key], strings.TrimSuffix(value, "}")) {
					t.Errorf("the lease %s was %s and is %s", key, value, now[key])
				}
			}
			w.wantClones(2, w.Hosts...)
			w.wantHistory()
			w.reconnected()
		})
	}
}

// reconnected waits until small packets pass between the first pods of all hosts, and
// packets of full size between new ones.
func (w *world) reconnected() {
	w.t.Helper()
	var fresh []*clustertest.Pod
	for i, h := range w.Hosts {
		for _, other := range w.Hosts[:i] {
			w.answers(other, h)
		}
		fresh = append(fresh, h.AddPod())
	}
	for _, from := range fresh {
		for _, to := range fresh {
			if from != to {
				w.Reach(from, to)
			}
		}
	}
}
