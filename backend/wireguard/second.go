package wireguard

import (
	"cmp"
	"strings"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// A device has one private key, and accepts packets of a subnet from one peer alone. So no
// device can pass packets of an old and a new key at the same time. While a node replaces
// its key, it and its peers have a second device each. First all packets move there, then
// the first device gets the new key, then they move back.

// secondName returns the name of the second device that carries a family's packets.
func (b wireguard) secondName(f subnet.Family) string {
	if b.config.Mode != separate {
		f = subnet.IPv4
	}
	return names[f][0] + "2"
}

// secondDevices returns the second devices. They differ from the first in their names,
// ports and, while this node replaces its key, in the key.
func (b wireguard) secondDevices() (second backend.Devices) {
	ports := b.config.secondPorts()
	for f, d := range b.devices {
		if d.Name == "" {
			continue
		}
		port := ports[f]
		if b.config.Mode != separate {
			port = ports[subnet.IPv4]
		}
		d.Name, d.Lower = b.secondName(subnet.Family(f)), ""
		d.WireGuard = netstate.WireGuard{Key: cmp.Or(b.keys.Second, b.keys.Device), Port: port}
		second[f] = d
	}
	return second
}

// hasSecond reports whether the host has a second device.
func (b wireguard) hasSecond() bool {
	for _, t := range b.host.Tunnels {
		for f := range subnet.Families {
			if t.IsWireGuard() && t.Name == b.secondName(subnet.Family(f)) {
				return true
			}
		}
	}
	return false
}

// secondOf returns the session of the second tunnel to a peer. A node without an ID runs
// flannel, which opens none.
func (b wireguard) secondOf(peer subnet.Lease, d data, f subnet.Family) (s backend.SessionKey, two bool) {
	offers := !d.second.IsZero() || !b.keys.Second.IsZero() && peer.Node.ID != ""
	if b.second[f].Name == "" || !offers {
		return s, false
	}
	return backend.SessionKey{Link: b.second[f].Name, Peer: cmp.Or(d.second, d.key)}, true
}

// prefersSecond reports whether this node or a peer needs the first tunnel to be unused:
// its first device still has the old key.
func (b wireguard) prefersSecond(d data) bool {
	own := !b.keys.Second.IsZero() && b.keys.Second == b.keys.Device
	return own || !d.second.IsZero() && d.second == d.key
}

// awaitsFirst reports whether a handshake on the first tunnel is needed soon, with the new
// key of this node or of a peer.
func (b wireguard) awaitsFirst(d data) bool {
	own := !b.keys.Second.IsZero() && b.keys.Second != b.keys.Device
	return own || !d.second.IsZero() && d.second != d.key
}

// overlapKeepalive is the interval in seconds at which tunnels without traffic prove that
// they work while a key is replaced.
const overlapKeepalive = 5

// keepalive returns a peer's keepalive interval.
func (b wireguard) keepalive(overlap bool) uint16 {
	is := b.config.PersistentKeepaliveInterval
	if overlap && (is == 0 || is > overlapKeepalive) {
		return overlapKeepalive
	}
	return is
}

// Keys returns this node's keys.
func (b wireguard) Keys() backend.WireGuardKeys { return b.keys }

// KeyAge returns the age at which a node replaces its key.
func (b wireguard) KeyAge() time.Duration { return time.Duration(b.config.KeyDays) * 24 * time.Hour }

// Offers reports whether a peer offers a second tunnel.
func (b wireguard) Offers(peer *subnet.Lease) bool {
	for f, text := range peer.BackendData {
		if b.devices[f].Name != "" && strings.Contains(text, `"Second"`) { // parsed only if it may be
			if d, err := b.dataOf(*peer, subnet.Family(f)); err == nil && !d.second.IsZero() {
				return true
			}
		}
	}
	return false
}

// Tunnels returns the tunnels by which a peer can be reached.
func (b wireguard) Tunnels(own, peer subnet.Lease) (all subnet.Pair[backend.Tunnels]) {
	for _, f := range subnet.Families {
		if b.second[f].Name == "" || !own.Subnets[f].IsValid() || !peer.Subnets[f].IsValid() {
			continue
		}
		d, err := b.dataOf(peer, f)
		if err != nil {
			continue
		}
		if second, two := b.secondOf(peer, d, f); two {
			all[f] = backend.Tunnels{First: backend.SessionKey{Link: b.devices[f].Name, Peer: d.key}, Second: second, PreferSecond: b.prefersSecond(d)}
		}
	}
	return all
}
