// Command tulle-controller is the cluster-wide side of tulle: it gives the Nodes of a
// Kubernetes cluster their podCIDRs, and manages their instances, routes and load
// balancers in a cloud.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/flags"
)

// version is set by the linker.
var version = "devel"

func main() {
	os.Exit(exit(run(os.Args[1:], os.Environ(), os.Stdout), os.Stderr))
}

// The codes that tulle-controller exits with. Documentation/controller.md lists them.
const (
	exitFine    = 0
	exitFailing = 1 // the work failed
	exitUsage   = 2 // a flag, a variable or an argument is wrong; nothing was done
	exitPending = 2 // of the command plan: there is something to write
)

// errPending ends the command plan if there is something to write.
var errPending = errors.New("pending")

// planUsageError is a wrong flag of the command plan, whose code 2 means something else.
type planUsageError struct{ error }

func (e planUsageError) Unwrap() error { return e.error }

// exit prints the reason for a failure, and returns the code to exit with.
func exit(err error, out io.Writer) int {
	if err == nil {
		return exitFine
	}
	if errors.Is(err, errPending) {
		return exitPending
	}
	fmt.Fprintln(out, "tulle-controller:", legible(err.Error()))
	if _, of := errors.AsType[planUsageError](err); of {
		return exitFailing
	}
	if _, usage := errors.AsType[*flags.Error](err); usage {
		return exitUsage
	}
	return exitFailing
}

// run runs the command of the command line and the environment.
func run(args, environ []string, out io.Writer) error {
	var s settings
	p := s.program()
	given, err := p.Read(args, environ)
	switch {
	case err != nil:
		return err
	case given.Wants(flags.Help.Name):
		return writeHelp(p, out, given.Command())
	case given.Wants(flags.Version.Name):
		return printVersion(answer.Text, out)
	}
	err = given.Apply()
	switch {
	case err != nil:
	case s.command.needsCluster():
		err = s.check(given)
	case s.command == doNetwork:
		err = s.checkNetwork(given)
	}
	if err != nil {
		if given.Command() == "plan" || s.command == doNetwork && s.network.do == networkPlan {
			return planUsageError{err}
		}
		return err
	}
	switch s.command {
	case showHelp:
		return writeHelp(p, out, s.topic)
	case showVersion:
		return printVersion(s.output, out)
	case showManPage:
		return p.WriteManual(out)
	case showCompletion:
		return p.WriteCompletion(out, s.shell)
	}
	if err := setUpLog(s.verbosity); err != nil {
		return err
	}
	switch s.command {
	case doNetwork:
		return s.runNetwork(os.Stdin, out, os.Stderr)
	case showPlan:
		return s.plan(out)
	case showIPAM:
		return s.ipam(out)
	case showRoutes:
		return s.routes(out)
	case showNode:
		return s.explain(out)
	}
	s.given = given.Written
	return s.serve()
}

func writeHelp(p flags.Program, out io.Writer, command string) error {
	if command != "" {
		return p.WriteCommandHelp(out, command)
	}
	return p.WriteHelp(out)
}

// versionAnswer is which version this program is.
type versionAnswer struct {
	Version string `json:"version"`
}

func printVersion(f answer.Format, out io.Writer) error {
	return answer.Write(f, out, "version", versionAnswer{version}, func() error {
		_, err := fmt.Fprintln(out, version)
		return err
	})
}

// setUpLog sends the log to standard error.
func setUpLog(verbosity int) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	return errors.Join(flags.Set("logtostderr", "true"), flags.Set("v", strconv.Itoa(verbosity)))
}
