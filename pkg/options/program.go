package options

import (
	"io"

	"github.com/tulle-net/tulle/pkg/flags"
)

// Variables with the first prefix override those with the second.
const (
	ours     = "TULLED_"
	flannels = "FLANNELD_"
)

// program returns tulled's command line, which sets o. Backends are the types that
// exist.
func program(o *Options, backends []string) flags.Program {
	return flags.Program{
		Name:     Program,
		About:    "tulled connects the containers on this host to those on all other hosts of a cluster.",
		Prefixes: []string{ours, flannels},
		Example:  "etcd-prefix",
		Commands: commands(o),
		Flags:    table(o, backends),
		Examples: []string{
			"tulled --etcd-endpoints=https://192.0.2.7:2379 --etcd-cafile=/etc/tulle/ca.pem --iface=eth1",
			"tulled --etcd-embedded --network=10.5.0.0/16",
		},
		Manual: manual,
	}
}

// Help writes the commands and flags of tulled, or what a command does and the
// flags that it uses.
func Help(w io.Writer, command string) error {
	p := program(new(Options), nil)
	if command != "" {
		return p.WriteCommandHelp(w, command)
	}
	return p.WriteHelp(w)
}

// ManPage writes tulled(8), in the format of man.
func ManPage(w io.Writer) error { return program(new(Options), nil).WriteManual(w) }

// Completion writes a script with which a shell completes tulled's commands, flags
// and values, including the backends.
func Completion(w io.Writer, shell string, backends []string) error {
	return program(new(Options), backends).WriteCompletion(w, shell)
}

var manual = flags.Manual{
	Summary: "a container network across hosts",
	Description: `.B tulled
runs on every host of a cluster.
It leases a subnet for the host in etcd or Kubernetes,
writes the configuration of the container runtime,
and keeps this host's tunnels and routes to all other hosts in sync.
It restores what other programs change of them,
and never changes what is not its own.
.PP
When it stops, devices, routes and files stay, and containers keep their network;
.B tulled cleanup
removes them.
.PP
It replaces flannel on a host:
the flags, the variables and the keys in etcd are flannel's.
It needs root, or
.B CAP_NET_ADMIN
and a network namespace where the settings in
.I /proc/sys/net
are writable.
.PP
SIGTERM and SIGINT stop it.
On SIGHUP it reads the password file again and does a full resync with the kernel.
`,
	Files: []flags.ManualFile{
		{Path: "/etc/machine-id", About: "ID of this host, without --node-id"},
		{Path: "/etc/default/tulled", About: "variables for the systemd unit"},
	},
	Exit: `.TP
.B 0
Success; a daemon stopped on a signal.
.TP
.B 1
Failure. Of
.BR "tulled status" :
the daemon is not ready. Of
.BR "tulled explain" :
something that should lead to the address is missing, or does not answer. Of
.BR "tulled check-config" :
the config is invalid, or with --strict there was a warning. Standard error gives every other reason, and the fix.
.TP
.B 2
A flag, a variable or an argument is wrong; nothing was done.
.TP
.B 3
No daemon answers on this host.
`,
	Also: []string{"ip(8)", "bridge(8)", "nft(8)", "etcdctl(1)", "systemd.service(5)"},
}
