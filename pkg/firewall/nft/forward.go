package nft

import (
	"context"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// remark is the comment that marks our rules among foreign ones.
const remark = "tulle"

// Forward is the firewall.Engine of the rules in iptables' FORWARD chains, if these
// exist.
type Forward struct{ *Tables }

// Sync implements firewall.Engine.
func (w Forward) Sync(_ context.Context, r firewall.Rules) (changed bool, err error) {
	changed, err = w.carryOut(func(c conn, b *batch) error {
		for _, f := range subnet.Families {
			if err := c.forward(b, f, r); err != nil {
				return err
			}
		}
		return nil
	})
	return changed, unlessAbsent(err) // without nftables nothing drops either
}

// Watch calls poke when it begins to listen, and after every change of iptables'
// filter tables by another program. It returns when ctx ends or the socket fails.
func (w Forward) Watch(ctx context.Context, poke func()) error {
	return w.watch(ctx, poke, at(watchedTable{unix.NFPROTO_IPV4, filterTable}, watchedTable{unix.NFPROTO_IPV6, filterTable}))
}

// forward makes the family's FORWARD chain, if it exists, accept our packets.
func (c conn) forward(b *batch, f subnet.Family, r firewall.Rules) error {
	family, want := protocols[f], r.Forwards(f)
	chain, err := c.get(family, unix.NFT_MSG_GETCHAIN, chainOf(filterTable, forwardChain))
	if chain == nil || err != nil {
		return err
	}
	all, err := c.rules(family, filterTable, forwardChain)
	if err != nil {
		return err
	}
	var ours, others []found
	at := -1 // the index of the foreign rule that ours precede, all of them
	for _, rule := range all {
		switch {
		case !rule.isOurs():
			others = append(others, rule)
			continue
		case at < 0:
			at = len(others)
		case at != len(others):
			at = len(all)
		}
		ours = append(ours, rule)
	}
	place := 0
	if len(want) > 0 {
		if place, err = c.position(family, plain(others), r.Networks[f], r.Own[f]); err != nil {
			return err
		}
	}
	if at <= place && slices.EqualFunc(ours, want, func(a found, b firewall.Rule) bool { return a.Rule == b }) {
		return nil
	}
	var before []byte
	how := netlink.Create | netlink.Append
	if place < len(others) {
		before, how = others[place].handle, netlink.Create
	}
	for _, rule := range want {
		b.add(family, unix.NFT_MSG_NEWRULE, how, ruleAttributes(filterTable, forwardChain, rule, before))
	}
	for _, rule := range ours {
		b.add(family, unix.NFT_MSG_DELRULE, 0, append(inChain(filterTable, forwardChain), handle(rule.handle)...))
	}
	return nil
}

// isOurs reports whether a rule in FORWARD may be one that was written here, for this
// network or for another. The comment alone is not enough: people write it too.
func (r found) isOurs() bool {
	net := r.From
	if r.To.Prefix.IsValid() {
		net = r.To
	}
	bare := r.Rule == firewall.Rule{From: net, Does: firewall.Accept} || r.Rule == firewall.Rule{To: net, Does: firewall.Accept}
	return r.comment == remark && bare && net.Prefix.IsValid() && !net.Not
}

// position returns the place of our rules among the foreign ones in FORWARD.
func (c conn) position(family uint8, others []firewall.Rule, network, own netip.Prefix) (place int, err error) {
	known := make(map[string][]firewall.Rule)
	place = firewall.Position(others, func(chain string) []firewall.Rule {
		rules, ok := known[chain]
		if !ok && err == nil {
			var all []found
			all, err = c.rules(family, filterTable, chain)
			rules = plain(all)
			known[chain] = rules
		}
		return rules
	}, network, own)
	return place, err
}
