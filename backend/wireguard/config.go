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

// config has the backend's keys, as they may be shown.
type config struct {
	Mode                        string
	ListenPort                  uint16
	ListenPortV6                uint16 // of separate's second device
	MTU                         int    // of the packets on the wire; 0: the device's
	PersistentKeepaliveInterval uint16 // seconds; 0: never
	PSK                         string // never the key itself
}

// hidden stands for a preshared key.
const hidden = "(set)"

// parse returns the config, and the reference to its preshared key.
func parse(cfg subnet.Config) (c config, psk netstate.PSK, err error) {
	c = config{Mode: separate, ListenPort: 51820, ListenPortV6: 51821}
	if err := cfg.Backend.Decode(&c); err != nil {
		return config{}, 0, err
	}
	if c.PSK != "" {
		if psk, err = parsePSK(c.PSK); err != nil {
			return config{}, 0, err
		}
		c.PSK = hidden
	}
	switch c.Mode {
	case separate, auto, overIPv4, overIPv6:
	default:
		return config{}, 0, &subnet.ConfigError{
			Key: "Backend.Mode", Value: fmt.Sprintf("%.80q", c.Mode), Why: "unknown value",
			Fix: `set it to "separate", "auto", "ipv4" or "ipv6", or leave it out for separate`,
		}
	}
	for key, port := range map[string]uint16{"ListenPort": c.ListenPort, "ListenPortV6": c.ListenPortV6} {
		if port == 0 {
			return config{}, 0, &subnet.ConfigError{
				Key: "Backend." + key, Value: "0", Why: "not a port that peers can know",
				Fix: "set it to one from 1 to 65535, or leave it out",
			}
		}
	}
	if c.Mode == separate && c.ListenPort == c.ListenPortV6 && cfg.Pools[subnet.IPv4].IsValid() && cfg.Pools[subnet.IPv6].IsValid() {
		return config{}, 0, &subnet.ConfigError{
			Key: "Backend.ListenPortV6", Value: fmt.Sprint(c.ListenPortV6), Why: "the same as ListenPort, and two devices need two ports",
			Fix: `set it to another one, or Mode to "auto" for one device`,
		}
	}
	return c, psk, c.checkMTU(cfg)
}

// parsePSK returns the reference to a preshared key. Its error does not quote the key.
func parsePSK(text string) (netstate.PSK, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != 32 || len(text) != 44 {
		return 0, &subnet.ConfigError{
			Key: "Backend.PSK", Why: "not a WireGuard key, which has 44 characters of base64",
			Fix: "set it to the output of «wg genpsk», or leave it out",
		}
	}
	return netstate.PSKOf([32]byte(raw)), nil
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
