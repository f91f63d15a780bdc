// Command tulle-wireguard moves the packets of one WireGuard device in user space, behind a
// TUN device. tulled starts it, and it outlives tulled.
package main

import (
	"context"
	"os"
	"syscall"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/companion/program"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/wireguardprocess"
)

// version is set by the linker.
var version = "devel"

func main() {
	syscall.Umask(0o077) // only root may use its sockets
	program.Exit("tulle-wireguard", commandLine(new(wireguardprocess.Settings)).Run(os.Args[1:], os.Environ(), os.Stdout))
}

// commandLine returns tulle-wireguard's command line, which sets s.
func commandLine(s *wireguardprocess.Settings) *program.CommandLine {
	return &program.CommandLine{
		Program: flags.Program{
			Name:     "tulle-wireguard",
			About:    "tulle-wireguard does in user space what the kernel's wireguard devices do, where tulled has none.",
			Prefixes: []string{wireguardprocess.Prefix},
			Example:  "data-dir",
			Flags:    s.Flags(program.Group),
			Manual:   manual,
		},
		Runs: "run; stop with SIGTERM", Version: version,
		Spec: func() companion.Spec { return s.Spec("") },
		Job: func() program.Job {
			return program.Job{
				Spec: s.Spec(""), Version: version, What: "WireGuard", Serves: s.Interface,
				Start: func(context.Context) (program.Work, error) {
					d, err := start(*s)
					if err != nil {
						return nil, err
					}
					return d, nil
				},
			}
		},
	}
}

var manual = flags.Manual{
	Summary: "WireGuard in user space for a tulle network",
	Description: `.B tulle-wireguard
reads packets from a TUN device, and sends them to peers as WireGuard does, and back.
.B tulled
starts it for the backend wireguard if the kernel has no wireguard devices, or if the
network's config asks for it.
.B tulled
sends it keys and peers, and leaves it running when it stops or restarts itself, so that
no packet is lost.
As a service of systemd,
.B tulled
starts
.B tulle\-wireguard@INTERFACE.service
instead; do not enable that unit.
.PP
It ends when its device is deleted, renamed or moved to another network namespace. After a crash,
.B tulled
starts it again; until then no packet for the network leaves the host.
.BR wg (8)
shows its peers. SIGTERM and SIGINT stop it.
`,
	Files: []flags.ManualFile{
		{Path: "/var/lib/tulle/wireguard/INTERFACE/log", About: "log of a process that tulled starts without systemd"},
		{Path: "/var/run/wireguard/INTERFACE.sock", About: "socket for wg"},
		{Path: "/run/tulle/tulle-wireguard@INTERFACE.env", About: "variables that tulled writes for the systemd unit"},
	},
	Exit: `.TP
.B 0
Success; it stopped on a signal or on
.BR "tulle\-wireguard stop" .
.TP
.B 1
Failure. Standard error gives the reason, and the fix.
`,
	Also: []string{"tulled(8)", "wg(8)", "systemd.service(5)"},
}
