package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

const (
	floodRate = 50000           // packets a second
	floodTime = 4 * time.Second // more rounds of probes than the detection of broken checksums needs
	floodLoad = 0.05            // of a core, at most
)

// TestFloods floods a daemon's probe port: with requests in the overlay under the
// address of a peer, and on the underlay with requests that ask which subnets it has.
// No host draws a wrong conclusion, and the daemon uses little processor time.
func TestFloods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, vxlan)
	for _, h := range w.Hosts {
		w.start(h, "--probe-interval=1")
	}
	flooded, peer, from := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	for _, h := range w.Hosts {
		w.says(h, "2 peers probed, all answer")
	}
	first := func(h *clustertest.Host) netip.Addr { return netip.MustParsePrefix(w.subnetOf(h)).Addr() }
	const port = 8479
	daemon := w.daemons[flooded]
	quiet := load(daemon, 2*time.Second)
	for name, packet := range map[string][]byte{
		"requests":  newPacket(first(peer), first(flooded), port, "tulle-p?"+strings.Repeat("x", 44)),
		"questions": newPacket(from.Addr[subnet.IPv4], flooded.Addr[subnet.IPv4], port, "tulle-pq"+strings.Repeat("x", 48)),
	} {
		ctx, end := context.WithTimeout(t.Context(), floodTime)
		costs := make(chan float64, 1)
		go func() { costs <- load(daemon, floodTime) - quiet }()
		sent := 0
		from.NS.Do(t, func() (err error) { sent, err = flood(ctx, packet); return err })
		end()
		cost := <-costs
		t.Logf("%s: %.0f a second cost %.1f%% of a core", name, float64(sent)/floodTime.Seconds(), 100*cost)
		if cost > floodLoad {
			t.Errorf("%s: the flood costs %.1f%% of a core", name, 100*cost)
		}
		for _, h := range w.Hosts {
			var r status.Report
			if err := w.commandJSON(h, &r, "status"); err != nil {
				t.Fatal(err)
			}
			if !r.Ready || r.Network.Offload != nil || r.Probes.Known != 2 || len(r.Probes.Failing) > 0 || r.Probes.Failed["checksums"]+r.Probes.Failed["peer-checksums"] > 0 {
				t.Errorf("%s: %s reports %+v and %+v", name, h.Name, r.Probes, r.Network)
			}
			for _, text := range []string{"Probes of a peer fail", "Tunnel breaks checksums"} {
				if log := w.daemons[h].Log(); strings.Contains(log, text) {
					t.Errorf("%s: %s logs\n%s", name, h.Name, log)
				}
			}
		}
	}
}

// load returns the share of a core that a daemon uses within d.
func load(of *clustertest.Daemon, d time.Duration) float64 {
	began, before := time.Now(), of.CPU()
	<-time.After(d)
	return (of.CPU() - before).Seconds() / time.Since(began).Seconds()
}

// newPacket returns an IPv4 packet of UDP without a checksum.
func newPacket(from, to netip.Addr, port uint16, payload string) []byte {
	const ip, udp = 20, 8
	b := make([]byte, ip+udp, ip+udp+len(payload))
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[ip:], 40000)
	binary.BigEndian.PutUint16(b[ip+2:], port)
	binary.BigEndian.PutUint16(b[ip+4:], uint16(udp+len(payload)))
	return append(b, payload...)
}

// flood sends a packet at floodRate until ctx ends, and returns how many it sent.
func flood(ctx context.Context, packet []byte) (sent int, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return 0, fmt.Errorf("open a raw socket: %w", err)
	}
	defer unix.Close(fd)
	to := unix.SockaddrInet4{Addr: [4]byte(slices.Clone(packet[16:20]))}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return sent, nil
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * floodRate); sent < due && ctx.Err() == nil; sent++ {
			if err := unix.Sendto(fd, packet, 0, &to); err != nil && err != unix.ENOBUFS {
				return sent, fmt.Errorf("send: %w", err)
			}
		}
	}
}
