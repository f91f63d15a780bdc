// Command tulle-etcd runs an etcd of one member, for a network whose first host
// keeps the store. tulled starts it, and it outlives tulled.
package main

import (
	"context"
	"os"
	"syscall"

	"github.com/tulle-net/tulle/pkg/companion/program"
	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/flags"
)

// version is set by the linker.
var version = "devel"

func main() {
	syscall.Umask(0o077) // only root may read what it creates
	program.Exit("tulle-etcd", commandLine(new(etcdprocess.Settings)).Run(os.Args[1:], os.Environ(), os.Stdout))
}

// job returns the run of an etcd with these settings.
func job(s etcdprocess.Settings) program.Job {
	return program.Job{
		Spec: s.Spec(""), Version: version, What: "etcd", Serves: s.Listen, Verbosity: s.Verbosity, Warnings: exposed(s),
		Start: func(ctx context.Context) (program.Work, error) {
			server, err := etcdserver.Start(ctx, s)
			if err != nil {
				return nil, err
			}
			return server, nil
		},
	}
}

// exposed returns warnings about the key and the data if every user of this host may
// read or write them.
func exposed(s etcdprocess.Settings) (warnings []string) {
	for _, w := range []string{flags.Exposed("--keyfile", s.KeyFile), flags.Exposed("--data-dir", s.Dir)} {
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}
