// Package command runs what the command line asks for: the daemon, or one of the
// commands that do their work and end.
package command

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/daemon"
	"github.com/tulle-net/tulle/pkg/options"
)

// program is what only package main knows of the program.
type program struct {
	version  string
	backends map[string]backend.Factory // by the name that a config calls them by
}

// Main runs the process's command line and returns the code to exit with.
func Main(version string, backends map[string]backend.Factory) int {
	p := program{version, backends}
	return exit(p.run(ownArguments(os.Args[1:]), os.Environ(), os.Stdin, os.Stdout), os.Stderr)
}

// run does what the command line and the environment say.
func (p program) run(args, environ []string, in io.Reader, out io.Writer) error {
	o, err := options.Parse(args, environ)
	if err != nil {
		return err
	}
	switch o.Command {
	case options.ShowHelp:
		return options.Help(out)
	case options.ShowVersion:
		_, err := fmt.Fprintln(out, p.version)
		return err
	case options.ShowManPage:
		return options.ManPage(out)
	case options.ShowCompletion:
		return options.Completion(out, o.Shell, slices.Sorted(maps.Keys(p.backends)))
	case options.CheckConfig:
		return checkConfig(o.ConfigFile, p.backends, in, out)
	case options.InstallCNI:
		return installCNI(o.Plugins, out)
	}
	if err := setUpLog(o); err != nil {
		return err
	}
	switch o.Command {
	case options.BugReport:
		return reportBug(o, p.version, out)
	case options.CleanUp:
		return cleanUp(o, out)
	case options.Leases:
		return listLeases(o, out)
	case options.Status, options.Peers, options.Explain:
		return ask(o, out)
	}
	return daemon.Run(o, p.version, p.backends)
}
