package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/status"
)

// The codes that tulled exits with. Documentation/commands.md lists them.
const (
	exitFine     = 0
	exitFailing  = 1 // not ready, something is wrong with what was asked for, or the work failed
	exitUsage    = 2 // a flag, a variable or an argument is wrong; nothing was done
	exitNoDaemon = 3 // no tulled answers on this host
)

// errFailing ends a command that has printed what is wrong.
var errFailing = errors.New("failing")

// exitCode returns the code for what a command ended with.
func exitCode(err error) int {
	var usage *flags.Error
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, status.ErrNoDaemon):
		return exitNoDaemon
	}
	return exitFailing
}

// exit prints the reason for a failure, unless the command has, and returns the
// code to exit with.
func exit(err error, out io.Writer) int {
	if err != nil && !errors.Is(err, errFailing) {
		fmt.Fprintln(out, "tulled:", err)
	}
	return exitCode(err)
}
