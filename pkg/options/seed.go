package options

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// Seed is the network's config that an empty embedded etcd begins with, or ""
// where no network was given. subnet.ParseConfig takes it.
func (o Options) Seed() string {
	networks := o.Embedded.Networks
	if networks == (subnet.Pair[netip.Prefix]{}) {
		return ""
	}
	var config struct {
		EnableIPv4  *bool  `json:",omitempty"`
		Network     string `json:",omitempty"`
		EnableIPv6  bool   `json:",omitempty"`
		IPv6Network string `json:",omitempty"`
		Backend     struct{ Type string }
	}
	if n := networks[subnet.IPv4]; n.IsValid() {
		config.Network = n.String()
	} else {
		config.EnableIPv4 = new(bool)
	}
	if n := networks[subnet.IPv6]; n.IsValid() {
		config.EnableIPv6, config.IPv6Network = true, n.String()
	}
	config.Backend.Type = o.Embedded.Backend
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // there is nothing but texts and truth values
	}
	return string(text)
}

// trySeed says why nobody could use the seed, as an *flags.Error without a Flag.
func (o Options) trySeed() error {
	seed := o.Seed()
	if seed == "" {
		return nil
	}
	_, err := subnet.ParseConfig([]byte(seed))
	var wrong *subnet.ConfigError
	if errors.As(err, &wrong) {
		return flags.Refuse(strings.Trim(wrong.Value, `"`), wrong.Why, wrong.Fix)
	}
	return err
}
