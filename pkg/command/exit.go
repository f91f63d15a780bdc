package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/status"
)

// The exit codes of tulled. Documentation/commands.md lists them.
const (
	exitFine     = 0
	exitFailing  = 1 // not ready, a problem in what was checked, or the work failed
	exitUsage    = 2 // a flag, a variable or an argument is wrong; nothing was done
	exitNoDaemon = 3 // no daemon answers on this host
)

// errFailing ends a command that has printed the problem itself.
var errFailing = errors.New("failing")

// exitCode returns the exit code for an error.
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

// exit prints the reason for a failure, unless the command has, and returns the exit
// code.
func exit(err error, out io.Writer) int {
	if err != nil && !errors.Is(err, errFailing) {
		fmt.Fprintln(out, "tulled:", err)
	}
	return exitCode(err)
}
