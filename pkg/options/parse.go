package options

import (
	"github.com/tulle-net/tulle/pkg/flags"
)

// Parse reads a command line, without the program's name, and an environment as
// returned by os.Environ. A flag overrides a variable, and TULLED_X overrides
// FLANNELD_X. Backends are the types that exist. The error is a *flags.Error, and
// then there are no Options.
func Parse(args, environ, backends []string) (Options, error) {
	var o Options
	given, err := program(&o, backends).Read(args, environ)
	switch {
	case err != nil:
		return Options{}, err
	case given.Wants(flags.Help.Name):
		return Options{Command: ShowHelp, Topic: given.Command()}, nil
	case given.Wants(flags.Version.Name):
		return Options{Command: ShowVersion}, nil
	}
	if err := given.Apply(); err != nil {
		return Options{}, err
	}
	o.Given, o.Warnings = given.Written, given.Warnings
	if err := o.checkKube(given, environ); err != nil {
		return Options{}, err
	}
	if err := o.check(given); err != nil {
		return Options{}, err
	}
	return o, nil
}

// Secrets returns the parts of a command line, without the program's name, that are
// secrets. They share the memory of args.
func Secrets(args []string) []string { return program(new(Options), nil).Secrets(args) }
