package firewall

import (
	"fmt"
	"net/netip"
	"strings"
)

// Rule is one rule of a firewall's chain, as far as it matters here. A rule of
// ours is all of it; of another's what is not understood is left out, and Opaque
// says so. Rules are comparable.
type Rule struct {
	Marked   bool // asks for KubeMark
	From, To Net
	In, Out  Iface
	// Opaque is a rule that asks for something else too, so that we do
	// not know whether it takes a packet.
	Opaque bool
	Does   Verdict
	Chain  string // to Jump or Goto
}

// KubeMark is the bit that kube-proxy marks packets by which it masquerades
// itself.
const KubeMark = 0x4000

// Net is a condition on an address; the zero Net asks for nothing.
type Net struct {
	Prefix netip.Prefix
	Not    bool
}

// Iface is a condition on a device; the zero Iface asks for nothing.
type Iface struct {
	Name string
	Wild bool // Name is but the beginning
	Not  bool
}

// Verdict is what a rule does with a packet.
type Verdict uint8

// What rules do. A rule that only counts or logs, or does what is not understood,
// does None.
const (
	None Verdict = iota
	Accept
	Drop // with or without an answer
	Return
	Jump
	Goto
	Masquerade
	MasqueradeRandom // from ports that cannot be foreseen
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
