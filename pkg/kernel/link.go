package kernel

import (
	"errors"
	"fmt"
	"syscall"

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
