package netstate

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Command is a command of the network's config that was run, for this host or for one
// peer. No kernel holds one: an engine runs commands, and records which of them were run.
type Command struct {
	Name   string       // of the config's key
	Subnet netip.Prefix // the peer's; the zero Prefix for this host
	// Run and Undo are texts for a shell, as the config has them. Undo may be "".
	Run, Undo string
	// Env has variables, NAME=value, one a line. Stdin is the standard input without the
	// last end of line. Values of other nodes are only here, and never part of a text for a
	// shell.
	Env, Stdin string
	Limit      time.Duration // of one run
	// Stale reports that the command was run before something that it depends on, or that
	// its run did not end well. It is never wanted.
	Stale bool
}

// Key names the command by the config's key and the subnet.
func (c Command) Key() Key {
	k := Key{Kind: KindCommand, Name: c.Name}
	if c.Subnet.IsValid() {
		k.IP, k.Bits = c.Subnet.Addr(), bitsOf(c.Subnet)
	}
	return k
}

// Effect returns c with only what decides the effect of a run.
func (c Command) Effect() Command {
	return Command{Name: c.Name, Subnet: c.Subnet, Run: c.Run, Env: c.Env, Stdin: c.Stdin}
}

// String names the command. It quotes no text of the config, which may contain secrets,
// and nothing of a peer but the addresses that were checked.
func (c Command) String() string {
	var b strings.Builder
	b.WriteString(c.Key().String())
	if c.Env != "" {
		fmt.Fprintf(&b, " %s", strings.ReplaceAll(c.Env, "\n", " "))
	}
	if c.Stdin != "" {
		fmt.Fprintf(&b, " with %d bytes of input", len(c.Stdin))
	}
	if c.Stale {
		b.WriteString(" stale")
	}
	return b.String()
}
