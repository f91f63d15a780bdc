// Command tulled gives a host of a cluster its piece of one flat container
// network.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/alloc"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/ipip"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/options"
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
	err := run(ownArguments(os.Args[1:]), os.Environ(), os.Stdin, os.Stdout)
	if err == nil {
		return
	}
	if !errors.Is(err, errNotReady) { // which was said
		fmt.Fprintln(os.Stderr, "tulled:", err)
	}
	os.Exit(1)
}

// run does what the command line and the environment say.
func run(args, environ []string, in io.Reader, out io.Writer) error {
	o, err := options.Parse(args, environ)
	if err != nil {
		return err
	}
	switch o.Command {
	case options.ShowHelp:
		return options.Help(out)
	case options.ShowVersion:
		_, err := fmt.Fprintln(out, version)
		return err
	case options.ShowManPage:
		return options.ManPage(out)
	case options.ShowCompletion:
		return options.Completion(out, o.Shell)
	case options.CheckConfig:
		return checkConfig(o.ConfigFile, in, out)
	case options.InstallCNI:
		return installCNI(o.Plugins, out)
	}
	if err := setUpLog(o); err != nil {
		return err
	}
	switch o.Command {
	case options.BugReport:
		return reportBug(o, out)
	case options.CleanUp:
		return cleanUp(o, out)
	case options.Leases:
		return listLeases(o, out)
	case options.Status, options.Peers, options.Explain:
		return ask(o, out)
	}
	return runDaemon(o)
}
