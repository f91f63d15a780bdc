package program

import (
	"fmt"
	"io"
	"strings"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/flags"
)

// CommandLine is that of a program whose flags set one Job.
type CommandLine struct {
	// Program describes it, without commands and without the flags that all programs have.
	Program flags.Program
	Runs    string // the command without a name, in the help
	Version string
	// Spec and Job return what its flags say, once they are set.
	Spec func() companion.Spec
	Job  func() Job

	command command
	shell   string // of showCompletion
}

type command int

const (
	runIt command = iota
	stopIt
	showVersion
	showManPage
	showCompletion
)

// Group is the heading of the flags in the help.
const Group = "Flags"

// Run does what the command line and the environment say.
func (c *CommandLine) Run(args, environ []string, out io.Writer) error {
	to := func(what command) func(string) error {
		return func(string) error { c.command = what; return nil }
	}
	p := c.Program
	p.Commands = []flags.Command{
		{Value: "[flags]", About: c.Runs},
		{Name: "stop", About: "stop the one that runs on --data-dir, and wait for its end", Set: to(stopIt)},
		{Name: "version", About: "print the version", Set: to(showVersion)},
		{Name: "man", About: "print the manual page", Set: to(showManPage)},
		{Name: "completion", Value: "SHELL", About: "print completions for bash, zsh or fish", Choices: flags.Shells(), Set: c.complete},
	}
	p.Flags = append(p.Flags, flags.Help.In(Group), flags.Version.In(Group))
	given, err := p.Read(args, environ)
	switch {
	case err != nil:
		return err
	case given.Wants(flags.Help.Name):
		return p.WriteHelp(out)
	case given.Wants(flags.Version.Name):
		return c.printVersion(out)
	}
	if err := given.Apply(); err != nil {
		return err
	}
	switch c.command {
	case stopIt:
		return stop(c.Spec(), out)
	case showVersion:
		return c.printVersion(out)
	case showManPage:
		return p.WriteManual(out)
	case showCompletion:
		return p.WriteCompletion(out, c.shell)
	}
	return c.Job().Run()
}

func (c *CommandLine) printVersion(out io.Writer) error {
	_, err := fmt.Fprintln(out, c.Version)
	return err
}

// complete sets the shell that completions are for.
func (c *CommandLine) complete(shell string) error {
	if shell == "" {
		return &flags.Error{Why: "completion needs a shell", Fix: "use one of " + strings.Join(flags.Shells(), ", ")}
	}
	c.command, c.shell = showCompletion, shell
	return nil
}
