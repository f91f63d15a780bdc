package clustertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// BreakChecksums makes the host's interface corrupt what it sends through a tunnel: it
// never computes an inner checksum that the kernel leaves to it. Packets that already
// have their checksum, and packets outside tunnels, leave correctly. Received packets
// are unchanged. Packets are lost during the change.
func (h *Host) BreakChecksums() {
	t := h.c.t
	t.Helper()
	h.spoils.Store(true)
	if h.cut {
		return
	}
	h.cut = true
	// Cut the cable in two near the switch. The test copies the frames from each end to
	// the other.
	near, far := fmt.Sprintf("w%d", h.Number), fmt.Sprintf("x%d", h.Number)
	batch(t, h.c.link,
		fmt.Sprintf("link set %s nomaster", h.port),
		// Copy packets as they are on a wire, without merging several into one.
		fmt.Sprintf("link add %s mtu 65535 gso_max_segs 1 type veth peer name %s mtu 65535 gso_max_segs 1", near, far))
	batch(t, h.NS, "link set "+Uplink+" gso_max_segs 1")
	// Only the host and the switch send on the cable.
	for _, end := range []string{h.port, near} {
		h.c.link.Sysctl(t, "net/ipv6/conf/"+end+"/disable_ipv6", "1")
	}
	batch(t, h.c.link, "link set "+near+" up", fmt.Sprintf("link set %s master br0 up", far))

	w := &wire{}
	for _, end := range []string{h.port, near} {
		s, err := newPacketSocket(h.c.link.Path, end)
		if err != nil {
			w.end()
			t.Fatal(err)
		}
		w.ends = append(w.ends, s)
	}
	h.c.mu.Lock()
	h.c.wires = append(h.c.wires, w)
	h.c.mu.Unlock()
	w.copy(t.Errorf, w.ends[0], w.ends[1], func(b []byte) {
		if h.spoils.Load() {
			corrupt(b)
		}
	})
	w.copy(t.Errorf, w.ends[1], w.ends[0], func([]byte) {})
}

// RestoreChecksums undoes BreakChecksums.
func (h *Host) RestoreChecksums() { h.spoils.Store(false) }

// wire copies frames from each of its ends to the other.
type wire struct {
	ends []*os.File
	wg   sync.WaitGroup
}

// copy copies until the wire ends. It calls change with each frame, which follows the
// kernel's header.
func (w *wire) copy(report func(string, ...any), from, to *os.File, change func([]byte)) {
	w.wg.Go(func() {
		buffer := make([]byte, toldSize+64<<10)
		for {
			n, err := from.Read(buffer)
			switch {
			case errors.Is(err, unix.ENETDOWN): // the interface was unplugged
			case errors.Is(err, os.ErrClosed):
				return
			case err != nil:
				report("a cable that copies frames: %v", err)
				return
			default:
				change(buffer[:n])
				// A frame that cannot be sent, for example when unplugged, is lost as on any cable.
				_, _ = to.Write(buffer[:n])
			}
		}
	})
}

func (w *wire) end() {
	for _, s := range w.ends {
		s.Close()
	}
	w.wg.Wait()
}

// newPacketSocket opens a socket in the namespace at path for all frames that arrive
// on one of its interfaces.
func newPacketSocket(path, name string) (s *os.File, err error) {
	err = Inside(path, func() error {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		s = os.NewFile(uintptr(fd), "cable")
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // in network order
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: iface.Index}))
		if err != nil {
			s.Close()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a socket on %s in %s: %w", name, path, err)
	}
	return s, nil
}

// Before each frame is the kernel's header, a struct virtio_net_hdr.
const (
	toldSize   = 10
	needsSum   = 1 // of the flags, at 0
	startField = 6 // where the checksummed part of the frame begins
)

// corrupt clears the flag in the kernel's header that a frame needs a checksum, unless
// that is the checksum of the outermost IP packet.
func corrupt(b []byte) {
	const ethernet = 14
	if len(b) < toldSize+ethernet+1 || b[0]&needsSum == 0 {
		return
	}
	var plain int
	switch ip := b[toldSize+ethernet]; ip >> 4 {
	case 4:
		plain = ethernet + int(ip&15)*4
	case 6:
		plain = ethernet + 40
	}
	if int(binary.NativeEndian.Uint16(b[startField:])) != plain {
		clear(b[:toldSize])
	}
}
