// Package backend is what all backends share: what a backend is, the facts of the
// host that it depends on, and the objects that most of them need.
//
// A backend is pure. It turns leases into what the kernel must hold. The caller gives
// it the facts of the host; when a fact changes, the caller makes a new one.
package backend

import (
	"errors"
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Backend turns leases into what the kernel must hold.
type Backend interface {
	// Publish returns what the other nodes must know to reach this one: all of Attrs
	// except Node's identity.
	Publish() subnet.Attrs
	// MTU returns the size of the largest packet that a container may send.
	MTU() int
	// Settings returns a struct of the backend's keys in a config, with the values in
	// force.
	Settings() any
	// Host returns what this node needs with or without peers.
	Host(own subnet.Lease) []netstate.Object
	// Peer returns what reaches one peer, with its IPv4 routes on these metrics. With an
	// error it returns what is possible nevertheless, for example one family alone.
	Peer(own, peer subnet.Lease, m Metrics) ([]netstate.Object, error)
}

// Router is a Backend that sends to a peer without a tunnel where Lease.Routed says that
// the network between the hosts routes the peer's subnet to it.
type Router interface {
	Backend
	// CanRoute reports whether this host has a way past the tunnel to a peer's subnet, if
	// the network routes it.
	CanRoute(peer netip.Prefix) bool
}

// Confiner is a Backend that allows packets for peers to leave the host in one way only.
type Confiner interface {
	Backend
	// Confined returns, for each family, the devices through which alone packets for the
	// network may leave. They may leave through any if the first one is "".
	Confined() subnet.Pair[[2]string]
}

// Rotator is a Backend whose nodes replace their keys while packets flow. A node that does
// offers its peers a second tunnel: another device, with a port of its own.
type Rotator interface {
	Backend
	// Offers reports whether a peer offers a second tunnel.
	Offers(peer *subnet.Lease) bool
	// Tunnels returns, for each family, the tunnels by which a peer can be reached. It is
	// zero for a family in which there is one at most. What Peer returns leads through the
	// second one if Lease.Second says so.
	Tunnels(own, peer subnet.Lease) subnet.Pair[Tunnels]
	// Keys returns the node's keys, of which Publish and Host make use.
	Keys() WireGuardKeys
	// KeyAge returns the age at which a node replaces its key; 0 is never.
	KeyAge() time.Duration
}

// Tunnels are two tunnels to one peer.
type Tunnels struct {
	First, Second SessionKey
	// PreferSecond reports that the second one is to be used while it works. Otherwise the
	// first one is.
	PreferSecond bool
}

// SessionKey names the session with a peer on a device.
type SessionKey struct {
	Link string
	Peer netstate.PublicKey
}

// WireGuardKeys are the public keys of a node.
type WireGuardKeys struct {
	// Device is the key of the node's device, and Published the one that its peers learn.
	// They differ until the store has the successor of an old key.
	Device, Published netstate.PublicKey
	// Second is the key of the second device while the node replaces its key; zero
	// otherwise.
	Second netstate.PublicKey
}

// Keyed is a Backend whose objects refer to a preshared key.
type Keyed interface {
	Backend
	// PresharedKey returns the key in base64, or the zero Secret if the config has none.
	PresharedKey() Secret
}

// Factory returns the backend of a network's config for a host. It rejects invalid
// keys with *subnet.ConfigError.
type Factory func(cfg subnet.Config, host HostFacts) (Backend, error)

// HostFacts are the facts of its host that a backend depends on.
type HostFacts struct {
	NodeID string // lasts, and so does what is derived from it
	// Uplinks face the other hosts, one per family. The zero Uplink is a family that is
	// off, or both if only a config is checked.
	Uplinks subnet.Pair[Uplink]
	// OnLink are the networks that are reached without a router.
	OnLink []netstate.Route
	// Tunnels are the host's tunnel devices that no other program uses.
	Tunnels []netstate.Link
	// Published is what the node published last. The backend keeps it, so that peers need
	// not learn something new.
	Published subnet.Attrs
	// WireGuardKeys returns the public keys that belong to the node's private ones. It is nil
	// if only a config is checked. The node makes its key when a backend asks first.
	WireGuardKeys func() (WireGuardKeys, error)
	// SecondTunnel reports that a peer replaces its key, and KeepSecondTunnel that not all
	// peers are known: one of them may do so.
	SecondTunnel, KeepSecondTunnel bool
	// KernelWireGuard reports whether the kernel has wireguard devices. It is nil if only a
	// config is checked.
	KernelWireGuard func() bool
	// Prepare returns the output of a command that prepares this host. It runs the command
	// once; until that has ended well, its error wraps netstate.ErrUnfinished, and after a
	// failure netstate.ErrRepeated. An empty command stops the tries. Prepare is nil if only a
	// config is checked.
	Prepare func(command string, limit time.Duration) (output string, err error)
	// Checksums is what probes found out about the inner checksums that the host's
	// interface computes.
	Checksums Checksums
}

// Uplink faces the other hosts in one family.
type Uplink struct {
	Link string // the device
	MTU  int
	// Address is the device's source address, Public the address that others send to.
	// They differ only behind NAT.
	Address, Public netip.Addr
	// Gateway is the router of the default route, if there is one.
	Gateway netip.Addr
	// TakesRouterAdvertisements reports that the device gets its IPv6 addresses and
	// routes from routers. A host that forwards does not do so by default.
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

// ErrLinkMTU is returned for a host whose interface cannot carry the tunnel.
var ErrLinkMTU = errors.New("the interface's MTU is too small")

// Reasons why a peer is unreachable.
var (
	// ErrNotOnLink is returned for a peer behind a router where none is possible.
	ErrNotOnLink = errors.New("not on a link of this host")
	// ErrNoPublicIP is returned for a peer without an address in a family of its subnet.
	ErrNoPublicIP = errors.New("no public IP")
	// ErrBackendData is returned for a peer whose backend data is unusable.
	ErrBackendData = errors.New("unusable backend data")
)
