package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// createLink creates a device.
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
	c := k.conn
	c.out.reset()
	if !c.out.newLink(l, lower, c.nextSeq()) {
		return fmt.Errorf("link %s: cannot create a device of type %q", l.Name, l.Kind)
	}
	err := c.await()
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

// Attributes of IP tunnels, from linux/if_tunnel.h.
const (
	iptunLink            = 1
	iptunLocal           = 2
	iptunProto           = 9
	iptunPMTUDiscovery   = 10
	iptunCollectMetadata = 19
)

// newLink adds the message that creates l on the device of index lower. It reports
// whether l is of a kind that the kernel can create so.
func (w *writer) newLink(l netstate.Link, lower int, seq uint32) bool {
	var up uint32
	if l.Up {
		up = unix.IFF_UP
	}
	w.begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, seq)
	w.bytes(unix.AF_UNSPEC, 0, 0, 0)
	w.uint32(0) // the kernel chooses the index
	w.uint32(up)
	w.uint32(up)
	w.attrString(unix.IFLA_IFNAME, l.Name)
	if l.MTU > 0 {
		w.attrUint32(unix.IFLA_MTU, uint32(l.MTU))
	}
	if netstate.TunnelOf(l.Kind).Frames {
		// If the creation sets no MAC, udev may choose one.
		w.attr(unix.IFLA_ADDRESS, l.MAC[:])
	}
	w.attrUint32(unix.IFLA_GROUP, l.Group)
	info := w.nest(unix.IFLA_LINKINFO)
	w.attrString(unix.IFLA_INFO_KIND, l.Kind)
	data := w.nest(unix.IFLA_INFO_DATA)
	switch l.Kind {
	case netstate.TunnelVXLAN:
		w.vxlan(l, lower)
	case netstate.TunnelIPIP:
		w.ipTunnel(l, lower)
		w.attr(iptunPMTUDiscovery, []byte{1})
		w.attr(iptunProto, []byte{0}) // any that it can carry
	case netstate.TunnelIP6:
		w.ipTunnel(l, lower)
	case netstate.TunnelWireGuard:
	default:
		return false
	}
	w.endNest(data)
	w.endNest(info)
	w.end()
	return true
}

func (w *writer) vxlan(l netstate.Link, lower int) {
	w.attrUint32(unix.IFLA_VXLAN_ID, l.VXLAN.VNI)
	if lower != 0 {
		w.attrUint32(unix.IFLA_VXLAN_LINK, uint32(lower))
	}
	switch {
	case l.Local.Is4():
		w.attrAddr(unix.IFLA_VXLAN_LOCAL, l.Local)
	case l.Local.Is6():
		w.attrAddr(unix.IFLA_VXLAN_LOCAL6, l.Local)
	}
	learning := byte(0)
	if l.VXLAN.Learning {
		learning = 1
	}
	w.attr(unix.IFLA_VXLAN_LEARNING, []byte{learning})
	if l.VXLAN.GBP {
		w.attr(unix.IFLA_VXLAN_GBP, nil)
	}
	w.attr(unix.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, l.VXLAN.Port))
}

func (w *writer) ipTunnel(l netstate.Link, lower int) {
	if l.ByRoute {
		w.attr(iptunCollectMetadata, nil)
		return
	}
	if lower != 0 {
		w.attrUint32(iptunLink, uint32(lower))
	}
	if l.Local.IsValid() {
		w.attrAddr(iptunLocal, l.Local)
	}
}
