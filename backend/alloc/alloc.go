// Package alloc is the backend that only leases a subnet, for networks whose routers
// know the way.
package alloc

import (
	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "alloc"

type alloc struct{ host backend.HostFacts }

// New returns the backend. It has no keys.
func New(_ subnet.Config, host backend.HostFacts) (backend.Backend, error) { return alloc{host}, nil }

func (a alloc) Publish() subnet.Attrs {
	return a.host.Attrs(Type, a.MTU())
}

func (alloc) Settings() any { return struct{}{} }

func (a alloc) MTU() int { return a.host.MTU() }

func (a alloc) Host(subnet.Lease) []netstate.Object { return nil }

func (a alloc) Peer(_, _ subnet.Lease, _ backend.Metrics) ([]netstate.Object, error) { return nil, nil }
