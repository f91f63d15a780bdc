package nft

import (
	"context"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// NAT is the firewall.Engine of the rules that masquerade and confine: a table of our own.
type NAT struct{ *Tables }

// Sync implements firewall.Engine.
func (n NAT) Sync(_ context.Context, r firewall.Rules) (changed bool, err error) {
	changed, err = n.carryOut(func(c conn, b *batch) error { return c.own(b, r) })
	if r.Equal(firewall.Rules{}) {
		err = unlessAbsent(err)
	}
	return changed, err
}

// Watch calls poke when it begins to listen, and after every change of the table by
// another program. It returns when ctx ends or the socket fails.
func (n NAT) Watch(ctx context.Context, poke func()) error {
	return n.watch(ctx, poke, at(watchedTable{unix.NFPROTO_INET, tableName}))
}

// chain is a chain of our table, with the rules that it must hold.
type chain struct {
	name string
	hook hook
	want []firewall.Rule
}

// chains returns the chains of our table, except for those without a rule.
func chains(r firewall.Rules) (all []chain) {
	for _, c := range []struct {
		name  string
		hook  hook
		rules func(subnet.Family) []firewall.Rule
	}{{chainName, ownHook, r.NAT}, {confineName, confineHook, r.Confines}} {
		var want []firewall.Rule
		known := make(map[firewall.Rule]bool)
		for _, f := range subnet.Families {
			for _, rule := range c.rules(f) {
				if !known[rule] {
					want = append(want, rule)
				}
				known[rule] = true
			}
		}
		if len(want) > 0 {
			all = append(all, chain{c.name, c.hook, want})
		}
	}
	return all
}

// own writes the chains into our table.
func (c conn) own(b *batch, r firewall.Rules) error {
	want := chains(r)
	table, err := c.get(unix.NFPROTO_INET, unix.NFT_MSG_GETTABLE, inTable(tableName))
	if err != nil {
		return err
	}
	if table != nil && len(want) > 0 {
		same, err := c.holds(table, want)
		if err != nil || same {
			return err
		}
	}
	if table != nil {
		b.add(unix.NFPROTO_INET, unix.NFT_MSG_DELTABLE, 0, inTable(tableName))
	}
	if len(want) == 0 {
		return nil
	}
	b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWTABLE, netlink.Create, inTable(tableName))
	for _, ch := range want {
		b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWCHAIN, netlink.Create, ch.hook.attributes(tableName, ch.name))
		for _, rule := range ch.want {
			b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, ruleAttributes(tableName, ch.name, rule, nil))
		}
	}
	return nil
}

// holds reports whether our table holds what is wanted.
func (c conn) holds(table *list, want []chain) (bool, error) {
	if number(table.of[unix.NFTA_TABLE_USE]) != int64(len(want)) || number(table.of[unix.NFTA_TABLE_FLAGS]) != 0 {
		return false, nil // it contains more or less than our chains, or is dormant
	}
	for _, ch := range want {
		is, err := c.get(unix.NFPROTO_INET, unix.NFT_MSG_GETCHAIN, chainOf(tableName, ch.name))
		if err != nil || is == nil || hookOf(is) != ch.hook {
			return false, err
		}
		rules, err := c.rules(unix.NFPROTO_INET, tableName, ch.name)
		if err != nil || !slices.Equal(plain(rules), ch.want) {
			return false, err
		}
	}
	return true, nil
}
