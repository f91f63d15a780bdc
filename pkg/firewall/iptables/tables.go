package iptables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// Tables are the tables of one variant. Other programs write them too, at any time.
// So each plan depends on what was read just before it, identifies foreign rules by
// their text and never by number, and is made again if it fails because they have
// changed. Only one goroutine at a time may use them.
type Tables struct {
	variant Variant
	options Options
	// clean are the parts that are known to be empty. They are not checked again as long
	// as nothing is wanted there but something elsewhere.
	clean subnet.Pair[map[part]bool]
}

// New returns the tables of a variant from Found.
func New(v Variant, o Options) *Tables {
	return &Tables{variant: v, options: o, clean: subnet.Pair[map[part]bool]{{}, {}}}
}

// Sync changes the tables to r, and writes only what differs. If only accepts are
// wanted, it leaves an unused table alone: nothing drops packets there.
func (t *Tables) Sync(ctx context.Context, r firewall.Rules) (changed bool, err error) {
	if t.variant.Version.before(modern) {
		r.Random = false
	}
	wants, needed, some := allWants(r)
	var errs []error
	for _, f := range subnet.Families {
		c, err := t.family(ctx, f, wants[f], needed, !some)
		changed = changed || c
		errs = append(errs, err)
	}
	return changed, errors.Join(errs...)
}

// allWants returns what r requires of each part, whether rules are needed even where no
// table is in use, and whether any are wanted.
func allWants(r firewall.Rules) (wants subnet.Pair[map[part]want], needed, some bool) {
	for _, f := range subnet.Families {
		wants[f] = map[part]want{
			nat:    {asShown(r.NAT(f)), func(firewall.Chains) int { return 0 }},
			mangle: {asShown(r.Confines(f)), func(firewall.Chains) int { return 0 }},
			filter: {asShown(r.Forwards(f)), func(c firewall.Chains) int {
				return c.Position(filter.from, r.Networks[f], r.Own[f])
			}},
		}
		needed = needed || len(wants[f][nat].rules)+len(wants[f][mangle].rules) > 0
		some = some || needed || len(wants[f][filter].rules) > 0
	}
	return wants, needed, some
}

// asShown returns rules as iptables-save shows them: without a network of all
// addresses, and without host bits.
func asShown(rules []firewall.Rule) []firewall.Rule {
	shown := make([]firewall.Rule, len(rules))
	for i, r := range rules {
		shown[i] = read(write(r), func(string) bool { return false }).Rule
	}
	return shown
}

// attempts is how often Sync plans again after other programs have changed the rules.
const attempts = 3

func (t *Tables) family(ctx context.Context, f subnet.Family, wants map[part]want, needed, all bool) (changed bool, err error) {
	wanted := func(p part) bool { return len(wants[p].rules) > 0 }
	look, err := t.partsToCheck(f, wanted, needed, all)
	if err != nil || len(look) == 0 {
		return false, err
	}
	if t.variant.save[f] == "" {
		if !slices.ContainsFunc(look, wanted) {
			return false, nil // without commands, nothing was ever written
		}
		return false, fmt.Errorf("this host has no command for the %s tables of %s iptables; install the package iptables", f, t.variant.Kind)
	}
	return t.attempt(ctx, f, func() (string, error) {
		var text strings.Builder
		for _, p := range look {
			now, err := t.read(ctx, f, p.table, p.keep)
			if err != nil && !all && !slices.ContainsFunc(look, wanted) {
				return "", nil // the kernel may lack a family that is off
			}
			if err != nil {
				return "", err
			}
			var lines []string
			if needed || !wanted(p) || !p.needless(now) {
				if lines, err = p.plan(now, wants[p]); err != nil {
					return "", err
				}
			}
			text.WriteString(payload(p.table, lines))
			t.clean[f][p] = !wanted(p) && len(lines) == 0
		}
		return text.String(), nil
	})
}

// partsToCheck returns the parts to read and compare.
func (t *Tables) partsToCheck(f subnet.Family, wanted func(part) bool, needed, all bool) (look []part, err error) {
	for _, p := range parts {
		if !wanted(p) && !all && t.clean[f][p] {
			continue
		}
		if t.variant.Kind == Legacy && !(wanted(p) && needed) {
			used, err := t.options.legacy(f)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(used, p.table) {
				continue
			}
		}
		look = append(look, p)
	}
	return look, nil
}

// attempt writes what plan returns. After a failed write it plans again. If the new plan
// is the same, no other program was faster, and it returns the failure.
func (t *Tables) attempt(ctx context.Context, f subnet.Family, plan func() (string, error)) (changed bool, err error) {
	last := ""
	for range attempts {
		text, planned := plan()
		if planned != nil || text == "" {
			return false, planned
		}
		if text == last {
			return false, err
		}
		if err = t.restore(ctx, f, text); err == nil {
			return true, nil
		}
		last = text
	}
	return false, err
}

// read reads a table. A missing one is empty.
func (t *Tables) read(ctx context.Context, f subnet.Family, name string, keep func(chain, spec string) bool) (*table, error) {
	var tables map[string]*table
	err := t.options.run(ctx, "", func(r io.Reader) (err error) {
		tables, err = parse(r, keep)
		return err
	}, t.variant.save[f], "-t", name)
	if errors.Is(err, errAbsent) { // the write would fail
		return &table{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s table %s: %w", f, name, err)
	}
	if tables[name] == nil {
		return &table{}, nil
	}
	return tables[name], nil
}

// restore writes, in one transaction for each table.
func (t *Tables) restore(ctx context.Context, f subnet.Family, text string) error {
	if t.options.DryRun {
		return nil
	}
	args := []string{"--noflush"}
	if !t.variant.Version.before(modern) {
		args = append(args, "--wait", patience)
	}
	err := t.options.run(ctx, text, discard, t.variant.restore[f], args...)
	if err != nil {
		return fmt.Errorf("write %s tables: %w", f, err)
	}
	return nil
}

func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
