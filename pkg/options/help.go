package options

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	helpBegin = `tulled gives this host its piece of a container network that spans many hosts.

Usage:
  tulled [flags]               run
  tulled check-config [FILE]   say what a network's config means, or what is wrong with it
  tulled leases                list the leases in the store, and what is wrong with them
  tulled status                tell how the tulled of this host is; 0 if it is ready, 1 if not
  tulled peers                 list the other nodes as it sees them
  tulled explain IP            say what it makes of an address, and what the kernel does
  tulled bugreport [FILE]      write all that helps to find a fault into one archive
  tulled cleanup               remove from this host all that tulled made
  tulled install-cni [DIR]     put CNI plugins into /opt/cni/bin, or DIR, where there are none
  tulled version               print the version
  tulled man                   print the manual page
  tulled completion SHELL      print completions for bash, zsh or fish

Every flag is a variable too: --etcd-prefix is TULLED_ETCD_PREFIX, or FLANNELD_ETCD_PREFIX.
A flag beats TULLED_, TULLED_ beats FLANNELD_, and an empty variable is none.
What is marked * is checked, and has no effect in this version yet.
`
	helpEnd = `
Examples:
  tulled --etcd-endpoints=https://192.0.2.7:2379 --etcd-cafile=/etc/tulle/ca.pem --iface=eth1
  tulled --etcd-embedded --network=10.5.0.0/16
`
)

// Help writes what tulled can be told.
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

// helpColumn is where the flags' meanings begin.
const helpColumn = 39

// line is a flag's line of the help.
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
