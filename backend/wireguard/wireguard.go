// Package wireguard is the backend of WireGuard tunnels: one device, or one per family,
// and for each peer its key with its subnets and their routes. It fails closed: what is
// in the overlay and in no peer's subnet has no other way out of the host.
package wireguard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "wireguard"

type wireguard struct {
	host    backend.HostFacts
	config  config
	psk     presharedKey
	key     netstate.PublicKey // this node's
	pools   subnet.Pair[netip.Prefix]
	devices backend.Devices // in all modes but separate, both families have one
}

// New returns the backend.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	b := wireguard{host: host, pools: cfg.Networks()}
	var err error
	if b.config, b.psk, err = parse(cfg); err != nil {
		return nil, err
	}
	if host.WireGuardKey != nil {
		if b.key, err = host.WireGuardKey(); err != nil {
			return nil, err
		}
	}
	if b.devices, err = host.MakeDevices(cfg, b.device); err != nil {
		return nil, err
	}
	return b, nil
}

// names are the devices' names, by family: ours, and flannel's.
var names = subnet.Pair[[2]string]{
	subnet.IPv4: {"tulle-wg", "flannel-wg"},
	subnet.IPv6: {"tulle6-wg", "flannel-wg-v6"},
}

// device returns the device that carries a family's packets. One of flannel's is
// adopted, with its peers and their sessions.
func (b wireguard) device(f subnet.Family) netstate.Link {
	port := b.config.ListenPort
	switch {
	case b.config.Mode != separate:
		f = subnet.IPv4
	case f == subnet.IPv6:
		port = b.config.ListenPortV6
	}
	want := netstate.Link{
		Name: names[f][0], Kind: netstate.TunnelWireGuard, Group: netstate.Mark, Up: true, MTU: backend.OuterMTU(b.config.MTU, b.host.MTU()) - overhead,
		WireGuard: netstate.WireGuard{Key: b.key, Port: port},
	}
	for _, t := range b.host.Tunnels {
		if t.Kind == want.Kind && t.Name == want.Name {
			return want
		}
	}
	return b.host.Adopt(f, want, func(l netstate.Link) bool { return l.Name == names[f][1] })
}

func (b wireguard) Settings() any { return b.config }

func (b wireguard) MTU() int { return b.devices.MTU() }

func (b wireguard) Publish() subnet.Attrs {
	a := b.host.Attrs(Type, b.MTU())
	for f, d := range b.devices {
		if d.Name != "" {
			a.BackendData[f] = data{d.WireGuard.Key, d.WireGuard.Port}.format()
		}
	}
	return a
}

// Confined returns the devices, unless the config allows packets to leave otherwise.
func (b wireguard) Confined() (devices subnet.Pair[string]) {
	if b.config.Strict {
		for f, d := range b.devices {
			devices[f] = d.Name
		}
	}
	return devices
}

// PresharedKey returns the config's.
func (b wireguard) PresharedKey() backend.Secret { return b.psk.secret }

// Host returns the devices, and, if Strict, routes that drop what is for no peer.
func (b wireguard) Host(own subnet.Lease) []netstate.Object {
	var objects []netstate.Object
	for f, pool := range b.pools {
		if own.Subnets[f].IsValid() && b.config.Strict {
			objects = append(objects, netstate.Route{Dst: pool, Drop: true, Metric: lastResort})
		}
	}
	known := make(map[netstate.Key]bool) // one device serves both families in most modes
	for _, o := range b.devices.Host(own, b.host, backend.OffloadAuto) {
		s, isSetting := o.(netstate.Sysctl)
		if _, checksums := netstate.TxChecksumOf(s.Path); isSetting && checksums {
			continue // WireGuard computes the inner checksums before it encrypts
		}
		if !known[o.Key()] {
			objects = append(objects, o)
		}
		known[o.Key()] = true
	}
	return objects
}

// lastResort is the metric of a route that every other to the same destination precedes.
const lastResort = math.MaxInt32 - 1

func (b wireguard) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	if b.config.Mode == separate {
		return b.host.Families(own, peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
			d, err := b.dataOf(peer, f)
			if err != nil {
				return nil, err
			}
			port := cmp.Or(d.port, b.devices[f].WireGuard.Port)
			return b.reach(own, peer, d.key, netip.AddrPortFrom(at, port), m, f), nil
		})
	}
	return b.together(own, peer, m)
}

// reach returns what leads to a peer's subnets of some families, by one key.
func (b wireguard) reach(own, peer subnet.Lease, key netstate.PublicKey, at netip.AddrPort, m backend.Metrics, families ...subnet.Family) []netstate.Object {
	device := b.devices[families[0]].Name
	objects := []netstate.Object{netstate.WGPeer{
		Link: device, Peer: key, Endpoint: at, PSK: b.psk.ref, Keepalive: b.config.PersistentKeepaliveInterval,
	}}
	for _, f := range families {
		objects = append(objects,
			netstate.WGAllowed{Link: device, Prefix: peer.Subnets[f], Peer: key},
			backend.Via(own, peer, f, netip.Addr{}, device, m))
	}
	return objects
}

// dataOf returns a peer's data of a family.
func (b wireguard) dataOf(peer subnet.Lease, f subnet.Family) (data, error) {
	d, err := parseData(peer.BackendData[f])
	if err == nil && d.key == b.key {
		err = fmt.Errorf("%w: PublicKey %s is this node's own; do two machines share a key?", backend.ErrBackendData, d.key)
	}
	return d, err
}

// together returns what leads to a peer by one key in both families.
func (b wireguard) together(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	var families []subnet.Family
	var datas subnet.Pair[data]
	for _, f := range subnet.Families {
		if !own.Subnets[f].IsValid() || !peer.Subnets[f].IsValid() {
			continue
		}
		d, err := b.dataOf(peer, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		datas[f] = d
		families = append(families, f)
	}
	if len(families) == 0 {
		return nil, nil
	}
	first := datas[families[0]]
	if last := datas[families[len(families)-1]]; first.key != last.key {
		return nil, fmt.Errorf("%w: PublicKey %s in one family and %s in the other, where one device serves both", backend.ErrBackendData, first.key, last.key)
	}
	over, err := b.over(peer)
	if err != nil {
		return nil, err
	}
	port := first.port
	if families[0] == subnet.IPv6 && port == b.config.ListenPortV6 || port == 0 {
		// flannel says the port of a second device, which it does not have in these modes.
		port = b.config.ListenPort
	}
	return b.reach(own, peer, first.key, netip.AddrPortFrom(peer.PublicIP[over], port), m, families...), nil
}

// over returns the family in which a peer is reached.
func (b wireguard) over(peer subnet.Lease) (subnet.Family, error) {
	reachable := func(f subnet.Family) error {
		if !b.host.Uplinks[f].Address.IsValid() {
			return errNoUplink
		}
		return b.host.CheckPeer(f, peer)
	}
	err4, err6 := reachable(subnet.IPv4), reachable(subnet.IPv6)
	private := func(f subnet.Family, ip netip.Addr) bool { return ip.IsPrivate() }
	switch {
	case b.config.Mode == overIPv4:
		return subnet.IPv4, err4
	case b.config.Mode == overIPv6:
		return subnet.IPv6, err6
	case err4 != nil && err6 != nil:
		return subnet.IPv4, errors.Join(err4, err6)
	case err4 != nil:
		return subnet.IPv6, nil
	case err6 != nil || !private(subnet.IPv4, peer.PublicIP[subnet.IPv4]):
		return subnet.IPv4, nil
	case !private(subnet.IPv6, peer.PublicIP[subnet.IPv6]) && !private(subnet.IPv6, b.host.Uplinks[subnet.IPv6].Public):
		return subnet.IPv6, nil
	}
	return subnet.IPv4, nil
}

// errNoUplink is why no peer is reached in a family.
var errNoUplink = errors.New("this host has no address in that family")
