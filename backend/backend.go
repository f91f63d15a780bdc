// Package backend is what all backends share: what a backend is, the facts of
// the host that it goes by, and the objects that most of them need.
//
// A backend is pure. It turns leases into what the kernel must hold, and what
// it knows of the host it is told; when a fact changes, a new one is made.
package backend

import (
	"errors"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Backend turns leases into what the kernel must hold.
type Backend interface {
	// Publish is what the other nodes must know to reach this one: all of
	// Attrs but Node's identity.
	Publish() subnet.Attrs
	// MTU is the largest packet that a container may send.
	MTU() int
	// Settings returns a struct of the keys that the backend has in a config, with
	// the values that they come to.
	Settings() any
	// Host is what this node needs whether it has peers or not.
	Host(own subnet.Lease) []netstate.Object
	// Peer is what reaches one peer. With an error it returns what can be
	// done nevertheless, as for one family alone.
	Peer(own, peer subnet.Lease) ([]netstate.Object, error)
}

// Factory makes a backend of a network's config, of which it refuses bad keys
// with *subnet.ConfigError, for a host.
type Factory func(cfg subnet.Config, host HostFacts) (Backend, error)

// HostFacts is what a backend goes by of its host.
type HostFacts struct {
	NodeID string // lasting; what is derived from it is too
	// Uplinks are what faces the other hosts, one a family; the zero Uplink in
	// a family that is off, and in both where only a config is checked.
	Uplinks subnet.Pair[Uplink]
	// OnLink are the networks that are reached without a router.
	OnLink []netstate.Route
	// Tunnels are the host's tunnel devices that belong to nothing else.
	Tunnels []netstate.Link
	// Published is what the node published last, so that what peers have
	// learnt of it can stay.
	Published subnet.Attrs
	// Checksums is what probes showed of those that the host's interface puts into
	// tunnels.
	Checksums Checksums
}

// Uplink is what faces the other hosts in one family.
type Uplink struct {
	Link string // the device
	MTU  int
	// Address is what the device sends from, Public what others send to: the
	// same unless the host is behind NAT.
	Address, Public netip.Addr
	// TakesRouterAdvertisements says that the device gets its IPv6 addresses
	// and routes from routers, which a host that forwards does not by itself.
	TakesRouterAdvertisements bool
}

// MTU returns the size of the largest packet that fits through all uplinks.
func (h HostFacts) MTU() int {
	mtu := 0
	for _, u := range h.Uplinks {
		if u.Link != "" && (mtu == 0 || u.MTU < mtu) {
			mtu = u.MTU
		}
	}
	return mtu
}

// Attrs returns what a node on this host publishes with any backend.
func (h HostFacts) Attrs(backendType string, mtu int) subnet.Attrs {
	a := subnet.Attrs{BackendType: backendType, Node: subnet.Node{MTU: mtu}}
	for f, u := range h.Uplinks {
		a.PublicIP[f] = u.Public
	}
	return a
}

// ErrLinkMTU is a host whose interface cannot carry the tunnel.
var ErrLinkMTU = errors.New("the interface's MTU is too small")

// Why a peer cannot be reached.
var (
	// ErrNotOnLink is a peer behind a router where none may be.
	ErrNotOnLink = errors.New("not on a link of this host")
	// ErrNoPublicIP is a peer without an address of a family that it has a
	// subnet of.
	ErrNoPublicIP = errors.New("no public IP")
	// ErrBackendData is a peer whose backend data is unusable.
	ErrBackendData = errors.New("unusable backend data")
)
