// Package vxlan is the backend of VXLAN tunnels, one per family: one device, and for
// each peer a route, a neighbour and a forwarding entry.
package vxlan

import (
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "vxlan"

// overhead is the size of the outer headers: Ethernet, IP, UDP and VXLAN.
var overhead = subnet.Pair[int]{subnet.IPv4: tunnel.Overhead4, subnet.IPv6: tunnel.Overhead6}

var tunnel = netstate.TunnelOf(netstate.TunnelVXLAN)

type vxlan struct {
	host    backend.HostFacts
	config  config
	devices backend.Devices
}

// New returns the backend.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	c, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	b := vxlan{host: host, config: c}
	if b.devices, err = host.MakeDevices(cfg, b.device); err != nil {
		return nil, err
	}
	return b, nil
}

// NewTunnel returns the backend for another one, which goes past the tunnel by rules of
// its own, and the tunnel's keys.
func NewTunnel(cfg subnet.Config, host backend.HostFacts) (tunnel backend.Backend, keys TunnelKeys, err error) {
	b, err := New(cfg, host)
	if err != nil {
		return nil, TunnelKeys{}, err
	}
	return b, b.(vxlan).config.tunnel(), nil
}

// device returns the tunnel device of a family: the existing one, if it is suitable.
// What peers know of it takes precedence, so a device that another program re-created
// gets the MAC that was published.
func (b vxlan) device(f subnet.Family) netstate.Link {
	published, known := b.published(f)
	want := netstate.Link{
		Name: b.config.deviceName(f), Kind: netstate.TunnelVXLAN, Group: netstate.Mark, Up: true,
		MAC: deriveMAC(b.host.NodeID, f), MTU: backend.OuterMTU(b.config.MTU, b.host.Uplinks[f].MTU) - overhead[f], Local: b.host.Uplinks[f].Address,
		VXLAN: netstate.VXLAN{
			VNI: b.config.VNI, Port: b.config.Port,
			Learning: b.config.Learning, GBP: b.config.GBP,
		},
	}
	device := b.host.Adopt(f, want, func(l netstate.Link) bool {
		return l.VXLAN.VNI == want.VXLAN.VNI && l.VXLAN.Port == want.VXLAN.Port && over(l) == f
	})
	if known {
		device.MAC = published
	}
	return device
}

// over returns the family of a device's outer packets: that of its addresses, or IPv4
// if it has none.
func over(l netstate.Link) subnet.Family {
	if l.Local.Is6() || l.Remote.Is6() {
		return subnet.IPv6
	}
	return subnet.IPv4
}

// published returns the device's MAC that peers know from before.
func (b vxlan) published(f subnet.Family) (mac netstate.MAC, known bool) {
	if b.host.Published.BackendType != Type {
		return netstate.MAC{}, false
	}
	d, err := parseData(b.host.Published.BackendData[f])
	return d.mac, err == nil
}

func (b vxlan) Settings() any { return b.config }

func (b vxlan) MTU() int { return b.devices.MTU() }

func (b vxlan) Publish() subnet.Attrs {
	a := b.host.Attrs(Type, b.MTU())
	for f, d := range b.devices {
		if d.Name != "" {
			a.BackendData[f] = formatData(d.VXLAN.VNI, d.MAC)
		}
	}
	return a
}

func (b vxlan) Host(own subnet.Lease) []netstate.Object {
	return b.devices.Host(own, b.host, b.config.Offload)
}

func (b vxlan) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	return b.host.Families(own, peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
		if link, direct := b.host.Direct(at); direct && b.config.DirectRouting {
			return []netstate.Object{backend.Via(own, peer, f, at, link, m)}, nil
		}
		return b.tunnelled(own, peer, f, at, m)
	})
}

// tunnelled returns what reaches a peer through the tunnel. The gateway, its subnet's
// network address, is in no network of ours. The neighbour entry gives it the MAC,
// and the forwarding entry gives the MAC the host.
func (b vxlan) tunnelled(own, peer subnet.Lease, f subnet.Family, at netip.Addr, m backend.Metrics) ([]netstate.Object, error) {
	device := b.devices[f]
	data, err := parseData(peer.BackendData[f])
	if err == nil {
		err = data.fits(device)
	}
	if err != nil {
		return nil, err
	}
	gateway := peer.Subnets[f].Addr()
	route := backend.Via(own, peer, f, gateway, device.Name, m)
	route.OnLink = true
	return []netstate.Object{
		netstate.Neigh{Link: device.Name, IP: gateway, MAC: data.mac},
		netstate.FDB{Link: device.Name, MAC: data.mac, Dst: at},
		route,
	}, nil
}
