// Package configcheck finds what is in a network config and has no effect: keys
// that are misspelt, misplaced, repeated or switched off.
package configcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// Warning is one thing in a config that has no effect.
type Warning struct {
	Code Code   `json:"code"`
	Key  string `json:"key"` // "Bakend", "Backend.VNI"
	Why  string `json:"why"`
	Fix  string `json:"fix"`
}

// String returns the warning in a line.
func (w Warning) String() string { return fmt.Sprintf("%s: %s; %s", w.Key, w.Why, w.Fix) }

// Code is the kind of a Warning.
type Code string

// The codes.
const (
	UnknownKey   Code = "unknown-key"
	MisplacedKey Code = "misplaced-key" // it belongs into Backend, or out of it
	DuplicateKey Code = "duplicate-key"
	NoEffect     Code = "no-effect" // a key of a family that is off, or of another backend
	HostBits     Code = "host-bits"
)

// Codes lists all codes.
func Codes() []Code { return []Code{UnknownKey, MisplacedKey, DuplicateKey, NoEffect, HostBits} }

// Check returns what has no effect in a config. Backends are the keys of each type
// of backend. A config that subnet.ParseConfig refuses has warnings, too: they
// often name the cause.
func Check(config []byte, backends map[string][]string) []Warning {
	c := checker{backends: backends, all: entries(config)}
	c.own = entries(last(c.all, "Backend"))
	c.kind = "vxlan"
	if text, ok := text(last(c.own, "Type")); ok && text != "" {
		c.kind = strings.ToLower(text)
	}
	c.network()
	c.backend()
	return c.warnings
}

// checker collects the warnings about one config.
type checker struct {
	backends map[string][]string
	all, own []entry // of the config, and of its Backend
	kind     string  // the backend's type
	warnings []Warning
}

func (c *checker) warn(code Code, key, why, fix string) {
	c.warnings = append(c.warnings, Warning{code, shown(key), why, fix})
}

// network checks the keys of the config itself.
func (c *checker) network() {
	keys := subnet.ConfigKeys()
	c.duplicates("", c.all)
	for _, e := range c.all {
		key, known := named(e.key, keys)
		switch {
		case !known:
			c.unknown(e.key, keys)
		case !e.isSet():
		case ofFamily(key, subnet.IPv6) && !c.on(subnet.IPv6):
			c.warn(NoEffect, key, "no effect while IPv6 is off", `add "EnableIPv6": true, or remove the key`)
		case ofFamily(key, subnet.IPv4) && !c.on(subnet.IPv4):
			c.warn(NoEffect, key, "no effect while IPv4 is off", `remove "EnableIPv4": false, or the key`)
		case key == "Network" || key == "IPv6Network":
			c.hostBits(key, e.value)
		}
	}
}

// unknown warns about a key that a config does not have.
func (c *checker) unknown(key string, keys []string) {
	if name, types := c.ofBackends(key); types != nil {
		c.warn(MisplacedKey, key, "no effect here", fmt.Sprintf(`move it into Backend: {"Backend": {"Type": %q, %q: …}}`, c.typeFor(types), name))
		return
	}
	c.warn(UnknownKey, key, "unknown key", flags.DidYouMean(flags.Nearest(key, keys), "remove it"))
}

// backend checks the keys of the config's Backend.
func (c *checker) backend() {
	keys, exists := c.backends[c.kind]
	if !exists {
		return // the config is refused
	}
	keys = append([]string{"Type"}, keys...)
	c.duplicates("Backend.", c.own)
	for _, e := range c.own {
		if _, known := named(e.key, keys); known {
			continue
		}
		key := "Backend." + e.key
		name, types := c.ofBackends(e.key)
		above, misplaced := named(e.key, subnet.ConfigKeys())
		switch {
		case types != nil:
			c.warn(NoEffect, "Backend."+name, "no effect with "+c.kind, "remove it; it is a key of "+strings.Join(types, " and "))
		case misplaced && above != "Backend":
			c.warn(MisplacedKey, key, "no effect inside Backend", "move it out of Backend")
		default:
			near := flags.Nearest(e.key, keys)
			if near != "" {
				near = "Backend." + near
			}
			c.warn(UnknownKey, key, "unknown key of "+c.kind, flags.DidYouMean(near, "remove it"))
		}
	}
}

// duplicates warns about keys that an object has more than once.
func (c *checker) duplicates(prefix string, all []entry) {
	counts := make(map[string]int)
	for _, e := range all {
		key := strings.ToLower(e.key)
		if counts[key]++; counts[key] == 2 {
			c.warn(DuplicateKey, prefix+e.key, "more than once; the last one counts", "keep one")
		}
	}
}

// hostBits warns about a network that names more than its prefix.
func (c *checker) hostBits(key string, value json.RawMessage) {
	written, _ := text(value)
	network, err := netip.ParsePrefix(written)
	if err == nil && network != network.Masked() {
		c.warn(HostBits, key, "no effect of the bits after the prefix in "+network.String(), "write "+network.Masked().String())
	}
}

// on reports whether a family is on.
func (c *checker) on(f subnet.Family) bool {
	on := f == subnet.IPv4
	_ = json.Unmarshal(last(c.all, "Enable"+f.String()), &on) // ParseConfig refuses the rest
	return on
}

// ofFamily reports whether a key is of one family's pool.
func ofFamily(key string, f subnet.Family) bool {
	pool, isIPv6 := strings.CutPrefix(key, "IPv6")
	return isIPv6 == (f == subnet.IPv6) && (pool == "Network" || strings.HasPrefix(pool, "Subnet"))
}

// ofBackends returns the types of backends that have a key, and its name there.
func (c *checker) ofBackends(key string) (name string, types []string) {
	for _, kind := range slices.Sorted(maps.Keys(c.backends)) {
		if n, ok := named(key, c.backends[kind]); ok {
			name, types = n, append(types, kind)
		}
	}
	return name, types
}

// typeFor returns the config's type of backend, if it is among types, or the
// first of them.
func (c *checker) typeFor(types []string) string {
	if slices.Contains(types, c.kind) {
		return c.kind
	}
	return types[0]
}

func text(value json.RawMessage) (s string, ok bool) {
	return s, json.Unmarshal(value, &s) == nil
}

// shown returns a key as a person may read it: short, and without control
// characters.
func shown(key string) string {
	const enough = 60
	if len(key) > enough {
		key = strings.ToValidUTF8(key[:enough], "") + "…"
	}
	quoted := fmt.Sprintf("%q", key)
	if key != "" && quoted == `"`+key+`"` {
		return key
	}
	return quoted
}
