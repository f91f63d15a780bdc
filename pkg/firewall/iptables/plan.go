package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// part is what is ours in one table: a chain, and the jump to it from a chain
// that all packets take.
type part struct {
	table, chain, from string
}

// The parts, in the order in which they are written.
var (
	nat    = part{table: "nat", chain: "TULLE-POSTRTG", from: "POSTROUTING"}
	filter = part{table: "filter", chain: "TULLE-FWD", from: "FORWARD"}
	parts  = [...]part{nat, filter}
)

// comment is on the jumps.
const comment = "tulle"

// keep says which rules have to be looked at.
func (p part) keep(chain, spec string) bool {
	return p == filter || chain == p.from || chain == p.chain || strings.Contains(spec, p.chain)
}

// jump is the rule that leads to our chain.
func (p part) jump() firewall.Rule { return firewall.Rule{Does: firewall.Jump, Chain: p.chain} }

// leads reports whether a rule leads to our chain, on whatever conditions.
func (p part) leads(l ruleLine) bool {
	return (l.Does == firewall.Jump || l.Does == firewall.Goto) && l.Chain == p.chain
}

// want is what a part shall hold.
type want struct {
	rules []firewall.Rule // none: nothing of ours is left
	// position is where the jump may stand at most.
	position func(firewall.Chains) int
}

// plan is what has to be written into a table so that it holds what is wanted;
// nothing if it does. A table that is not there has no chains, nor has one that
// iptables cannot show, in which we never wrote.
func (p part) plan(now *table, w want) (lines []string, err error) {
	if len(w.rules) == 0 {
		return p.remove(now), nil
	}
	if now.foreign {
		return nil, fmt.Errorf("iptables cannot list the table %s, which has rules that nft or firewalld wrote; remove them with nft, or do not use iptables on this host", p.table)
	}
	if !now.isChain(p.chain) || !slices.Equal(rules(now.chains[p.chain]), w.rules) {
		lines = append(lines, ":"+p.chain+" - [0:0]") // empties it too
		for _, r := range w.rules {
			lines = append(lines, "-A "+p.chain+" "+write(r))
		}
	}
	var jumps []string // as they are deleted
	others, at := make([]firewall.Rule, 0, len(now.chains[p.from])), 0
	right := false // the only one asks for nothing
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
	// Of two that are alike the first would be deleted, whichever was meant.
	lines = append(lines, jumps...)
	return append(lines, fmt.Sprintf("-I %s %d -m comment --comment %s -j %s", p.from, place+1, comment, p.chain)), nil
}

// remove is what has to be written so that nothing of ours is left.
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

// needless reports whether to let packets pass is for nothing: it is not known that
// the table is there at all.
func (p part) needless(now *table) bool {
	return p == filter && now.bare(p.from) && !now.isChain(p.chain)
}

// payload is what iptables-restore reads.
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
