package daemon

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/dataplane"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/runner"
	"github.com/tulle-net/tulle/pkg/status"
)

// plane is the kernel with its engines, and what only the kernel knows of the host.
type plane struct {
	*dataplane.Dataplane
	hostif.Source
}

// newRunner returns what runs the commands of a network's config, and what is woken when
// the one that prepares this host has ended.
func newRunner(o options.Options) (*runner.Runner, <-chan struct{}) {
	prepared := retry.NewWakeup()
	return runner.New(runner.Options{Dir: o.StateDir, Refused: refused(o), Env: CommandEnv(os.Environ()), Prepared: prepared.Wake}), prepared
}

// refused returns why no command may run here, or nil. Who may write the network's config
// must not be root on every node just because of that.
func refused(o options.Options) error {
	switch {
	case !o.AllowExtension:
		return errors.New("the network's config has commands, which would run as root: set " + options.Name("allow-extension") +
			" to true if you trust all who may write that config, or change the config's Backend")
	case o.StateDir == "":
		return errors.New("commands need a folder in which it is recorded what they did: set " + options.Name("state-dir"))
	}
	return nil
}

// foreignVariables are the beginnings of names of variables that are for this process
// alone: its settings, which may contain secrets, and what systemd gives it.
var foreignVariables = []string{"TULLED_", "FLANNELD_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "CREDENTIALS_DIRECTORY=", "INVOCATION_ID=", "JOURNAL_STREAM=", "GOGC=", "GOMEMLIMIT="}

// CommandEnv returns the environment of commands, from that of this process.
func CommandEnv(own []string) []string {
	return slices.DeleteFunc(slices.Clone(own), func(v string) bool {
		return slices.ContainsFunc(foreignVariables, func(begin string) bool { return strings.HasPrefix(v, begin) })
	})
}

// commandsOf returns what is reported of commands; nil if there is nothing to report.
func commandsOf(s runner.Status) *status.Commands {
	if len(s.Counts) == 0 && s.Running == "" && s.Waiting == 0 {
		return nil
	}
	c := &status.Commands{Running: s.Running, Waiting: s.Waiting, Failing: s.Failing, Runs: []status.CommandCount{}}
	if s.Running != "" {
		c.Since = &s.Since
	}
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		n := s.Counts[name]
		c.Runs = append(c.Runs, status.CommandCount{Command: name, Runs: n.Runs, Failed: n.Failed, Killed: n.Killed, Seconds: n.Took.Seconds()})
	}
	return c
}
