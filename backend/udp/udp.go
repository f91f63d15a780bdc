// Package udp is the backend that carries bare IP packets in UDP, as flannel's backend of
// that name does. A program in user space moves the packets of its devices, one per
// family.
package udp

import (
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "udp"

// defaultPort is flannel's.
const defaultPort = 8285

// config has the backend's keys.
type config struct {
	Port uint16
}

// family is what differs between the two families' devices.
var family = subnet.Pair[struct {
	device   string
	overhead int // the outer headers: IP and UDP
}]{
	subnet.IPv4: {"tulle.udp", tunnel.Overhead4},
	subnet.IPv6: {"tulle6.udp", tunnel.Overhead6},
}

var tunnel = netstate.TunnelOf(netstate.TunnelUDP)

type udp struct {
	host    backend.HostFacts
	config  config
	pools   subnet.Pair[netip.Prefix]
	devices backend.Devices
}

// New returns the backend.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	b := &udp{host: host, pools: cfg.Networks()}
	if err := cfg.Backend.Decode(&b.config); err != nil {
		return nil, err
	}
	if b.config.Port == 0 {
		b.config.Port = defaultPort
	}
	var err error
	if b.devices, err = host.MakeDevices(cfg, b.device); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *udp) device(f subnet.Family) netstate.Link {
	u := b.host.Uplinks[f]
	return netstate.Link{
		Name: family[f].device, Kind: netstate.TunnelUDP, Group: netstate.Mark, Up: true, MTU: u.MTU - family[f].overhead,
		// No host has the network's own address. A kernel drops what comes from its own.
		UDP: netstate.UDP{Local: netip.AddrPortFrom(u.Address, b.config.Port), Network: b.pools[f], Source: b.pools[f].Addr()},
	}
}

func (b *udp) Settings() any { return b.config }

func (b *udp) MTU() int { return b.devices.MTU() }

// Publish returns no data, as flannel's backend: all nodes have the config's port.
func (b *udp) Publish() subnet.Attrs { return b.host.Attrs(Type, b.MTU()) }

// Host returns the devices, each with a route for all of its network: what is for no peer
// is answered there, and leaves the host no other way.
func (b *udp) Host(own subnet.Lease) []netstate.Object {
	var objects []netstate.Object
	devices := b.devices
	for f := range devices {
		if devices[f].Name != "" {
			devices[f].UDP.Own = own.Subnets[f]
		}
	}
	for _, o := range devices.Host(own, b.host, backend.OffloadAuto) {
		s, isSetting := o.(netstate.Sysctl)
		if _, checksums := netstate.TxChecksumOf(s.Path); isSetting && checksums {
			continue // no interface computes the inner checksums
		}
		objects = append(objects, o)
	}
	for f, device := range devices {
		if own.Subnets[f].IsValid() && device.Name != "" {
			objects = append(objects, netstate.Route{Dst: b.pools[f], Link: device.Name})
		}
	}
	return objects
}

// Peer returns the peer's host, and a route of its own, which knows how large its packets
// may be.
func (b *udp) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	return b.host.Families(own, peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
		device := b.devices[f].Name
		return []netstate.Object{
			netstate.UDPPeer{Link: device, Prefix: peer.Subnets[f], Endpoint: netip.AddrPortFrom(at, b.config.Port)},
			backend.Via(own, peer, f, netip.Addr{}, device, m),
		}, nil
	})
}
