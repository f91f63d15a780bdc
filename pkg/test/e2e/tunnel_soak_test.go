package e2e

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/traffictest"
)

var tunnelSoak = flag.Duration("tunnel-soak", 0, "how long TestUDPSoak and TestWireGuardSoak send at full load while peers come and go")

// soaked is a backend whose packets a program moves.
type soaked struct {
	backend, device string
	lease           func(t *testing.T, host int) string
	processes       func(w *world, h *clustertest.Host) []int // that move its packets, and the daemon
	room            float64                                   // MiB that the processes of two hosts may have in any case
}

// TestUDPSoak soaks the backend udp.
func TestUDPSoak(t *testing.T) {
	soakTunnel(t, soaked{
		backend: `{"Type": "udp"}`, device: "tulle.udp",
		lease: func(_ *testing.T, host int) string {
			return fmt.Sprintf(`{"PublicIP": "198.18.99.%d", "BackendType": "udp"}`, host)
		},
		processes: func(w *world, h *clustertest.Host) []int { return []int{w.daemons[h].PID} },
	})
}

// TestWireGuardSoak soaks WireGuard in user space.
func TestWireGuardSoak(t *testing.T) {
	soakTunnel(t, soaked{
		backend: `{"Type": "wireguard", "Implementation": "userspace"}`, device: "tulle-wg",
		lease: func(t *testing.T, host int) string {
			key, err := ecdh.X25519().GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			public := base64.StdEncoding.EncodeToString(key.PublicKey().Bytes())
			return fmt.Sprintf(`{"PublicIP": "198.18.99.%d", "BackendType": "wireguard", "BackendData": {"PublicKey": %q}}`, host, public)
		},
		processes: func(w *world, h *clustertest.Host) []int {
			return []int{w.daemons[h].PID, w.wireguardOf(h, "tulle-wg").PID}
		},
		room: 2 * 150, // the more of its packets wait for a processor, the more it needs
	})
}

// soakTunnel sends all that goes through streams in both directions between two hosts, while a
// third host and recorded leases come and go. No stream breaks, what is gone leaves nothing
// behind, and the programs do not grow. Without -tunnel-soak, peers come and go once.
func soakTunnel(t *testing.T, s soaked) {
	t.Parallel()
	w := newWorld(t, 3, 1, `{"Network": "10.5.0.0/16", "Backend": `+s.backend+`}`)
	one, two, guest := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	program, lasting := tulled, 2*time.Second
	if *tunnelSoak > 0 {
		program, lasting = clustertest.Command{Argv: []string{installed(t)}}, *tunnelSoak
		build(t, "github.com/tulle-net/tulle/pkg/cmd/tulle-wireguard", filepath.Join(filepath.Dir(program.Argv[0]), "tulle-wireguard"))
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
			w.lend(key, s.lease(t, i+1))
		}
		w.daemons[guest].Kill()
		w.delete(leasesKey + guestKey)
		w.eventually(func() error { return w.peerRoutes(s.device, one, two, crowd+1, crowd+2) })
		for _, key := range keys {
			w.delete(key)
		}
	}
	turn := func() {
		come()
		w.eventually(func() error { return w.peerRoutes(s.device, one, two, 1, 1) }) // ten seconds later
		w.restart(guest)
		w.Reach(guest.Pods[0], one.Pods[0])
		w.Reach(two.Pods[0], guest.Pods[0])
	}
	const streams = 4
	send := func(lasting time.Duration) (there, back func() float64) {
		there = traffictest.StartTCP(t, one.Pods[0].NS, two.Pods[0].NS, two.Pods[0].Addr[0].String(), streams, lasting)
		return there, traffictest.StartTCP(t, two.Pods[0].NS, one.Pods[0].NS, one.Pods[0].Addr[0].String(), streams, lasting)
	}
	if *tunnelSoak > 0 { // the first turn makes the programs as large as they become
		there, back := send(30 * time.Second)
		turn()
		there()
		back()
	}
	sizes := func() (text string, files int, memory float64) {
		for _, h := range []*clustertest.Host{one, two} {
			for _, pid := range s.processes(w, h) {
				open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				if err != nil {
					t.Fatal(err)
				}
				files += len(open)
				memory += residentNow(t, pid)
			}
		}
		return fmt.Sprintf("%d files, %.1f MiB", files, memory), files, memory
	}
	before, files, memory := sizes()

	there, back := send(lasting)
	turns := 0
	for began := time.Now(); time.Since(began) < *tunnelSoak; turns++ {
		turn()
	}
	if *tunnelSoak == 0 {
		come()
	}
	t.Logf("%.2f Gbit/s there and %.2f back; %d turns", there()/1e9, back()/1e9, turns)
	for _, h := range []*clustertest.Host{one, two} {
		t.Logf("%s: %s", h.Name, h.NS.IP(t, "-s link show "+s.device))
	}
	if *tunnelSoak == 0 {
		return
	}
	const few, growth = 12, 1.5 // connections to etcd, and the collector's room
	w.eventually(func() error { // once a round of probes is over
		now, filesNow, memoryNow := sizes()
		if filesNow > files+few || memoryNow > max(growth*memory, s.room) {
			return fmt.Errorf("the programs have %s, and had %s", now, before)
		}
		t.Logf("the programs have %s, and had %s", now, before)
		return nil
	})
}

// peerRoutes returns an error unless each of two hosts has routes to so many peers.
func (w *world) peerRoutes(device string, one, two *clustertest.Host, least, most int) error {
	for _, h := range []*clustertest.Host{one, two} {
		routes := 0
		for line := range strings.Lines(h.NS.IP(w.t, "route show dev "+device)) {
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
