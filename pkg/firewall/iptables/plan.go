package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// part is what is ours in one table: a chain, and the jump to it from a chain that
// all packets pass.
type part struct {
	table, chain, from string
}

// The parts, in the order in which they are written.
var (
	nat    = part{table: "nat", chain: "TULLE-POSTRTG", from: "POSTROUTING"}
	filter = part{table: "filter", chain: "TULLE-FWD", from: "FORWARD"}
	mangle = part{table: "mangle", chain: "TULLE-CONFINE", from: "POSTROUTING"}
	parts  = [...]part{nat, filter, mangle}
)

// comment is the comment of the jumps.
const comment = "tulle"

// keep reports whether a rule must be checked.
func (p part) keep(chain, spec string) bool {
	return p == filter || chain == p.from || chain == p.chain || strings.Contains(spec, p.chain)
}

// jump returns the rule that leads to our chain.
func (p part) jump() firewall.Rule { return firewall.Rule{Does: firewall.Jump, Chain: p.chain} }

// leads reports whether a rule leads to our chain, on any conditions.
func (p part) leads(l ruleLine) bool {
	return (l.Does == firewall.Jump || l.Does == firewall.Goto) && l.Chain == p.chain
}

// want is what a part must hold.
type want struct {
	rules []firewall.Rule // none: remove everything of ours
	// position returns the highest valid index of the jump.
	position func(firewall.Chains) int
}

// plan returns what to write into a table so that it holds what is wanted, or nothing
// if it does. A table that does not exist has no chains. Nor has one that iptables
// cannot show, in which we never wrote.
func (p part) plan(now *table, w want) (lines []string, err error) {
	if len(w.rules) == 0 {
		return p.remove(now), nil
	}
	if now.foreign {
		return nil, fmt.Errorf("iptables cannot list the table %s, which has rules that nft or firewalld wrote; remove them with nft, or do not use iptables on this host", p.table)
	}
	if !now.isChain(p.chain) || !slices.Equal(rules(now.chains[p.chain]), w.rules) {
		lines = append(lines, ":"+p.chain+" - [0:0]") // this also empties it
		for _, r := range w.rules {
			lines = append(lines, "-A "+p.chain+" "+write(r))
		}
	}
	var jumps []string // the lines that delete them
	others, at := make([]firewall.Rule, 0, len(now.chains[p.from])), 0
	right := false // the only one has no condition
	for _, l := range now.chains[p.from] {
		if !p.leads(l) {
			others = append(others, l.Rule)
			continue
		}
		right = len(jumps) == 0 && l.Rule == p.jump()
		at = len(others)
		jumps = append(jumps, "-D "+p.from+" "+l.spec)
	}
	chains := firewall.Chains{}
	for name, lines := range now.chains {
		chains[name] = rules(lines)
	}
	chains[p.from] = others
	place := w.position(chains)
	if right && at <= place {
		return lines, nil
	}
	// Of two equal jumps, a deletion removes the first, whichever was meant.
	lines = append(lines, jumps...)
	return append(lines, fmt.Sprintf("-I %s %d -m comment --comment %s -j %s", p.from, place+1, comment, p.chain)), nil
}

// remove returns what to write in order to remove everything of ours.
func (p part) remove(now *table) (lines []string) {
	if !now.isChain(p.chain) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(now.chains)) {
		for _, l := range now.chains[name] {
			if p.leads(l) {
				lines = append(lines, "-D "+name+" "+l.spec)
			}
		}
	}
	return append(lines, "-F "+p.chain, "-X "+p.chain)
}

// needless reports whether an accept has no purpose: the table is not known to exist.
func (p part) needless(now *table) bool {
	return p == filter && now.bare(p.from) && !now.isChain(p.chain)
}

// payload returns the input of iptables-restore.
func payload(table string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
}

func rules(lines []ruleLine) []firewall.Rule {
	rules := make([]firewall.Rule, len(lines))
	for i, l := range lines {
		rules[i] = l.Rule
	}
	return rules
}
