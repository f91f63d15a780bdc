package options

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// Seed returns the first config of an empty embedded etcd, or "" without a network.
// subnet.ParseConfig accepts it.
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
		panic(err) // it contains only strings and booleans
	}
	return string(text)
}

// Ignored returns the flags for an empty embedded etcd that differ from its present
// config, as they were given.
func (o Options) Ignored(cfg subnet.Config) (given []string) {
	seed, err := subnet.ParseConfig([]byte(o.Seed()))
	if err != nil || cfg == (subnet.Config{}) {
		return nil // no --network
	}
	if seed.Networks() != cfg.Networks() {
		given = o.given("network")
	}
	if seed.Backend.Type != cfg.Backend.Type {
		given = append(given, o.given("backend")...)
	}
	return given
}

// given returns a flag as it was given, or "" for a default.
func (o Options) given(name string) (all []string) {
	f := flags.Flag{Name: name}
	for _, g := range o.Given {
		from, _, _ := strings.Cut(g, "=")
		if from == f.Written() || from == ours+f.Variable() || from == flannels+f.Variable() {
			all = append(all, g)
		}
	}
	return all
}

// trySeed returns why no node could use the seed, as an *flags.Error without a Flag.
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
