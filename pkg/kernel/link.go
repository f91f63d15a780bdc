package kernel

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// applyLink creates, changes or removes one device.
func (k *Kernel) applyLink(v netstate.Verb, l netstate.Link) error {
	if l.Kind == netstate.TunnelWireGuard && v != netstate.Delete {
		return k.applyWireGuard(l)
	}
	is, index, err := k.link(l.Name)
	missing := errors.Is(err, syscall.ENODEV)
	switch {
	case err != nil && !missing:
		return err
	case v == netstate.Delete && missing:
		return nil
	case v == netstate.Delete:
		return k.deleteLink(l.Name, index)
	case missing:
		return k.createLink(l)
	case is.CanBecome(l):
		return k.changeLink(l, is, index)
	}
	// Everything on the device goes with it; the plan adds it to the new one.
	if err := k.deleteLink(l.Name, index); err != nil {
		return err
	}
	return k.createLink(l)
}

// link reads the present state of one device, with its index.
func (k *Kernel) link(name string) (netstate.Link, int, error) {
	index, err := k.conn.index(name)
	if err != nil {
		return netstate.Link{}, 0, err
	}
	names, err := k.conn.names()
	if err != nil {
		return netstate.Link{}, 0, err
	}
	var l netstate.Link
	err = k.conn.dumpLinks(func(b []byte) {
		if i, _ := linkName(b); i == index {
			l, _ = decodeLink(b, names)
		}
	})
	return l, index, err
}

func (k *Kernel) createLink(l netstate.Link) error {
	if netstate.TunnelOf(l.Kind).UserSpace {
		return k.createTUN(l)
	}
	lower := 0
	if l.Lower != "" {
		var err error
		if lower, err = k.conn.index(l.Lower); err != nil {
			return err
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Group = l.Name, l.MTU, l.Group
	if l.Up {
		attrs.Flags = net.FlagUp
	}
	device := deviceOf(l, attrs, lower)
	if device == nil {
		return fmt.Errorf("link %s: cannot create a device of type %q", l.Name, l.Kind)
	}
	err := k.links.LinkAdd(device)
	switch {
	case errors.Is(err, syscall.EEXIST) && netstate.TunnelOf(l.Kind).Frames:
		return fmt.Errorf("%w: another device has VNI %d on port %d; find it with «ip -d link show type %s», then delete it or give this network another VNI or Port", err, l.VXLAN.VNI, l.VXLAN.Port, l.Kind)
	case errors.Is(err, syscall.EEXIST) && l.ByRoute:
		return fmt.Errorf("%w: a host can have one external device of type %s, and another device is that; find it with «ip -d link show type %s» (it says external) and delete it", err, l.Kind, l.Kind)
	case errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: the kernel does not support %s devices; load or install its module", err, l.Kind)
	}
	return err
}

// deviceOf returns the netlink library's device for l, on the device of index lower,
// or nil for a kind that is no tunnel.
func deviceOf(l netstate.Link, attrs netlink.LinkAttrs, lower int) netlink.Link {
	local := net.IP(l.Local.AsSlice())
	switch l.Kind {
	case netstate.TunnelVXLAN:
		// If the creation sets no MAC, udev may choose one.
		attrs.HardwareAddr = l.MAC[:]
		return &netlink.Vxlan{
			LinkAttrs: attrs, VxlanId: int(l.VXLAN.VNI), Port: int(l.VXLAN.Port),
			SrcAddr: local, VtepDevIndex: lower,
			Learning: l.VXLAN.Learning, GBP: l.VXLAN.GBP,
		}
	case netstate.TunnelIPIP:
		return &netlink.Iptun{LinkAttrs: attrs, Local: local, Link: uint32(lower), PMtuDisc: 1}
	case netstate.TunnelIP6:
		return &netlink.Ip6tnl{LinkAttrs: attrs, Local: local, Link: uint32(lower), FlowBased: l.ByRoute}
	case netstate.TunnelWireGuard:
		return &netlink.Wireguard{LinkAttrs: attrs}
	}
	return nil
}

// changeLink changes what a living device allows, and only what differs: even an
// unchanged MAC drops the neighbours when it is set again.
func (k *Kernel) changeLink(l, is netstate.Link, index int) error {
	c := k.conn
	c.out.reset()
	c.out.begin(unix.RTM_NEWLINK, unix.NLM_F_ACK, c.nextSeq())
	c.out.bytes(unix.AF_UNSPEC, 0, 0, 0)
	c.out.uint32(uint32(index))
	var up uint32
	if l.Up {
		up = unix.IFF_UP
	}
	c.out.uint32(up)
	c.out.uint32(unix.IFF_UP) // the only flag to change
	if l.MTU != is.MTU {
		c.out.attrUint32(unix.IFLA_MTU, uint32(l.MTU))
	}
	if l.MAC != is.MAC {
		c.out.attr(unix.IFLA_ADDRESS, l.MAC[:])
	}
	if l.Master != is.Master {
		c.out.attrUint32(unix.IFLA_MASTER, 0) // no device of ours has a master
	}
	if l.Group != is.Group {
		c.out.attrUint32(unix.IFLA_GROUP, l.Group)
	}
	c.out.end()
	return c.await()
}

func (k *Kernel) deleteLink(name string, index int) error {
	k.wireguard.given.Forget(name)
	c := k.conn
	c.out.reset()
	c.out.begin(unix.RTM_DELLINK, unix.NLM_F_ACK, c.nextSeq())
	c.out.bytes(unix.AF_UNSPEC, 0, 0, 0)
	c.out.uint32(uint32(index))
	c.out.uint32(0)
	c.out.uint32(0)
	c.out.end()
	err := c.await()
	if errors.Is(err, syscall.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}
