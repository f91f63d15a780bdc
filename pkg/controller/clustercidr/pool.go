package clustercidr

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// poolName returns the name of a ClusterCIDR's pool. No other source has a pool of that
// name.
func poolName(object string) string { return "clustercidr/" + object }

// leastHostBits is the minimum of perNodeHostBits, as the field's description has it.
const leastHostBits = 4

// poolOf returns the pool that a ClusterCIDR describes. One that is being deleted gives
// nothing.
func poolOf(c *kube.ClusterCIDR) (ipam.Pool, error) {
	p := ipam.Pool{Name: poolName(c.Metadata.Name), Grow: "create another ClusterCIDR that selects the Node"}
	if c.Unreadable != "" {
		return p, fmt.Errorf("spec cannot be read: %.200s; correct it", c.Unreadable)
	}
	texts := subnet.Pair[string]{subnet.IPv4: c.Spec.IPv4, subnet.IPv6: c.Spec.IPv6}
	for f, text := range texts {
		if text == "" {
			continue
		}
		f := subnet.Family(f)
		r, err := readRange(f, text)
		if err != nil {
			return p, err
		}
		switch bits, most := c.Spec.PerNodeHostBits, f.Bits()-r.Bits(); {
		case most < leastHostBits:
			return p, fmt.Errorf("range %s: too small for a Node; use /%d or larger", r, f.Bits()-leastHostBits)
		case bits < leastHostBits || bits > most:
			return p, fmt.Errorf("perNodeHostBits %d: out of the bounds for %s; use %d to %d", bits, r, leastHostBits, most)
		}
		p.Ranges[f], p.Bits[f] = []netip.Prefix{r}, f.Bits()-c.Spec.PerNodeHostBits
		if c.Metadata.DeletionTimestamp != "" {
			p.Draining = append(p.Draining, r)
		}
	}
	if s := c.Spec.NodeSelector; s != nil && len(s.Terms) > 0 {
		p.Selector = selectorOf(s)
	}
	return p, p.Check()
}

// readRange reads a range of one family. Host bits do not matter.
func readRange(f subnet.Family, text string) (netip.Prefix, error) {
	r, err := netip.ParsePrefix(text)
	if err != nil || r.Addr().Is4In6() || subnet.FamilyOf(r.Addr()) != f {
		return netip.Prefix{}, fmt.Errorf("%.60q: not an %s range in CIDR notation", text, f)
	}
	return r.Masked(), nil
}

// selectorOf returns a node selector as pools have it.
func selectorOf(s *kube.NodeSelector) *ipam.Selector {
	all := new(ipam.Selector)
	for _, t := range s.Terms {
		all.Terms = append(all.Terms, ipam.Term{Labels: requirementsOf(t.Labels), Fields: requirementsOf(t.Fields)})
	}
	return all
}

func requirementsOf(all []kube.Requirement) (same []ipam.Requirement) {
	for _, r := range all {
		same = append(same, ipam.Requirement{Key: r.Key, Operator: r.Operator, Values: slices.Clone(r.Values)})
	}
	return same
}
