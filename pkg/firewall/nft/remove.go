package nft

import (
	"context"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// flannelTables are the tables that flannel creates when it uses nftables.
var flannelTables = subnet.Pair[string]{"flannel-ipv4", "flannel-ipv6"}

// jump is a chain that a program added to a table of iptables, with the chain that
// jumps to it.
type jump struct{ table, from, chain string }

var (
	flannelChains = []jump{
		{natTable, "POSTROUTING", "FLANNEL-POSTRTG"},
		{natTable, forwardChain, "FLANNEL-FWD"},
		{filterTable, forwardChain, "FLANNEL-FWD"},
	}
	// iptablesChains are the chains that tulle writes when it uses iptables.
	iptablesChains = []jump{
		{natTable, "POSTROUTING", "TULLE-POSTRTG"},
		{filterTable, forwardChain, "TULLE-FWD"},
		{mangleTable, "POSTROUTING", "TULLE-CONFINE"},
	}
	// flannelRemarks are comments of flannel's rules. In older versions these rules are
	// beside the chains' jumps.
	flannelRemarks = []string{"flanneld masq", "flanneld forward"}
)

// RemoveFlannel removes what flannel left in nftables, and in the tables that
// iptables keeps there. It returns what it removed.
func (t *Tables) RemoveFlannel(context.Context) (removed []string, err error) {
	return t.remove(flannelTables, flannelChains, flannelRemarks)
}

// RemoveIPTables removes tulle's chains from the tables of iptables. It returns what
// it removed.
func (t *Tables) RemoveIPTables(context.Context) (removed []string, err error) {
	return t.remove(subnet.Pair[string]{}, iptablesChains, nil)
}

// remove removes tables, chains with the jumps to them, and the rules beside the
// jumps whose comment is one of remarks.
func (t *Tables) remove(tables subnet.Pair[string], chains []jump, remarks []string) (removed []string, err error) {
	_, err = t.carryOut(func(c conn, b *batch) error {
		removed = nil
		for _, f := range subnet.Families {
			if name := tables[f]; name != "" {
				table, err := c.get(protocols[f], unix.NFT_MSG_GETTABLE, inTable(name))
				if err != nil {
					return err
				}
				if table != nil {
					b.add(protocols[f], unix.NFT_MSG_DELTABLE, 0, inTable(name))
					removed = append(removed, "table "+name)
				}
			}
			for _, name := range []string{natTable, filterTable, mangleTable} {
				found, err := c.removeChains(b, f, name, chains, remarks)
				if err != nil {
					return err
				}
				removed = append(removed, found...)
			}
		}
		return nil
	})
	return removed, unlessAbsent(err)
}

// removeChains does remove for one table of iptables.
func (c conn) removeChains(b *batch, f subnet.Family, table string, chains []jump, remarks []string) (removed []string, err error) {
	family := protocols[f]
	there, err := c.get(family, unix.NFT_MSG_GETTABLE, inTable(table))
	if err != nil || there == nil {
		return nil, err
	}
	all, err := c.rules(family, table, "")
	if err != nil {
		return nil, err
	}
	for _, known := range chains {
		if known.table != table {
			continue
		}
		uses := int64(0) // of the chain, by its own rules and by jumps to it
		for _, r := range all {
			leads := (r.Does == firewall.Jump || r.Does == firewall.Goto) && r.Chain == known.chain
			switch {
			case r.chain == known.chain:
				uses++
			case r.chain == known.from && (leads || slices.Contains(remarks, r.comment)):
				b.add(family, unix.NFT_MSG_DELRULE, 0, append(inChain(table, known.from), handle(r.handle)...))
				removed = append(removed, fmt.Sprintf("%s rule in %s %s", f, table, known.from))
				if leads {
					uses++
				}
			}
		}
		chain, err := c.get(family, unix.NFT_MSG_GETCHAIN, chainOf(table, known.chain))
		if err != nil {
			return nil, err
		}
		if chain == nil {
			continue
		}
		others := number(chain.of[unix.NFTA_CHAIN_USE]) > uses // whose jumps keep the chain, which is emptied
		if rules := slices.ContainsFunc(all, func(r found) bool { return r.chain == known.chain }); rules {
			b.add(family, unix.NFT_MSG_DELRULE, 0, inChain(table, known.chain)) // all of it
		} else if others {
			continue
		}
		if !others {
			b.add(family, unix.NFT_MSG_DELCHAIN, 0, chainOf(table, known.chain))
		}
		removed = append(removed, fmt.Sprintf("%s chain %s in %s", f, known.chain, table))
	}
	return removed, nil
}

// handle returns the attribute that identifies a rule.
func handle(h []byte) []byte {
	return encode(func(e *netlink.AttributeEncoder) error {
		e.Bytes(unix.NFTA_RULE_HANDLE, h)
		return nil
	})
}
