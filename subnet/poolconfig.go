package subnet

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// poolDocument is one family's part of the config.
type poolDocument struct{ Network, SubnetLen, SubnetMin, SubnetMax json.RawMessage }

// poolTerms is how the two families' parts of the config differ.
var poolTerms = Pair[struct {
	prefix           string // of the keys
	usual            int    // SubnetLen where the network has room for it
	network, address string // examples
}]{
	IPv4: {"", 24, "10.5.0.0/16", "10.5.1.0"},
	IPv6: {"IPv6", 64, "fd00:5::/48", "fd00:5:0:1::"},
}

// reserved are networks whose addresses no node can route to another.
var reserved = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("::/64"), "unspecified, loopback and IPv4-mapped"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// parse reads and checks the pool of family f, and sets defaults. Like flannel, it
// treats a SubnetLen of 0 and a Min or Max of 0.0.0.0 as unset.
func (d poolDocument) parse(f Family) (Pool, error) {
	terms := poolTerms[f]
	network, subnetLen := terms.prefix+"Network", terms.prefix+"SubnetLen"
	var p Pool
	var r reader
	r.field(network, d.Network, &p.Network, "a network", fmt.Sprintf("one like %q", terms.network))
	r.field(subnetLen, d.SubnetLen, &p.SubnetLen, "a whole number", fmt.Sprintf("one like %d", terms.usual))
	if r.err != nil {
		return Pool{}, r.err
	}
	if why, fix := checkNetwork(p.Network, f); why != "" {
		return Pool{}, &ConfigError{network, shown(d.Network), why, fix}
	}
	// Host bits are ignored, as in flannel.
	p.Network = p.Network.Masked()

	longest, shortest := f.Bits()-2, p.Network.Bits()+2
	usual := max(terms.usual, shortest)
	if p.SubnetLen == 0 {
		p.SubnetLen = usual
	}
	fix := fmt.Sprintf("set it between %d and %d, or leave it out for %d", shortest, longest, usual)
	switch {
	case p.SubnetLen < 0 || p.SubnetLen > longest:
		return Pool{}, &ConfigError{subnetLen, shown(d.SubnetLen), "a node's subnet needs at least four addresses", fix}
	case p.SubnetLen < shortest:
		return Pool{}, &ConfigError{subnetLen, shown(d.SubnetLen), fmt.Sprintf("%s %s then has fewer than four subnets", network, p.Network), fix}
	}

	// The default leaves out the first subnet: its first address is the network's
	// own.
	size := uint128{0, 1}.shl(uint(f.Bits() - p.SubnetLen))
	p.Min = number(p.Network.Addr()).add(size).addr()
	p.Max = last(p.Network).sub(size.sub(uint128{0, 1})).addr()
	for _, bound := range []struct {
		key  string
		raw  json.RawMessage
		into *netip.Addr
	}{
		{terms.prefix + "SubnetMin", d.SubnetMin, &p.Min},
		{terms.prefix + "SubnetMax", d.SubnetMax, &p.Max},
	} {
		if err := readBound(bound.key, bound.raw, bound.into, p, f); err != nil {
			return Pool{}, err
		}
	}
	if p.Max.Less(p.Min) {
		// At least one of the two was set: the defaults are in order.
		key, raw, fix := terms.prefix+"SubnetMin", d.SubnetMin, fmt.Sprintf("set it to %s or lower", p.Max)
		if isNull(raw) {
			key, raw, fix = terms.prefix+"SubnetMax", d.SubnetMax, fmt.Sprintf("set it to %s or higher", p.Min)
		}
		return Pool{}, &ConfigError{key, shown(raw), fmt.Sprintf("no subnet lies between %s and %s", p.Min, p.Max), fix}
	}
	return p, nil
}

// checkNetwork returns why n cannot be the network of family f, or "".
func checkNetwork(n netip.Prefix, f Family) (why, fix string) {
	terms := poolTerms[f]
	fix = fmt.Sprintf("set it to a network like %q", terms.network)
	switch {
	case !n.IsValid():
		return f.String() + " is on and needs it", fix + fmt.Sprintf(", or Enable%s to false", f)
	case n.Addr().Is4In6():
		return "IPv4 written as IPv6", fix
	case FamilyOf(n.Addr()) != f:
		return fmt.Sprintf("not an %s network", f), fix
	case n.Bits() > f.Bits()-4:
		return "too small for four subnets of four addresses", fmt.Sprintf("set it to a /%d or larger", f.Bits()-4)
	}
	for _, r := range reserved {
		if r.prefix.Overlaps(n) {
			return fmt.Sprintf("contains %s addresses (%s)", r.what, r.prefix), fix
		}
	}
	return "", ""
}

// readBound reads Min or Max of p. It must be the first address of a subnet.
func readBound(key string, raw json.RawMessage, into *netip.Addr, p Pool, f Family) error {
	var a netip.Addr
	var r reader
	r.field(key, raw, &a, "an address", fmt.Sprintf("one like %q", poolTerms[f].address))
	switch {
	case r.err != nil:
		return r.err
	case !a.IsValid() || a.IsUnspecified():
		return nil
	case !p.Network.Contains(a):
		return &ConfigError{key, shown(raw), fmt.Sprintf("outside the network %s", p.Network), "set it inside, or leave it out"}
	}
	if subnet := netip.PrefixFrom(a, p.SubnetLen).Masked(); subnet.Addr() != a {
		return &ConfigError{key, shown(raw), fmt.Sprintf("not the first address of a /%d", p.SubnetLen), fmt.Sprintf("set it to %s", subnet.Addr())}
	}
	*into = a
	return nil
}
