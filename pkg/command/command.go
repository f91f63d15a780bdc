// Package command runs what the command line requests: the daemon, or one of the
// commands that do their work and end.
package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/daemon"
	"github.com/tulle-net/tulle/pkg/options"
)

// program is what only package main knows of the program.
type program struct {
	version  string
	backends map[string]backend.Factory // by their names in a config
}

// types returns the types of backends.
func (p program) types() []string { return slices.Sorted(maps.Keys(p.backends)) }

// Main runs the process's command line and returns the exit code.
func Main(version string, backends map[string]backend.Factory) int {
	p := program{version, backends}
	return exit(p.run(ownArguments(os.Args[1:]), os.Environ(), os.Stdin, os.Stdout), os.Stderr)
}

// versionAnswer is the version of this program.
type versionAnswer struct {
	Version string `json:"version"`
}

// run does what the command line and the environment request.
func (p program) run(args, environ []string, in io.Reader, out io.Writer) error {
	o, err := options.Parse(args, environ, p.types())
	if err != nil {
		return err
	}
	switch o.Command {
	case options.ShowHelp:
		return options.Help(out, o.Topic)
	case options.ShowVersion:
		a := versionAnswer{p.version}
		return answer.Write(o.Output, out, "version", a, func() error { _, err := fmt.Fprintln(out, p.version); return err })
	case options.ShowManPage:
		return options.ManPage(out)
	case options.ShowCompletion:
		return options.Completion(out, o.Shell, p.types())
	case options.CheckConfig:
		return checkConfig(o, p.backends, in, out)
	case options.InstallCNI:
		return installCNI(o, out)
	}
	if err := setUpLog(o); err != nil {
		return err
	}
	switch o.Command {
	case options.BugReport:
		return p.reportBug(o, out)
	case options.CleanUp:
		return cleanUp(o, out)
	case options.Leases:
		return listLeases(o, p.backends, out)
	case options.Status:
		return showStatus(context.Background(), o, out)
	case options.Peers:
		return listPeers(context.Background(), o, out)
	case options.RotateKey:
		return rotateKey(context.Background(), o, out)
	case options.Explain:
		return explain(context.Background(), o, out)
	}
	return daemon.Run(o, p.version, p.backends)
}
