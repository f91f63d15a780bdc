package wireguard

import (
	"encoding/base64"
	"fmt"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// The modes.
const (
	separate = "separate" // a device for each family
	auto     = "auto"     // one device; a peer is reached in the family that is more likely to work
	overIPv4 = "ipv4"     // one device, over IPv4
	overIPv6 = "ipv6"     // one device, over IPv6
)

// The implementations.
const (
	automatic = "auto"      // the kernel's if it has one, otherwise userspace
	inKernel  = "kernel"    // the kernel's
	userSpace = "userspace" // a program behind a TUN device
)

// outer has the family of the packets on the wire, in the modes that require one.
var outer = map[string]subnet.Family{overIPv4: subnet.IPv4, overIPv6: subnet.IPv6}

// config has the backend's keys, as they may be shown.
type config struct {
	Mode                        string
	ListenPort                  uint16
	ListenPortV6                uint16 // of separate's second device
	MTU                         int    // of the packets on the wire; 0: the device's
	PersistentKeepaliveInterval uint16 // seconds; 0: never
	PSK                         string // never the key itself
	Implementation              string // kernel or userspace; auto only if a config is checked
	Strict                      bool   // packets for the network leave through the tunnel or not at all
	KeyDays                     int    // after which a node replaces its key; 0: never
}

// longestKeyDays is the most that KeyDays can be.
const longestKeyDays = 3650

// parse returns the config, and its preshared key.
func parse(cfg subnet.Config) (c config, psk presharedKey, err error) {
	c = config{Mode: separate, ListenPort: 51820, ListenPortV6: 51821, Implementation: automatic, Strict: true}
	if err := cfg.Backend.Decode(&c); err != nil {
		return config{}, presharedKey{}, err
	}
	if c.PSK != "" {
		if psk, err = parsePSK(c.PSK); err != nil {
			return config{}, presharedKey{}, err
		}
		c.PSK = psk.secret.String()
	}
	switch c.Mode {
	case separate, auto, overIPv4, overIPv6:
	default:
		return config{}, presharedKey{}, &subnet.ConfigError{
			Key: "Backend.Mode", Value: fmt.Sprintf("%.80q", c.Mode), Why: "unknown value",
			Fix: `set it to "separate", "auto", "ipv4" or "ipv6", or leave it out for separate`,
		}
	}
	switch c.Implementation {
	case automatic, inKernel, userSpace:
	default:
		return config{}, presharedKey{}, &subnet.ConfigError{
			Key: "Backend.Implementation", Value: fmt.Sprintf("%.80q", c.Implementation), Why: "unknown value",
			Fix: `set it to "kernel" or "userspace", or leave it out for the kernel's where there is one`,
		}
	}
	if over, ok := outer[c.Mode]; ok && !cfg.Pools[over].IsValid() {
		return config{}, presharedKey{}, &subnet.ConfigError{
			Key: "Backend.Mode", Value: c.Mode, Why: fmt.Sprintf("the network has no %s, and only then do nodes publish their addresses of that family", over),
			Fix: fmt.Sprintf("set Enable%s to true, or Mode to \"auto\"", over),
		}
	}
	for key, port := range map[string]uint16{"ListenPort": c.ListenPort, "ListenPortV6": c.ListenPortV6} {
		if port == 0 {
			return config{}, presharedKey{}, &subnet.ConfigError{
				Key: "Backend." + key, Value: "0", Why: "not a port that peers can know",
				Fix: "set it to one from 1 to 65535, or leave it out",
			}
		}
	}
	if c.Mode == separate && c.ListenPort == c.ListenPortV6 && cfg.Pools[subnet.IPv4].IsValid() && cfg.Pools[subnet.IPv6].IsValid() {
		return config{}, presharedKey{}, &subnet.ConfigError{
			Key: "Backend.ListenPortV6", Value: fmt.Sprint(c.ListenPortV6), Why: "the same as ListenPort, and two devices need two ports",
			Fix: `set it to another one, or Mode to "auto" for one device`,
		}
	}
	if c.KeyDays < 0 || c.KeyDays > longestKeyDays {
		return config{}, presharedKey{}, &subnet.ConfigError{
			Key: "Backend.KeyDays", Value: fmt.Sprint(c.KeyDays), Why: "not a number of days after which keys can be replaced",
			Fix: fmt.Sprintf("set it to one from 1 to %d, or leave it out for never", longestKeyDays),
		}
	}
	return c, psk, c.checkMTU(cfg)
}

// secondPorts returns the ports of the second devices, by family: the next ones after the
// ports of the first devices, so that all nodes have the same ones. After the last port
// comes the first one that needs no privilege.
func (c config) secondPorts() (ports subnet.Pair[uint16]) {
	const unprivileged = 1024
	port := max(c.ListenPort, c.ListenPortV6)
	for f := range ports {
		for {
			if port++; port == 0 {
				port = unprivileged
			}
			if port != c.ListenPort && port != c.ListenPortV6 {
				break
			}
		}
		ports[f] = port
	}
	return ports
}

// presharedKey is a preshared key with what refers to it.
type presharedKey struct {
	ref    netstate.PSK
	secret backend.Secret
}

// parsePSK reads a preshared key. Its error does not quote the key.
func parsePSK(text string) (presharedKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != 32 || len(text) != 44 {
		return presharedKey{}, &subnet.ConfigError{
			Key: "Backend.PSK", Why: "not a WireGuard key, which has 44 characters of base64",
			Fix: "set it to the output of «wg genpsk», or leave it out",
		}
	}
	return presharedKey{netstate.PSKOf([32]byte(raw)), backend.SecretOf(text)}, nil
}

// overhead is the size of the outer headers in IPv6, which flannel subtracts in both
// families: a peer may be reached in either, and all nodes have one MTU.
var overhead = netstate.TunnelOf(netstate.TunnelWireGuard).Overhead6

// checkMTU requires room for the smallest packet that all hosts must accept.
func (c config) checkMTU(cfg subnet.Config) error {
	least, most := 0, 65535
	for f, pool := range cfg.Pools {
		if pool.IsValid() {
			least = max(least, backend.MinimumMTU[f]+overhead)
		}
	}
	if c.MTU == 0 || c.MTU >= least && c.MTU <= most {
		return nil
	}
	return &subnet.ConfigError{
		Key: "Backend.MTU", Value: fmt.Sprint(c.MTU), Why: "out of range for a link that carries a tunnel",
		Fix: fmt.Sprintf("set it to one from %d to %d, or leave it out for the interface's", least, most),
	}
}
