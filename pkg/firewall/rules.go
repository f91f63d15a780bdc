package firewall

import (
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/subnet"
)

// Rules are what a node wants of its firewall. The zero Rules want nothing.
type Rules struct {
	// Networks are the network's addresses, and Own the node's part of them, in
	// the families that are on.
	Networks, Own subnet.Pair[netip.Prefix]
	// Masquerade is the families in which packets that leave the network get an address
	// of the host.
	Masquerade subnet.Pair[bool]
	// Random chooses ports that are unpredictable, and that no two packets get at once.
	Random bool
	// Exempt are destinations that see the containers' own addresses.
	Exempt []netip.Prefix
	// Confined has, for each family, the devices through which alone packets for the network
	// may leave the host. They may leave through any if the first one is "". The second one
	// may be "".
	Confined subnet.Pair[[2]string]
	// Forward makes foreign firewalls accept packets from and to the network.
	Forward bool
	// NFTables is the network config's choice of nftables.
	NFTables subnet.Choice
}

// Equal reports whether both want the same.
func (r Rules) Equal(o Rules) bool {
	return r.Networks == o.Networks && r.Own == o.Own && r.Masquerade == o.Masquerade && r.Random == o.Random && r.Confined == o.Confined &&
		r.Forward == o.Forward && r.NFTables == o.NFTables && slices.Equal(r.Exempt, o.Exempt)
}

var multicast = subnet.Pair[netip.Prefix]{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}

// NAT returns the rules that decide which packets of a family are masqueraded, in
// order.
func (r Rules) NAT(f subnet.Family) []Rule {
	network, own := Net{Prefix: r.Networks[f]}, Net{Prefix: r.Own[f]}
	if !r.Masquerade[f] || !network.Prefix.IsValid() || !own.Prefix.IsValid() {
		return nil
	}
	masquerade := Masquerade
	if r.Random {
		masquerade = MasqueradeRandom
	}
	rules := []Rule{
		{Marked: true, Does: Return}, // kube-proxy masquerades them
		{From: network, To: network, Does: Return},
		{To: own, Does: Return}, // from outside: the container sees the client's address
		{From: network, To: Net{Prefix: multicast[f]}, Does: Return},
	}
	for _, p := range r.Exempt {
		if subnet.FamilyOf(p.Addr()) == f {
			rules = append(rules, Rule{From: network, To: Net{Prefix: p}, Does: Return})
		}
	}
	return append(rules,
		Rule{From: network, Does: masquerade},
		Rule{To: network, Does: masquerade}, // of the host, or through it: the answer must come back here
	)
}

// Confines returns the rules that drop packets of a family which would leave the host
// other than through the confined devices, in order. Packets for the host's own containers
// may go anywhere.
func (r Rules) Confines(f subnet.Family) []Rule {
	network, own := Net{Prefix: r.Networks[f]}, Net{Prefix: r.Own[f]}
	first, second := r.Confined[f][0], r.Confined[f][1]
	if first == "" || !network.Prefix.IsValid() || !own.Prefix.IsValid() {
		return nil
	}
	rules := []Rule{{To: own, Does: Return}}
	if second != "" {
		rules = append(rules, Rule{To: network, Out: Iface{Name: second}, Does: Return})
	}
	return append(rules, Rule{To: network, Out: Iface{Name: first, Not: true}, Does: Drop})
}

// Forwards returns the rules that accept packets of a family, in order.
func (r Rules) Forwards(f subnet.Family) []Rule {
	network := Net{Prefix: r.Networks[f]}
	if !r.Forward || !network.Prefix.IsValid() {
		return nil
	}
	return []Rule{{From: network, Does: Accept}, {To: network, Does: Accept}}
}
