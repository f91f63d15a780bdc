package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/traffictest"
)

var udpSoak = flag.Duration("udp-soak", 0, "how long TestUDPSoak sends at full load while peers come and go")

// TestUDPSoak sends all that goes through streams in both directions between two hosts,
// while a third host and recorded leases come and go. No stream breaks, what is gone
// leaves nothing behind, and the daemons do not grow. Without -udp-soak, peers come and go
// once.
func TestUDPSoak(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, `{"Network": "10.5.0.0/16", "Backend": {"Type": "udp"}}`)
	one, two, guest := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	program, lasting := tulled, 2*time.Second
	if *udpSoak > 0 {
		program, lasting = clustertest.Command{Argv: []string{installed(t)}}, *udpSoak
	}
	for _, h := range w.Hosts {
		w.daemons[h] = h.Start(program, w.flags(h)...)
		h.AddPod()
	}
	w.Matrix()
	guestKey := w.key(guest)
	const crowd = 20
	taken, keys := w.leases(), []string(nil)
	for i := 1; len(keys) < crowd; i++ {
		if key := fmt.Sprintf("10.5.%d.0-24", i); taken[key] == "" {
			keys = append(keys, leasesKey+key)
		}
	}
	come := func() {
		for i, key := range keys {
			w.lend(key, fmt.Sprintf(`{"PublicIP": "198.18.99.%d", "BackendType": "udp"}`, i+1))
		}
		w.daemons[guest].Kill()
		w.delete(leasesKey + guestKey)
		w.eventually(func() error { return w.peerRoutes(one, two, crowd+1, crowd+2) })
		for _, key := range keys {
			w.delete(key)
		}
	}
	turn := func() {
		come()
		w.eventually(func() error { return w.peerRoutes(one, two, 1, 1) }) // ten seconds later
		w.restart(guest)
		w.Reach(guest.Pods[0], one.Pods[0])
		w.Reach(two.Pods[0], guest.Pods[0])
	}
	if *udpSoak > 0 {
		turn() // the first one makes the daemons as large as they become
	}
	sizes := func() (text string, files int, memory float64) {
		for _, h := range []*clustertest.Host{one, two} {
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.daemons[h].PID))
			if err != nil {
				t.Fatal(err)
			}
			files += len(open)
			memory += residentNow(t, w.daemons[h])
		}
		return fmt.Sprintf("%d files, %.1f MiB", files, memory), files, memory
	}
	before, files, memory := sizes()

	const streams = 4
	there := traffictest.StartTCP(t, one.Pods[0].NS, two.Pods[0].NS, two.Pods[0].Addr[0].String(), streams, lasting)
	back := traffictest.StartTCP(t, two.Pods[0].NS, one.Pods[0].NS, one.Pods[0].Addr[0].String(), streams, lasting)
	turns := 0
	for began := time.Now(); time.Since(began) < *udpSoak; turns++ {
		turn()
	}
	if *udpSoak == 0 {
		come()
	}
	t.Logf("%.2f Gbit/s there and %.2f back; %d turns", there()/1e9, back()/1e9, turns)
	t.Logf("%s: %v, %s: %v", one.Name, w.movedBy(one, "tulle.udp").Dropped, two.Name, w.movedBy(two, "tulle.udp").Dropped)
	if *udpSoak == 0 {
		return
	}
	const few, growth = 12, 1.5 // connections to etcd, and the collector's room
	w.eventually(func() error { // once a round of probes is over
		now, filesNow, memoryNow := sizes()
		if filesNow > files+few || memoryNow > growth*memory {
			return fmt.Errorf("the daemons have %s, and had %s", now, before)
		}
		t.Logf("the daemons have %s, and had %s", now, before)
		return nil
	})
}

// peerRoutes returns an error unless each of two hosts has routes to so many peers.
func (w *world) peerRoutes(one, two *clustertest.Host, least, most int) error {
	for _, h := range []*clustertest.Host{one, two} {
		routes := 0
		for line := range strings.Lines(h.NS.IP(w.t, "route show dev tulle.udp")) {
			if strings.Contains(line, "/24") {
				routes++
			}
		}
		if routes < least || routes > most {
			return fmt.Errorf("%s has %d routes to peers, not %d to %d", h.Name, routes, least, most)
		}
	}
	return nil
}
