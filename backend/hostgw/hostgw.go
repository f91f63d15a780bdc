// Package hostgw is the backend of plain routes: each host is the gateway of its
// subnet, which needs all hosts on one link.
package hostgw

import (
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "host-gw"

type hostGW struct{ host backend.HostFacts }

// New returns the backend. It has no keys.
func New(_ subnet.Config, host backend.HostFacts) (backend.Backend, error) { return hostGW{host}, nil }

func (b hostGW) Publish() subnet.Attrs {
	return b.host.Attrs(Type, b.MTU())
}

func (hostGW) Settings() any { return struct{}{} }

func (b hostGW) MTU() int { return b.host.MTU() }

func (b hostGW) Host(own subnet.Lease) []netstate.Object { return b.host.Forwarding(own) }

func (b hostGW) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	return b.host.Families(own, peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
		link, direct := b.host.Direct(at)
		if !direct {
			return nil, fmt.Errorf("%s is %w; put all hosts on one, or use the vxlan backend with DirectRouting", at, backend.ErrNotOnLink)
		}
		return []netstate.Object{backend.Via(own, peer, f, at, link, m)}, nil
	})
}
