package status

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Failing reports whether something is wrong with the peer.
func (p Peer) Failing() bool { return StateOf(p) != InSync }

// Matches reports whether a word names the peer: it is a part of its name, an
// address of it or in its subnets, a network that has one of its subnets, or its
// key.
func (p Peer) Matches(word string) bool {
	if ip, err := netip.ParseAddr(word); err == nil {
		return slices.Contains(p.Addresses, ip) || slices.ContainsFunc(p.Subnets, func(s netip.Prefix) bool { return s.Contains(ip) })
	}
	if network, err := netip.ParsePrefix(word); err == nil {
		return slices.ContainsFunc(p.Subnets, func(s netip.Prefix) bool { return network.Bits() <= s.Bits() && network.Contains(s.Addr()) })
	}
	return p.Key == word || strings.Contains(strings.ToLower(p.Name), strings.ToLower(word))
}

// Layout is how WritePeers writes peers.
type Layout struct {
	Narrow bool // two short lines a peer, not a table
	// Paint colours a text that is good or bad; nil leaves it plain.
	Paint func(good bool, text string) string
}

// stateAndWay returns a peer's state in words, and why packets to it take the tunnel.
func (w writer) stateAndWay(p Peer) string {
	state := w.state(p)
	if p.Tunnelled != "" {
		state += "; through the tunnel: " + p.Tunnelled
	}
	return state + w.sessions(p.Sessions)
}

// state returns a peer's state in words.
func (w writer) state(p Peer) (state string) {
	since := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return ", " + w.lasting(*t)
	}
	switch {
	case p.Problem != "":
		return p.Problem + since(p.Since)
	case !p.InSync:
		state = "NOT in sync"
	default:
		state = "in sync"
	}
	if q := p.Probes; q != nil {
		if q.Problem != "" {
			return state + ", but " + q.Problem + since(q.Since)
		}
		state += fmt.Sprintf(", answers in %.2f ms", q.Millis)
	}
	return state
}

// WritePeers writes peers for people, those with a problem first.
func WritePeers(to io.Writer, peers []Peer, now time.Time, l Layout) error {
	w := newWriter(to, "", now)
	if l.Paint == nil {
		l.Paint = func(_ bool, text string) string { return text }
	}
	var failing, well []string
	add := func(p Peer, format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if p.Failing() {
			failing = append(failing, line)
		} else {
			well = append(well, line)
		}
	}
	for _, p := range peers {
		state := l.Paint(!p.Failing(), w.stateAndWay(p))
		if l.Narrow {
			name := p.Name
			if name == "" {
				name = p.Key
			}
			add(p, "%s: %s\n  %s via %s, %s\n", name, state, join(p.Subnets), dash(join(p.Addresses)), dash(p.By))
		} else {
			add(p, "%s\t%s\t%s\t%s\t%s\n", join(p.Subnets), dash(p.Name), join(p.Addresses), dash(p.By), state)
		}
	}
	if !l.Narrow {
		fmt.Fprintln(w, "SUBNETS\tNODE\tADDRESSES\tPATH\tSTATE")
	}
	for _, line := range append(failing, well...) {
		fmt.Fprint(w, line)
	}
	return w.Flush()
}
