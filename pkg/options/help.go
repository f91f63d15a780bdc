package options

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	helpBegin = `tulled connects the containers on this host to those on all other hosts of a cluster.

Usage:
  tulled [flags]               run the daemon
  tulled check-config [FILE]   explain a network config, or what is wrong with it
  tulled leases                list the leases in the store, and why it rejects some
  tulled status                show the state of this host's tulled; exit with 1 if it is not ready
  tulled peers                 list the other nodes as this host sees them
  tulled explain IP            show who owns an address, and how the kernel reaches it
  tulled bugreport [FILE]      collect what helps to find a fault in one archive
  tulled cleanup               remove everything that tulled created on this host
  tulled install-cni [DIR]     install CNI plugins in /opt/cni/bin, or DIR; keep foreign ones
  tulled version               print the version
  tulled man                   print the manual page
  tulled completion SHELL      print completions for bash, zsh or fish

Every flag is also a variable: --etcd-prefix is TULLED_ETCD_PREFIX, or FLANNELD_ETCD_PREFIX.
A flag overrides TULLED_, TULLED_ overrides FLANNELD_, and an empty variable counts as unset.
`
	helpEnd = `
Examples:
  tulled --etcd-endpoints=https://192.0.2.7:2379 --etcd-cafile=/etc/tulle/ca.pem --iface=eth1
  tulled --etcd-embedded --network=10.5.0.0/16
`
)

// Help writes the commands and flags of tulled.
func Help(w io.Writer) error {
	var b strings.Builder
	b.WriteString(helpBegin)
	group := ""
	for _, f := range table {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		b.WriteString(f.line())
	}
	b.WriteString(helpEnd)
	_, err := io.WriteString(w, b.String())
	return err
}

// helpColumn is the column at which the flags' texts begin.
const helpColumn = 39

// line returns a flag's line of the help.
func (f flag) line() string {
	left := "  " + f.written()
	if f.value != "" {
		left += " " + f.value
	}
	line := left + strings.Repeat(" ", max(helpColumn-utf8.RuneCountInString(left), 1)) + f.about
	if f.fallback != "" && f.fallback != "false" {
		line += " (default " + f.fallback + ")"
	}
	return line + "\n"
}
