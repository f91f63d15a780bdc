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
	keys    backend.WireGuardKeys // this node's
	pools   subnet.Pair[netip.Prefix]
	devices backend.Devices // in all modes but separate, both families have one
	second  backend.Devices // zero unless a key is replaced
}

// New returns the backend.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	b := wireguard{host: host, pools: cfg.Networks()}
	var err error
	if b.config, b.psk, err = parse(cfg); err != nil {
		return nil, err
	}
	if b.config.Implementation == automatic && host.KernelWireGuard != nil {
		b.config.Implementation = userSpace
		if host.KernelWireGuard() {
			b.config.Implementation = inKernel
		}
	}
	if host.WireGuardKeys != nil {
		if b.keys, err = host.WireGuardKeys(); err != nil {
			return nil, err
		}
	}
	if b.devices, err = host.MakeDevices(cfg, b.device); err != nil {
		return nil, err
	}
	if host.SecondTunnel || !b.keys.Second.IsZero() || host.KeepSecondTunnel && b.hasSecond() {
		b.second = b.secondDevices()
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
		WireGuard: netstate.WireGuard{Key: b.keys.Device, Port: port},
	}
	if b.config.Implementation == userSpace {
		want.Kind = netstate.TunnelWireGuardTUN
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
			is := data{key: b.keys.Published, port: d.WireGuard.Port}
			if !b.keys.Second.IsZero() {
				is.second, is.secondPort = b.keys.Second, b.second[f].WireGuard.Port
			}
			a.BackendData[f] = is.format()
		}
	}
	return a
}

// Confined returns the devices, unless the config allows packets to leave otherwise. The
// second ones are always among them, so that their beginning needs no other rules.
func (b wireguard) Confined() (devices subnet.Pair[[2]string]) {
	if b.config.Strict {
		for f, d := range b.devices {
			if d.Name != "" {
				devices[f] = [2]string{d.Name, b.secondName(subnet.Family(f))}
			}
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
	for _, o := range append(b.devices.Host(own, b.host, backend.OffloadAuto), b.second.Overlays(own)...) {
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
			return b.reach(own, peer, d, netip.AddrPortFrom(at, port), m, f), nil
		})
	}
	return b.together(own, peer, m)
}

// reach returns what leads to a peer's subnets of some families, by one key or, while a
// key is replaced, by two.
func (b wireguard) reach(own, peer subnet.Lease, d data, at netip.AddrPort, m backend.Metrics, families ...subnet.Family) []netstate.Object {
	first := families[0]
	device := b.devices[first].Name
	objects := []netstate.Object{netstate.WGPeer{
		Link: device, Peer: d.key, Endpoint: at, PSK: b.psk.ref, Keepalive: b.keepalive(b.awaitsFirst(d)),
	}}
	second, two := b.secondOf(peer, d, first)
	if two {
		port := cmp.Or(d.secondPort, b.second[first].WireGuard.Port)
		objects = append(objects, netstate.WGPeer{
			Link: second.Link, Peer: second.Peer, Endpoint: netip.AddrPortFrom(at.Addr(), port), PSK: b.psk.ref, Keepalive: b.keepalive(true),
		})
	}
	for _, f := range families {
		by := device
		objects = append(objects, netstate.WGAllowed{Link: device, Prefix: peer.Subnets[f], Peer: d.key})
		if two {
			objects = append(objects, netstate.WGAllowed{Link: second.Link, Prefix: peer.Subnets[f], Peer: second.Peer})
			if peer.Second[f] {
				by = second.Link
			}
		}
		objects = append(objects, backend.Via(own, peer, f, netip.Addr{}, by, m))
	}
	return objects
}

// dataOf returns a peer's data of a family.
func (b wireguard) dataOf(peer subnet.Lease, f subnet.Family) (data, error) {
	d, err := parseData(peer.BackendData[f])
	if err != nil {
		return data{}, err
	}
	for _, key := range []netstate.PublicKey{d.key, d.second} {
		if !key.IsZero() && (key == b.keys.Device || key == b.keys.Published || key == b.keys.Second) {
			return data{}, fmt.Errorf("%w: PublicKey %s is this node's own; do two machines share a key?", backend.ErrBackendData, key)
		}
	}
	return d, nil
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
	if last := datas[families[len(families)-1]]; first.key != last.key || first.second != last.second {
		return nil, fmt.Errorf("%w: PublicKey %s in one family and %s in the other, where one device serves both", backend.ErrBackendData,
			cmp.Or(first.second, first.key), cmp.Or(last.second, last.key))
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
	return b.reach(own, peer, first, netip.AddrPortFrom(peer.PublicIP[over], port), m, families...), nil
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
