// Package ipip is the backend of IP-in-IP tunnels, one per family: IPv4 in IPv4, and
// IPv6 in IPv6. One device serves all peers. Over IPv4, a route's gateway is the host
// that receives the encapsulated packets. The kernel refuses an IPv6 gateway that is
// reached through another link than the route's, so there the route contains the
// encapsulation itself.
package ipip

import (
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "ipip"

// family is what differs between the two families' tunnels.
var family = subnet.Pair[struct {
	device, kind string
	overhead     int // one more IP header
	byRoute      bool
}]{
	subnet.IPv4: {"tulle.ipip", netstate.TunnelIPIP, tunnel4.Overhead4, tunnel4.ByRoute},
	subnet.IPv6: {"tulle6.ipip", netstate.TunnelIP6, tunnel6.Overhead6, tunnel6.ByRoute},
}

var tunnel4, tunnel6 = netstate.TunnelOf(netstate.TunnelIPIP), netstate.TunnelOf(netstate.TunnelIP6)

// config has the backend's keys.
type config struct {
	DirectRouting bool
	Offload       backend.Offload
}

type ipip struct {
	host    backend.HostFacts
	config  config
	devices backend.Devices
}

// New returns the backend.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	b := ipip{host: host, config: config{Offload: backend.OffloadAuto}}
	if err := cfg.Backend.Decode(&b.config); err != nil {
		return nil, err
	}
	err := b.config.Offload.Check()
	if err != nil {
		return nil, err
	}
	if b.devices, err = host.MakeDevices(cfg, b.device); err != nil {
		return nil, err
	}
	return b, nil
}

func (b ipip) device(f subnet.Family) netstate.Link {
	want := netstate.Link{
		Name: family[f].device, Kind: family[f].kind, Group: netstate.Mark, Up: true,
		MTU: b.host.Uplinks[f].MTU - family[f].overhead, ByRoute: family[f].byRoute,
	}
	if !want.ByRoute {
		want.Local = b.host.Uplinks[f].Address
	}
	return b.host.Adopt(f, want, func(l netstate.Link) bool {
		return l.Local == want.Local && l.ByRoute == want.ByRoute && !l.Remote.IsValid()
	})
}

func (b ipip) Settings() any { return b.config }

func (b ipip) MTU() int { return b.devices.MTU() }

func (b ipip) Publish() subnet.Attrs {
	return b.host.Attrs(Type, b.MTU())
}

func (b ipip) Host(own subnet.Lease) []netstate.Object {
	return b.devices.Host(own, b.host, b.config.Offload)
}

func (b ipip) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	return b.host.Families(own, peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
		if link, direct := b.host.Direct(at); direct && b.config.DirectRouting {
			return []netstate.Object{backend.Via(own, peer, f, at, link, m)}, nil
		}
		route := backend.Via(own, peer, f, at, b.devices[f].Name, m)
		if family[f].byRoute {
			route.Wrap, route.From = true, b.host.Uplinks[f].Address
		} else {
			route.OnLink = true
		}
		return []netstate.Object{route}, nil
	})
}
