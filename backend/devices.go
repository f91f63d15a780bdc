package backend

import (
	"fmt"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Devices are the tunnel devices of a node, one per family. The zero Link is a family
// that is off.
type Devices subnet.Pair[netstate.Link]

// MakeDevices returns the device of each family that is on. A device too small for
// its family is an error that wraps ErrLinkMTU: the kernel would create the device,
// and then refuse its addresses.
func (h HostFacts) MakeDevices(cfg subnet.Config, device func(subnet.Family) netstate.Link) (Devices, error) {
	var d Devices
	for _, f := range subnet.Families {
		if !cfg.Pools[f].IsValid() {
			continue
		}
		d[f] = device(f)
		if u := h.Uplinks[f]; u.MTU != 0 && d[f].MTU < MinimumMTU[f] {
			return Devices{}, fmt.Errorf("%w: %s has %d, and a tunnel for %s needs %d or more; set it with «ip link set %s mtu», or choose another interface",
				ErrLinkMTU, u.Link, u.MTU, f, MinimumMTU[f]+u.MTU-d[f].MTU, u.Link)
		}
	}
	return d, nil
}

// OuterMTU returns the size limit of packets on the wire, from that of a config and that
// of this host's interfaces; 0 is unknown. A config for hosts with larger interfaces does
// not exceed this host's.
func OuterMTU(config, link int) int {
	if config == 0 || link == 0 {
		return max(config, link)
	}
	return min(config, link)
}

// MTU returns the size of the largest packet that fits through all devices.
func (d Devices) MTU() int {
	mtu := 0
	for _, link := range d {
		if link.Name != "" && (mtu == 0 || link.MTU < mtu) {
			mtu = link.MTU
		}
	}
	return mtu
}

// Host returns what a node with these devices needs with or without peers: the
// devices, each with the network address of own's subnet, from which the host itself
// talks to containers, and settings.
func (d Devices) Host(own subnet.Lease, h HostFacts, o Offload) []netstate.Object {
	objects := h.Forwarding(own)
	for _, f := range subnet.Families {
		if own.Subnets[f].IsValid() && d[f].Name != "" {
			objects = append(objects, overlay(own, f, d[f])...)
			objects = append(objects, o.setting(h, d[f].Name)...)
		}
	}
	return objects
}

// Overlays returns the devices alone, each with its address and settings.
func (d Devices) Overlays(own subnet.Lease) (objects []netstate.Object) {
	for _, f := range subnet.Families {
		if own.Subnets[f].IsValid() && d[f].Name != "" {
			objects = append(objects, overlay(own, f, d[f])...)
		}
	}
	return objects
}
