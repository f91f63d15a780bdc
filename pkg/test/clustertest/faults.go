package clustertest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

// unusedMAC is a MAC that no host has.
const unusedMAC = "02:ff:ff:ff:ff:ff"

// Cut drops all packets from the host to one address of the underlay without an error,
// as a broken network does, until Heal is called.
func (h *Host) Cut(a netip.Addr) {
	h.c.t.Helper()
	batch(h.c.t, h.NS, neighbour(a, unusedMAC))
}

// Heal undoes Cut.
func (h *Host) Heal(a netip.Addr) {
	h.c.t.Helper()
	if h.c.opts.StaticNeighbours {
		for _, peer := range h.c.Hosts {
			if peer.Addr[subnet.FamilyOf(a)] == a {
				batch(h.c.t, h.NS, neighbour(a, peer.mac))
				return
			}
		}
	}
	batch(h.c.t, h.NS, fmt.Sprintf("neigh del %s dev %s", a, Uplink))
}

// Unplug pulls the host's cable at the switch, so the host's interface loses its
// carrier.
func (h *Host) Unplug() {
	h.c.t.Helper()
	batch(h.c.t, h.c.link, "link set "+h.port+" down")
}

// Plug puts the cable back.
func (h *Host) Plug() {
	h.c.t.Helper()
	batch(h.c.t, h.c.link, "link set "+h.port+" up")
}

// Narrow makes the switch drop packets to the host that are larger than an MTU,
// without an ICMP error.
func (h *Host) Narrow(mtu int) {
	h.c.t.Helper()
	batch(h.c.t, h.c.link, fmt.Sprintf("link set %s mtu %d", h.port, mtu))
}

// Readdress replaces the host's addresses with those of another number, as DHCP may.
// For a moment, the addresses and routes are gone. The host keeps its name and its
// Number. With StaticNeighbours, other hosts resolve the new address by ARP.
func (h *Host) Readdress(number int) {
	h.c.t.Helper()
	if number < 1 || number > MaxHost {
		h.c.t.Fatalf("there is no address of a host %d: hosts are numbered 1 to %d", number, MaxHost)
	}
	var lines []string
	for f, a := range h.Addr {
		lines = append(lines, fmt.Sprintf("addr del %s/%d dev %s", a, underlay[f].Bits(), Uplink))
	}
	h.Addr = addressesOf(number)
	batch(h.c.t, h.NS, append(lines, h.addressing()...)...)
}

// diskSize is the size of a host's disk, which is enough for a daemon's files.
const diskSize = "4m"

// mount mounts the host's disk. Daemons see it, because their view of the machine's
// files is made later.
func (h *Host) mount() {
	h.c.t.Helper()
	if err := os.Mkdir(h.Dir, 0o755); err != nil {
		h.c.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", h.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size="+diskSize+",mode=755"); err != nil {
		h.c.t.Fatalf("mount a disk for %s: %v", h.Name, err)
	}
	h.c.t.Cleanup(func() {
		// The mount namespace of a daemon that has just ended may still contain it.
		if err := unix.Unmount(h.Dir, unix.MNT_DETACH); err != nil {
			h.c.t.Errorf("unmount the disk of %s: %v", h.Name, err)
		}
	})
}

func (h *Host) filler() string { return filepath.Join(h.Dir, "filler") }

// FillDisk fills the host's disk. Files can still be created, but not written.
func (h *Host) FillDisk() {
	h.c.t.Helper()
	f, err := os.OpenFile(h.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.c.t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, os.Getpagesize())
	for err == nil {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		h.c.t.Fatalf("fill the disk of %s: %v", h.Name, err)
	}
}

// FreeDisk undoes FillDisk.
func (h *Host) FreeDisk() {
	h.c.t.Helper()
	if err := os.Remove(h.filler()); err != nil {
		h.c.t.Fatal(err)
	}
}
