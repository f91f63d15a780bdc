package command

import (
	"fmt"
	"io"
	"os"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/subnet"
)

// checkConfig reads a config from a file, or from in where file is empty, and
// writes what it means, or returns what is wrong with it.
func checkConfig(file string, backends map[string]backend.Factory, in io.Reader, out io.Writer) error {
	if file != "" {
		f, err := os.Open(file)
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
	cfg, err := subnet.ParseConfig(text)
	if err != nil {
		return err
	}
	factory, ok := backends[cfg.Backend.Type]
	if !ok {
		return network.UnknownBackend(cfg, backends)
	}
	if _, err := factory(cfg, backend.HostFacts{}); err != nil {
		return err
	}
	for f, p := range cfg.Pools {
		if p.IsValid() {
			fmt.Fprintf(out, "%s: %s, %d subnets of /%d from %s to %s\n", subnet.Family(f), p.Network, p.Count(), p.SubnetLen, p.Min, p.Max)
		}
	}
	if kind := map[subnet.Choice]string{subnet.No: "iptables", subnet.Yes: "nftables"}[cfg.EnableNFTables]; kind != "" {
		fmt.Fprintf(out, "firewall: %s on hosts without --filter\n", kind)
	}
	_, err = fmt.Fprintf(out, "backend: %s\n", cfg.Backend.Type)
	return err
}
