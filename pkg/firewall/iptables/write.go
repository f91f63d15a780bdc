package iptables

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// targets are the texts of verdicts. A jump's chain follows.
var targets = [...]string{
	firewall.None:             "",
	firewall.Accept:           "-j ACCEPT",
	firewall.Drop:             "-j DROP",
	firewall.Return:           "-j RETURN",
	firewall.Jump:             "-j ",
	firewall.Goto:             "-g ",
	firewall.Masquerade:       "-j MASQUERADE",
	firewall.MasqueradeRandom: "-j MASQUERADE --random-fully",
}

// write returns the text of a rule that is not opaque, in iptables-save's order.
func write(r firewall.Rule) string {
	var parts []string
	add := func(not bool, option, value string) {
		if not {
			parts = append(parts, "!")
		}
		parts = append(parts, option, quote(value))
	}
	if r.From.Prefix.IsValid() {
		add(r.From.Not, "-s", r.From.Prefix.String())
	}
	if r.To.Prefix.IsValid() {
		add(r.To.Not, "-d", r.To.Prefix.String())
	}
	if r.In.Name != "" {
		add(r.In.Not, "-i", ifaceName(r.In))
	}
	if r.Out.Name != "" {
		add(r.Out.Not, "-o", ifaceName(r.Out))
	}
	if r.Marked {
		parts = append(parts, "-m mark --mark", kubeMark)
	}
	target := targets[r.Does]
	if r.Chain != "" {
		target += quote(r.Chain)
	}
	if target != "" {
		parts = append(parts, target)
	}
	return strings.Join(parts, " ")
}

func ifaceName(i firewall.Iface) string {
	if i.Wild {
		return i.Name + "+"
	}
	return i.Name
}
