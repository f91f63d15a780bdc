package main

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/flags"
)

// command is what tulle-etcd does.
type command int

const (
	runIt command = iota
	stopIt
	showVersion
	showManPage
	showCompletion
)

// commandLine is what flags and variables say.
type commandLine struct {
	settings etcdprocess.Settings
	command  command
	shell    string // of showCompletion
}

// program returns tulle-etcd's command line, which sets c.
func (c *commandLine) program() flags.Program {
	const group = "Flags"
	to := func(what command) func(string) error {
		return func(string) error { c.command = what; return nil }
	}
	return flags.Program{
		Name:     "tulle-etcd",
		About:    "tulle-etcd runs an etcd of one member, which tulled --etcd-embedded starts and uses.",
		Prefixes: []string{etcdprocess.Prefix},
		Example:  "data-dir",
		Commands: []flags.Command{
			{Value: "[flags]", About: "run; stop with SIGTERM"},
			{Name: "stop", About: "stop the one that runs on --data-dir, and wait for its end", Set: to(stopIt)},
			{Name: "version", About: "print the version", Set: to(showVersion)},
			{Name: "man", About: "print the manual page", Set: to(showManPage)},
			{Name: "completion", Value: "SHELL", About: "print completions for bash, zsh or fish", Choices: flags.Shells(), Set: c.complete},
		},
		Flags:  append(c.settings.Flags(group), flags.Help.In(group), flags.Version.In(group)),
		Manual: manual,
	}
}

// complete sets the shell that completions are for.
func (c *commandLine) complete(shell string) error {
	if shell == "" {
		return &flags.Error{Why: "completion needs a shell", Fix: "use one of " + strings.Join(flags.Shells(), ", ")}
	}
	c.command, c.shell = showCompletion, shell
	return nil
}

var manual = flags.Manual{
	Summary: "the etcd of a tulle network's first host",
	Description: `.B tulle-etcd
runs an etcd of one member, in which a tulle network keeps its config and leases.
.B tulled \-\-etcd\-embedded
starts it, sets all its flags, and leaves it running when it stops or restarts itself.
As a service of systemd,
.B tulled
starts
.B tulle\-etcd.service
instead; do not enable that unit.
.PP
SIGTERM and SIGINT stop it within five seconds.
No acknowledged write is lost by a stop or a crash.
One process at a time uses a data folder.
`,
	Files: []flags.ManualFile{
		{Path: "/run/tulle/tulle-etcd.env", About: "variables that tulled writes for the systemd unit"},
		{Path: "/var/lib/tulle/etcd/log", About: "log of a process that tulled starts without systemd"},
	},
	Exit: `.TP
.B 0
Success; it stopped on a signal or on
.BR "tulle\-etcd stop" .
.TP
.B 1
Failure. Standard error gives the reason, and the fix.
`,
	Also: []string{"tulled(8)", "etcdctl(1)", "systemd.service(5)"},
}
