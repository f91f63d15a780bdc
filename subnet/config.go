package subnet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
)

// Config is what all nodes of a network agree on. Two configs are equal exactly if ==
// reports it.
type Config struct {
	// Pools are what subnets are leased from. A family that is off has the zero Pool.
	Pools Pair[Pool]
	// Given reports that something else gives the nodes their subnets, as Kubernetes
	// does. A subnet may then be any part of the network, of any length. The store
	// sets it; no config contains it.
	Given          bool
	EnableNFTables Choice
	Backend        Backend
}

// Choice is a boolean that may be unset.
type Choice uint8

// The choices.
const (
	Unset Choice = iota
	No
	Yes
)

func (c Choice) String() string { return [...]string{"open", "false", "true"}[c] }

// Allows reports whether a node of this network may lease subnets: one from the pool
// of each family that is on, and none of a family that is off.
func (c Config) Allows(subnets Pair[netip.Prefix]) bool {
	for f, pool := range c.Pools {
		has := pool.Has
		if c.Given {
			has = pool.Holds
		}
		if pool.IsValid() != subnets[f].IsValid() || pool.IsValid() && !has(subnets[f]) {
			return false
		}
	}
	return c.Pools != Pair[Pool]{}
}

// Networks returns the network of each family; a family that is off has none.
func (c Config) Networks() Pair[netip.Prefix] {
	return Pair[netip.Prefix]{c.Pools[IPv4].Network, c.Pools[IPv6].Network}
}

// ConfigError is one problem in a config: the value, why it cannot work, and what
// would.
type ConfigError struct {
	Key   string // as the documentation writes it, like "SubnetLen" or "Backend.VNI"; "" for the whole config
	Value string // what the config has; "" for an absent value, or one that may be a secret
	Why   string
	Fix   string
}

func (e *ConfigError) Error() string {
	text := "network config: "
	if e.Key != "" {
		text += e.Key
		if e.Value != "" {
			text += " is " + e.Value
		}
		text += ": "
	}
	return fmt.Sprintf("%s%s; %s", text, e.Why, e.Fix)
}

// document is the config as written. It keeps every value raw, so that an error can
// name the key of a wrong one. encoding/json matches keys as flannel does: case does
// not matter, and the last of several wins.
type document struct {
	EnableIPv4, EnableIPv6, EnableNFTables                   json.RawMessage
	Network, SubnetLen, SubnetMin, SubnetMax                 json.RawMessage
	IPv6Network, IPv6SubnetLen, IPv6SubnetMin, IPv6SubnetMax json.RawMessage
	Backend                                                  json.RawMessage
}

// ConfigKeys returns the keys of a config as the documentation writes them.
func ConfigKeys() []string {
	var keys []string
	for field := range reflect.TypeFor[document]().Fields() {
		keys = append(keys, field.Name)
	}
	return keys
}

// ParseConfig reads a network's config; its error is a *ConfigError. It ignores the
// keys of a family that is off.
func ParseConfig(data []byte) (Config, error) {
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return Config{}, &ConfigError{
			Why: "not a JSON object: " + err.Error(),
			Fix: `write one like {"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan"}}`,
		}
	}
	cfg, on := Config{}, Pair[bool]{IPv4: true}
	var nftables *bool
	var r reader
	r.field("EnableIPv4", doc.EnableIPv4, &on[IPv4], "a boolean", "true or false")
	r.field("EnableIPv6", doc.EnableIPv6, &on[IPv6], "a boolean", "true or false")
	r.field("EnableNFTables", doc.EnableNFTables, &nftables, "a boolean", "true or false")
	if r.err != nil {
		return Config{}, r.err
	}
	if nftables != nil {
		cfg.EnableNFTables = map[bool]Choice{false: No, true: Yes}[*nftables]
	}
	if !on[IPv4] && !on[IPv6] {
		return Config{}, &ConfigError{
			Key:   "EnableIPv4",
			Value: "false",
			Why:   "EnableIPv6 is off too, which leaves no family",
			Fix:   "set one of the two to true",
		}
	}
	pools := Pair[poolDocument]{
		IPv4: {doc.Network, doc.SubnetLen, doc.SubnetMin, doc.SubnetMax},
		IPv6: {doc.IPv6Network, doc.IPv6SubnetLen, doc.IPv6SubnetMin, doc.IPv6SubnetMax},
	}
	var err error
	for _, f := range Families {
		if !on[f] {
			continue
		}
		if cfg.Pools[f], err = pools[f].parse(f); err != nil {
			return Config{}, err
		}
	}
	if cfg.Backend, err = parseBackend(doc.Backend); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// reader decodes values until one is wrong.
type reader struct{ err error }

// field decodes raw, the value of key, into into. An absent value or null leaves the
// default in place. The error for a wrong value says what kind it must be, with an
// example.
func (r *reader) field(key string, raw json.RawMessage, into any, kind, example string) {
	if r.err != nil || isNull(raw) {
		return
	}
	if json.Unmarshal(raw, into) != nil {
		r.err = &ConfigError{key, shown(raw), "not " + kind, "write " + example}
	}
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// shown returns a value as errors show it, cut to 80 bytes. It does not show objects
// and lists, which no key takes: they may hold secrets.
func shown(raw json.RawMessage) string {
	const enough = 80
	switch {
	case bytes.HasPrefix(raw, []byte("{")):
		return "an object"
	case bytes.HasPrefix(raw, []byte("[")):
		return "a list"
	}
	if len(raw) <= enough {
		return string(raw)
	}
	return string(raw[:enough]) + "…"
}
