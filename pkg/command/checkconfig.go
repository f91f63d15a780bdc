package command

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"strings"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/configcheck"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// configAnswer is what a config means.
type configAnswer struct {
	Valid bool `json:"valid"`
	// Problem is why the config is rejected. In that case everything that depends on it
	// is missing.
	Problem  *configProblem        `json:"problem,omitempty"`
	Warnings []configcheck.Warning `json:"warnings,omitempty"`
	// Exposed are files with secrets, named by this command's flags, that every user of
	// the host may read or write.
	Exposed  []string     `json:"exposed,omitempty"`
	Pools    []poolAnswer `json:"pools,omitempty"` // of the families that are on
	Backend  string       `json:"backend,omitempty"`
	Settings any          `json:"settings,omitempty"` // the keys of Backend, with defaults
	// MTU is the containers', on hosts whose uplink has UplinkMTU.
	MTU       int    `json:"mtu,omitempty"`
	UplinkMTU int    `json:"uplinkMTU,omitempty"`
	Firewall  string `json:"firewall,omitempty"` // on hosts without --filter: auto, nftables or iptables
}

// configProblem is why a config is rejected.
type configProblem struct {
	Key   string `json:"key,omitempty"` // "" is the config as a whole
	Value string `json:"value,omitempty"`
	Why   string `json:"why"`
	Fix   string `json:"fix"`
}

// poolAnswer is the pool from which one family's subnets are leased.
type poolAnswer struct {
	Family    string       `json:"family"`
	Network   netip.Prefix `json:"network"`
	SubnetLen int          `json:"subnetLen"`
	First     netip.Addr   `json:"first"`
	Last      netip.Addr   `json:"last"`
	Subnets   uint64       `json:"subnets"`
}

// usualMTU is the uplink's MTU with which check-config calculates.
const usualMTU = 1500

// checkConfig reads a config from a file, or else from in, and explains it or its
// problem.
func checkConfig(o options.Options, backends map[string]backend.Factory, in io.Reader, out io.Writer) error {
	if o.ConfigFile != "" {
		f, err := os.Open(o.ConfigFile)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	a, refused := explainConfig(text, backends)
	a.Exposed = o.Exposed()
	if err := answer.Write(o.Output, out, "config", a, func() error {
		return painted(out, func(to io.Writer) error { return writeConfig(to, a) })
	}); err != nil {
		return err
	}
	switch n, open := len(a.Warnings), len(a.Exposed); {
	case refused != nil:
		return refused
	case o.Strict && n > 0:
		return fmt.Errorf("%d of the config's keys have no effect, and --strict makes that an error", n)
	case o.Strict && open > 0:
		return fmt.Errorf("--strict: files with secrets that every user of this host may read or write: %d; run the commands in the warnings", open)
	}
	return nil
}

// explainConfig returns what a config means, and why it is rejected.
func explainConfig(text []byte, backends map[string]backend.Factory) (configAnswer, error) {
	a := configAnswer{Warnings: configcheck.Check(text, backendKeys(backends))}
	cfg, err := subnet.ParseConfig(text)
	var b backend.Backend
	if err == nil {
		b, err = makeBackend(cfg, backends)
	}
	var refusal *subnet.ConfigError
	switch {
	case errors.As(err, &refusal):
		a.Problem = &configProblem{refusal.Key, refusal.Value, refusal.Why, refusal.Fix}
	case err != nil:
		a.Problem = &configProblem{Why: err.Error()}
	}
	if err != nil {
		return a, err
	}
	a.Valid = true
	for f, p := range cfg.Pools {
		if p.IsValid() {
			a.Pools = append(a.Pools, poolAnswer{subnet.Family(f).String(), p.Network, p.SubnetLen, p.Min, p.Max, p.Count()})
		}
	}
	a.Backend, a.Settings, a.MTU, a.UplinkMTU = cfg.Backend.Type, b.Settings(), b.MTU(), usualMTU
	a.Firewall = [...]string{subnet.Unset: "auto", subnet.No: "iptables", subnet.Yes: "nftables"}[cfg.EnableNFTables]
	return a, nil
}

// makeBackend returns a config's backend, for a typical host.
func makeBackend(cfg subnet.Config, backends map[string]backend.Factory) (backend.Backend, error) {
	factory, exists := backends[cfg.Backend.Type]
	if !exists {
		return nil, network.UnknownBackend(cfg, backends)
	}
	var h backend.HostFacts
	for f, p := range cfg.Pools {
		if p.IsValid() {
			h.Uplinks[f] = backend.Uplink{Link: "uplink", MTU: usualMTU}
		}
	}
	return factory(cfg, h)
}

// backendKeys returns the keys of each type of backend.
func backendKeys(backends map[string]backend.Factory) map[string][]string {
	all := make(map[string][]string, len(backends))
	for kind, factory := range backends {
		all[kind] = nil
		if b, err := factory(subnet.Config{Backend: subnet.Backend{Type: kind}}, backend.HostFacts{}); err == nil {
			for _, s := range settings(b.Settings()) {
				all[kind] = append(all[kind], s.key)
			}
		}
	}
	return all
}

// setting is one key of a backend, with its value in force.
type setting struct {
	key   string
	value any
}

// settings returns the fields of a struct.
func settings(of any) (all []setting) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		all = append(all, setting{v.Type().Field(i).Name, v.Field(i).Interface()})
	}
	return all
}

// writeConfig writes what a config means, for people.
func writeConfig(out io.Writer, a configAnswer) error {
	for _, w := range a.Warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	for _, text := range a.Exposed {
		fmt.Fprintf(out, "warning: %s\n", text)
	}
	if !a.Valid {
		return nil // the error has the reason
	}
	for _, p := range a.Pools {
		fmt.Fprintf(out, "%s: %s, %d subnets of /%d from %s to %s\n", p.Family, p.Network, p.Subnets, p.SubnetLen, p.First, p.Last)
	}
	fmt.Fprintf(out, "backend: %s\n", strings.Join(append([]string{a.Backend}, words(a.Settings)...), ", "))
	fmt.Fprintf(out, "container MTU: %d on hosts whose uplink has %d\n", a.MTU, a.UplinkMTU)
	firewall := "chosen by each host"
	if a.Firewall != "auto" {
		firewall = a.Firewall + " on hosts without --filter"
	}
	_, err := fmt.Fprintf(out, "firewall: %s\n", firewall)
	return err
}

// words returns the values of a backend's keys in force, for people.
func words(of any) (all []string) {
	for _, s := range settings(of) {
		word := fmt.Sprintf("%s %v", s.key, s.value)
		if s.key == "MTU" && s.value == 0 {
			word = "MTU of the uplink"
		}
		all = append(all, word)
	}
	return all
}
