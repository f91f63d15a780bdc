package kernel

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// tunFile is where the kernel makes TUN devices, and hands over their packets.
const tunFile = "/dev/net/tun"

// tunFlags are of a TUN device that hands over bare packets of any size. The devices of
// the kinds differ in whether they have several queues: to one with a single queue, one
// program at a time can attach.
const tunFlags = netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR

// tunKind returns the kind for which createTUN would have made a device.
func tunKind(t *netlink.Tuntap) (kind string, ours bool) {
	switch {
	case t.Mode != netlink.TUNTAP_MODE_TUN || t.Flags&tunFlags != tunFlags || t.NonPersist:
		return "", false
	case t.Flags&netlink.TUNTAP_MULTI_QUEUE != 0:
		return netstate.TunnelUDP, true
	}
	return netstate.TunnelWireGuardTUN, true
}

// flagsOf returns the flags of a kind of TUN devices.
func flagsOf(kind string) uint16 {
	flags := uint16(unix.IFF_TUN) | uint16(tunFlags)
	if kind == netstate.TunnelUDP {
		flags |= unix.IFF_MULTI_QUEUE
	}
	return flags
}

// createTUN creates a device that outlives the programs that use it.
func (k *Kernel) createTUN(l netstate.Link) error {
	err := inNamespace(k.namespace, func() error {
		fd, err := unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return openTUN(err)
		}
		defer unix.Close(fd)
		request, err := unix.NewIfreq(l.Name)
		if err != nil {
			return err
		}
		request.SetUint16(flagsOf(l.Kind) | unix.IFF_TUN_EXCL)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return os.NewSyscallError("TUNSETIFF", err)
		}
		// Every user could attach to a device without an owner, and take its packets.
		if err := unix.IoctlSetInt(fd, unix.TUNSETOWNER, os.Geteuid()); err != nil {
			return os.NewSyscallError("TUNSETOWNER", err)
		}
		return os.NewSyscallError("TUNSETPERSIST", unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1))
	})
	if err != nil {
		return fmt.Errorf("link %s: %w", l.Name, err)
	}
	is, index, err := k.link(l.Name)
	if err != nil {
		return err
	}
	if err := k.lengthenQueue(index); err != nil {
		return err
	}
	return k.changeLink(l, is, index)
}

// openTUN says what to do about err, with which the file of all TUN devices was not opened.
func openTUN(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("open %s: %w: the kernel does not support tun devices; load or install its module, and give a container the file", tunFile, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("open %s: %w: allow the service or the container this device", tunFile, err)
	}
	return fmt.Errorf("open %s: %w", tunFile, err)
}

// tunQueue is how many packets wait for a program that moves them. The kernel's 500 are
// the work of two milliseconds.
const tunQueue = 4096

func (k *Kernel) lengthenQueue(index int) error {
	c := k.conn
	c.out.reset()
	c.out.begin(unix.RTM_NEWLINK, unix.NLM_F_ACK, c.nextSeq())
	c.out.bytes(unix.AF_UNSPEC, 0, 0, 0)
	c.out.uint32(uint32(index))
	c.out.uint32(0)
	c.out.uint32(0)
	c.out.attrUint32(unix.IFLA_TXQLEN, tunQueue)
	c.out.end()
	return c.await()
}
