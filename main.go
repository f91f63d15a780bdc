// Command tulled gives a host of a cluster its piece of one flat container
// network.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/alloc"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/ipip"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/subnet"
)

// version is set by the linker.
var version = "devel"

// backends are all there are, by the name that a config calls them by.
var backends = map[string]backend.Factory{
	alloc.Type:  alloc.New,
	hostgw.Type: hostgw.New,
	ipip.Type:   ipip.New,
	vxlan.Type:  vxlan.New,
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		if !errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "tulled:", err)
			os.Exit(1)
		}
	}
}

const usage = `tulled check-config [FILE]   say what a network config means, or what is wrong with it
tulled --version
`

func run(args []string, in io.Reader, out io.Writer) error {
	flags := pflag.NewFlagSet("tulled", pflag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(out, usage) }
	showVersion := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *showVersion:
		_, err := fmt.Fprintln(out, version)
		return err
	case flags.Arg(0) == "check-config" && flags.NArg() <= 2:
		return checkConfig(flags.Arg(1), in, out)
	}
	flags.Usage()
	return errors.New("nothing to do")
}

// checkConfig reads a config from a file, or from in where file is empty.
func checkConfig(file string, in io.Reader, out io.Writer) error {
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
		return &subnet.ConfigError{
			Key: "Backend.Type", Value: cfg.Backend.Type, Why: "there is no such backend",
			Fix: "set it to alloc, host-gw, ipip or vxlan",
		}
	}
	if _, err := factory(cfg, backend.Host{}); err != nil {
		return err
	}
	for f, p := range cfg.Pools {
		if p.IsValid() {
			fmt.Fprintf(out, "%s: %s, %d subnets of /%d from %s to %s\n", subnet.Family(f), p.Network, p.Count(), p.SubnetLen, p.Min, p.Max)
		}
	}
	_, err = fmt.Fprintf(out, "backend: %s\n", cfg.Backend.Type)
	return err
}
