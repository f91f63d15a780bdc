package firewall

import (
	"fmt"
	"net/netip"
	"strings"
)

// Rule is one rule of a firewall's chain, as far as it matters here. A rule of ours
// is complete. A foreign rule lacks what is not understood, and Opaque reports that.
// Rules are comparable.
type Rule struct {
	Marked   bool // matches KubeMark
	From, To Net
	In, Out  Iface
	// Opaque reports that the rule has other conditions too, so that we do not know which
	// packets it matches.
	Opaque bool
	Does   Verdict
	Chain  string // of Jump or Goto
}

// KubeMark is the bit with which kube-proxy marks packets that it masquerades itself.
const KubeMark = 0x4000

// Net is a condition on an address; the zero Net matches all.
type Net struct {
	Prefix netip.Prefix
	Not    bool
}

// Iface is a condition on a device; the zero Iface matches all.
type Iface struct {
	Name string
	Wild bool // Name is only a prefix
	Not  bool
}

// Verdict is what a rule does with a packet.
type Verdict uint8

// Verdicts of rules. A rule that only counts or logs, or does what is not understood,
// has the verdict None.
const (
	None Verdict = iota
	Accept
	Drop // with or without an answer
	Return
	Jump
	Goto
	Masquerade
	MasqueradeRandom // from unpredictable ports
)

func (v Verdict) String() string {
	return [...]string{"continue", "accept", "drop", "return", "jump", "goto", "masquerade", "masquerade fully-random"}[v]
}

func (r Rule) String() string {
	var b strings.Builder
	if r.Marked {
		fmt.Fprintf(&b, "mark %#x ", KubeMark)
	}
	not := map[bool]string{true: "!= "}
	for i, n := range []Net{r.From, r.To} {
		if n.Prefix.IsValid() {
			fmt.Fprintf(&b, "%s %s%s ", [...]string{"from", "to"}[i], not[n.Not], n.Prefix)
		}
	}
	for i, d := range []Iface{r.In, r.Out} {
		if d.Name != "" {
			fmt.Fprintf(&b, "%s %s%s%s ", [...]string{"in", "out"}[i], not[d.Not], d.Name, map[bool]string{true: "*"}[d.Wild])
		}
	}
	if r.Opaque {
		b.WriteString("... ")
	}
	b.WriteString(r.Does.String())
	if r.Chain != "" {
		b.WriteString(" " + r.Chain)
	}
	return b.String()
}
