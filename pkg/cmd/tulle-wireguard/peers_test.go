package main

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"
)

// connect returns a client of a device, which ends with the test.
func connect(t *testing.T, d *device.Device, p *peers) io.ReadWriter {
	t.Helper()
	ours, theirs := net.Pipe()
	go d.IpcHandle(&client{Conn: theirs, device: d, peers: p})
	t.Cleanup(func() { ours.Close() })
	return ours
}

// request sends a request in pieces of some size, and reads the answer.
func request(t *testing.T, c io.ReadWriter, text string, piece int) string {
	t.Helper()
	go func() {
		for piece := range slices.Chunk([]byte(text), piece) {
			if _, err := c.Write(piece); err != nil {
				t.Error(err)
			}
		}
	}()
	return answer(c)
}

// peerKey returns the line with the key of a peer.
func peerKey(n int) string { return fmt.Sprintf("public_key=%064x\n", n) }

// TestPeersAreKnown: those that the device has, after any request.
func TestPeersAreKnown(t *testing.T) {
	for _, piece := range []int{1, 7, 100, 1 << 20} {
		d := device.NewDevice(tuntest.NewChannelTUN().TUN(), conn.NewStdNetBind(), device.NewLogger(device.LogLevelSilent, ""))
		t.Cleanup(d.Close)
		p := newPeers()
		c := connect(t, d, p)
		for _, step := range []struct {
			request string
			fails   bool
			want    []int
		}{
			{request: "set=1\n" + peerKey(1) + "allowed_ip=10.5.1.0/24\n" + peerKey(2) + "\n", want: []int{1, 2}},
			{request: "set=1\n" + peerKey(2) + "update_only=true\n" + peerKey(3) + "update_only=true\n\n", want: []int{1, 2}},
			{request: "get=1\n\n", want: []int{1, 2}},
			{request: "set=1\n" + peerKey(1) + "remove=true\n" + peerKey(4) + "\n", want: []int{2, 4}},
			{request: "set=1\nreplace_peers=true\n" + peerKey(4) + peerKey(5) + "\n", want: []int{4, 5}},
			{request: "set=1\n" + peerKey(6) + strings.Repeat("x", 1000) + peerKey(7) + "\n", fails: true, want: []int{4, 5, 6}},
		} {
			if got := request(t, c, step.request, piece); strings.HasSuffix(got, "errno=0\n\n") == step.fails {
				t.Errorf("%q is answered by %q", step.request, got)
			}
			var has []int
			p.mu.Lock()
			for key, peer := range p.all {
				if d.LookupPeer(key) != peer {
					t.Errorf("%x is not the device's", key)
				}
				has = append(has, int(key[len(key)-1]))
			}
			p.mu.Unlock()
			if slices.Sort(has); !slices.Equal(has, step.want) {
				t.Errorf("after %q in pieces of %d it knows %v, not %v", step.request, piece, has, step.want)
			}
			if step.fails { // such a request ends the connection's use: what follows it is read as requests
				break
			}
		}
	}
}

// TestFloodToPeerAway takes little memory. By itself, the device keeps 16,384 packets for each peer
// without a session, and 64 KiB for each packet.
func TestFloodToPeerAway(t *testing.T) {
	h := newHost(t)
	p := newPeers()
	var d *device.Device
	h.ns.Do(t, func() error {
		outer, err := open(tunName)
		if err != nil {
			return err
		}
		inner, sockets, err := joined(outer, p.drop)
		if err != nil {
			return err
		}
		d = device.NewDevice(inner, sockets, device.NewLogger(device.LogLevelSilent, ""))
		t.Cleanup(d.Close)
		return d.Up()
	})
	away := "endpoint=198.18.0.2:51820\nallowed_ip=10.5.2.0/24\n"
	request(t, connect(t, d, p), "set=1\nprivate_key="+private+"\n"+peerKey(9)+away+"\n", 1<<20)
	h.ns.IP(t, "addr add 198.18.0.1/15 dev lo")
	h.ns.IP(t, "addr add 10.5.1.1/16 dev "+tunName)
	before, most := heap(), 0
	h.ns.Do(t, func() error {
		c, err := net.Dial("udp", "10.5.2.1:9")
		if err != nil {
			return err
		}
		defer c.Close()
		for n := range 60000 {
			if _, err := c.Write(make([]byte, 100)); err != nil {
				return err
			}
			if n%5000 == 0 {
				most = max(most, heap())
			}
		}
		return nil
	})
	if used := max(most, heap()) - before; used > 100<<20 {
		t.Errorf("the flood took %d MiB", used>>20)
	}
}

// heap returns how much memory is used, without what was.
func heap() int {
	runtime.GC()
	runtime.GC() // what pools have held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse)
}
