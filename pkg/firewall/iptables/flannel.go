package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// flannelChains are the chains that flannel creates, flannelBases the chains that its
// rules jump from, and flannelComments the comments of its rules. In older versions
// these are directly in flannelBases.
var (
	flannelChains   = []string{"FLANNEL-POSTRTG", "FLANNEL-FWD"}
	flannelBases    = []string{"POSTROUTING", "FORWARD"}
	flannelComments = []string{"flanneld masq", "flanneld forward"}
)

// RemoveFlannel removes flannel's rules, and returns what it removed.
func (t *Tables) RemoveFlannel(ctx context.Context) (removed []string, err error) {
	var errs []error
	for _, f := range subnet.Families {
		if t.variant.save[f] == "" {
			continue
		}
		var found []string
		changed, err := t.attempt(ctx, f, func() (text string, err error) {
			text, found, err = t.flannel(ctx, f)
			return text, err
		})
		if changed {
			removed = append(removed, found...)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// flannel returns what to write in order to remove flannel's rules of a family, and
// what these are.
func (t *Tables) flannel(ctx context.Context, f subnet.Family) (text string, found []string, err error) {
	used, err := t.options.legacy(f)
	if err != nil {
		return "", nil, err
	}
	for _, p := range []part{nat, filter} {
		if t.variant.Kind == Legacy && !slices.Contains(used, p.table) {
			continue
		}
		now, err := t.read(ctx, f, p.table, func(chain, spec string) bool {
			return strings.HasPrefix(chain, "FLANNEL-") || strings.Contains(spec, "FLANNEL-") || strings.Contains(spec, "flanneld ")
		})
		if err != nil {
			return "", nil, err
		}
		lines, what := flannels(now)
		text += payload(p.table, lines)
		for _, w := range what {
			found = append(found, fmt.Sprintf("%s %s table %s: %s", f, t.variant.Kind, p.table, w))
		}
	}
	return text, found, nil
}

// flannels returns what to write into one table.
func flannels(now *table) (lines, what []string) {
	used := map[string]bool{} // whose jumps keep the chain, which is emptied
	for _, name := range slices.Sorted(maps.Keys(now.chains)) {
		base := slices.Contains(flannelBases, name)
		for _, l := range now.chains[name] {
			leads := slices.Contains(flannelChains, l.Chain)
			switch {
			case base && (leads || slices.Contains(flannelComments, l.comment)):
				lines = append(lines, "-D "+name+" "+l.spec)
				what = append(what, "-A "+name+" "+l.spec)
			case leads && !slices.Contains(flannelChains, name):
				used[l.Chain] = true
			}
		}
	}
	var gone []string
	for _, chain := range flannelChains {
		rules := len(now.chains[chain])
		if !now.isChain(chain) || used[chain] && rules == 0 {
			continue
		}
		lines = append(lines, "-F "+chain)
		what = append(what, fmt.Sprintf("chain %s with %d rules", chain, rules))
		if !used[chain] {
			gone = append(gone, "-X "+chain)
		}
	}
	return append(lines, gone...), what
}
