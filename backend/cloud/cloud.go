// Package cloud is the backend of hosts whose network, like a cloud's, routes their
// subnets: packets to a peer go there without a tunnel where its routes are in place, and
// through a VXLAN tunnel where they are not.
package cloud

import (
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "cloud"

// cloud is the tunnel, which is there for every peer at all times, and the routes past it.
// So a change of the way replaces one route, and what a peer sends arrives on both ways.
type cloud struct {
	tunnel backend.Backend
	host   backend.HostFacts
	config config
}

// config has the keys, which are those of the tunnel.
type config struct {
	VNI      uint32
	Port     uint16
	GBP      bool
	Learning bool
	MTU      int
	Offload  backend.Offload
}

var _ backend.Router = cloud{}

// New returns the backend.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	var direct struct{ DirectRouting bool }
	if err := cfg.Backend.Decode(&direct); err != nil {
		return nil, err
	}
	if direct.DirectRouting {
		return nil, &subnet.ConfigError{
			Key: "Backend.DirectRouting", Value: "true", Why: "the backend cloud goes without the tunnel where the cloud routes a peer's subnet, on one link or not",
			Fix: "leave it out, or use the backend vxlan",
		}
	}
	inner := host
	if inner.Published.BackendType == Type {
		inner.Published.BackendType = vxlan.Type // the tunnel is the same
	}
	tunnel, keys, err := vxlan.NewTunnel(cfg, inner)
	if err != nil {
		return nil, err
	}
	return cloud{tunnel, host, config(keys)}, nil
}

// CanRoute implements backend.Router. A router that is itself in the subnet is none.
func (c cloud) CanRoute(peer netip.Prefix) bool {
	u := c.host.Uplinks[subnet.FamilyOf(peer.Addr())]
	return u.Link != "" && u.Gateway.IsValid() && !peer.Contains(u.Gateway)
}

func (c cloud) Publish() subnet.Attrs {
	a := c.tunnel.Publish()
	a.BackendType = Type
	return a
}

// MTU is the tunnel's: a container does not know which way its packets go.
func (c cloud) MTU() int { return c.tunnel.MTU() }

func (c cloud) Settings() any {
	return c.config
}

func (c cloud) Host(own subnet.Lease) []netstate.Object {
	objects := c.tunnel.Host(own)
	if u := c.host.Uplinks[subnet.IPv4]; u.Link != "" && own.Subnets[subnet.IPv4].IsValid() {
		// A peer may send past the tunnel what we send to it through the tunnel. Loose
		// overrides a strict setting for all devices.
		objects = append(objects, netstate.Sysctl{Path: "net/ipv4/conf/" + u.Link + "/rp_filter", Value: "2"})
	}
	return objects
}

// Peer returns the tunnel to a peer. Where the network routes the peer's subnet, its route
// leads to the network's router.
func (c cloud) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	objects, err := c.tunnel.Peer(own, peer, m)
	for i, o := range objects {
		r, isRoute := o.(netstate.Route)
		if !isRoute {
			continue
		}
		f := subnet.FamilyOf(r.Dst.Addr())
		if u := c.host.Uplinks[f]; peer.Routed[f] && c.CanRoute(peer.Subnets[f]) {
			way := backend.Via(own, peer, f, u.Gateway, u.Link, m)
			// Some clouds give a host an address without a network, and a router beyond it.
			_, direct := c.host.Direct(u.Gateway)
			way.OnLink = !direct && !u.Gateway.IsLinkLocalUnicast()
			objects[i] = way
		}
	}
	return objects, err
}
