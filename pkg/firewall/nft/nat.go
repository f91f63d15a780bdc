package nft

import (
	"context"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// NAT is the firewall.Engine of the masquerade rules: a table of our own.
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

// own writes the masquerade rules into our table.
func (c conn) own(b *batch, r firewall.Rules) error {
	var want []firewall.Rule
	known := make(map[firewall.Rule]bool)
	for _, f := range subnet.Families {
		for _, rule := range r.NAT(f) {
			if !known[rule] {
				want = append(want, rule)
			}
			known[rule] = true
		}
	}
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
	b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWCHAIN, netlink.Create, ownHook.attributes(tableName, chainName))
	for _, rule := range want {
		b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, ruleAttributes(tableName, chainName, rule, nil))
	}
	return nil
}

// holds reports whether our table holds what is wanted.
func (c conn) holds(table *list, want []firewall.Rule) (bool, error) {
	if number(table.of[unix.NFTA_TABLE_USE]) != 1 || number(table.of[unix.NFTA_TABLE_FLAGS]) != 0 {
		return false, nil // it contains more than our chain, or is dormant
	}
	chain, err := c.get(unix.NFPROTO_INET, unix.NFT_MSG_GETCHAIN, chainOf(tableName, chainName))
	if err != nil || chain == nil || hookOf(chain) != ownHook {
		return false, err
	}
	rules, err := c.rules(unix.NFPROTO_INET, tableName, chainName)
	return slices.Equal(plain(rules), want), err
}
