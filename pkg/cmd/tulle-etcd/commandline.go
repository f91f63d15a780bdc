package main

import (
	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/companion/program"
	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/flags"
)

// commandLine returns tulle-etcd's command line, which sets s.
func commandLine(s *etcdprocess.Settings) *program.CommandLine {
	return &program.CommandLine{
		Program: flags.Program{
			Name:     "tulle-etcd",
			About:    "tulle-etcd runs an etcd of one member, which tulled --etcd-embedded starts and uses.",
			Prefixes: []string{etcdprocess.Prefix},
			Example:  "data-dir",
			Flags:    s.Flags(program.Group),
			Manual:   manual,
		},
		Runs: "run; stop with SIGTERM", Version: version,
		Spec: func() companion.Spec { return s.Spec("") },
		Job:  func() program.Job { return job(*s) },
	}
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
