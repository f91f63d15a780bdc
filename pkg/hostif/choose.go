package hostif

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"regexp"
	"slices"
	"sort"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Choose returns the uplink of each family that is on. The error is a *SettingError,
// or joins a *NoUplinkError for each family that has none. It returns the other
// family's uplink in that case too.
func Choose(view View, spec Spec) (subnet.Pair[Uplink], error) {
	var uplinks subnet.Pair[Uplink]
	if err := spec.Check(); err != nil {
		return uplinks, err
	}
	var failed error
	for _, f := range subnet.Families {
		if !spec.Networks[f].IsValid() {
			continue
		}
		u, missing := choose(view, spec, f)
		if missing != nil {
			failed = errors.Join(failed, missing)
		}
		uplinks[f] = u
	}
	return uplinks, failed
}

// choose returns the first candidate of family f that has a usable address.
func choose(view View, spec Spec, f subnet.Family) (Uplink, *NoUplinkError) {
	s := search{View: view, Spec: spec, family: f}
	s.Names = s.Names.OrWords()
	missing := &NoUplinkError{Family: f, Setting: s.Names.Iface}
	for _, c := range s.candidates() {
		address, obstacle := s.address(c)
		if obstacle != "" {
			missing.Tried = append(missing.Tried, c.why+": "+obstacle)
			continue
		}
		link := s.carrier(c.link)
		u := Uplink{
			Link: link.Name, MTU: link.MTU, Address: address, Public: cmp.Or(spec.Published[f], spec.PublicIP[f], address),
			TakesRouterAdvertisements: link.RouterAdvertisements, Why: c.why,
		}
		return u, nil
	}
	missing.Seen = describe(view.Links)
	return Uplink{}, missing
}

// search is the search for one family's uplink.
type search struct {
	View
	Spec
	family subnet.Family
}

// candidate is an interface that a setting, or the default route, leads to.
type candidate struct {
	why  string
	link *netstate.HostLink // nil: there is none
	// lender is the link whose addresses count, if not link itself.
	lender *netstate.HostLink
	addr   netip.Addr // the only suitable one, if valid
	via    netip.Addr // the router on the link, if one is known
}

// address returns the candidate's address, or why it has none.
func (s search) address(c candidate) (a netip.Addr, obstacle string) {
	switch {
	case c.link == nil:
		return netip.Addr{}, "not found"
	case s.isBridge(c.link.Name):
		return netip.Addr{}, c.link.Name + " is a bridge of containers"
	}
	if c.addr.IsValid() {
		if l := s.holder(c.addr); l == nil || !slices.Contains(s.usableOf(l, s.family, netip.Addr{}), c.addr) {
			return netip.Addr{}, c.addr.String() + " is not usable"
		}
		return c.addr, ""
	}
	lender := cmp.Or(c.lender, c.link)
	if usable := s.usableOf(lender, s.family, c.via); len(usable) > 0 {
		return usable[0], ""
	}
	return netip.Addr{}, fmt.Sprintf("%s has no usable %s address", lender.Name, s.family)
}

// candidates returns the interfaces to try, in order.
func (s search) candidates() []candidate {
	if s.named() {
		return slices.Concat(s.byIface(), s.byRegex(), s.byReach(), s.byNodeIP())
	}
	return slices.Concat(s.byPublicIP(), s.byDefault())
}

// named reports whether a setting names an interface. An empty name does not: scripts
// pass it for none.
func (s search) named() bool {
	return len(s.IfaceRegexes) > 0 || s.CanReach.IsValid() || s.FromNodeIP ||
		slices.ContainsFunc(s.Ifaces, func(iface string) bool { return iface != "" })
}

func (s search) byIface() (found []candidate) {
	for _, iface := range s.Ifaces {
		if iface == "" {
			continue
		}
		c := candidate{why: s.Names.Iface + "=" + shown(iface)}
		if a, err := netip.ParseAddr(iface); err != nil {
			c.link = s.link(iface)
		} else if a = a.Unmap(); subnet.FamilyOf(a) == s.family {
			c.link, c.addr = s.holder(a), a
		} else if s.hasOwnAddress() {
			continue
		} else {
			c.link = s.holder(a)
		}
		found = append(found, c)
	}
	return found
}

// hasOwnAddress reports whether Ifaces has an address of this family. Addresses of
// the other family then do not choose this one's interface.
func (s search) hasOwnAddress() bool {
	return slices.ContainsFunc(s.Ifaces, func(iface string) bool {
		a, err := netip.ParseAddr(iface)
		return err == nil && subnet.FamilyOf(a.Unmap()) == s.family
	})
}

func (s search) byRegex() (found []candidate) {
	for _, expr := range s.IfaceRegexes {
		re, err := regexp.Compile(expr)
		if err != nil {
			continue // Check has rejected it
		}
		setting, before := s.Names.IfaceRegex+"="+shown(expr), len(found)
		for l, a := range s.matches(re, s.family) {
			found = append(found, candidate{why: setting + " (by address)", link: l, addr: a})
		}
		for i, l := range s.Links {
			if re.MatchString(l.Name) {
				found = append(found, candidate{why: setting + " (by name)", link: &s.Links[i]})
			}
		}
		for l := range s.matches(re, otherFamily(s.family)) {
			found = append(found, candidate{why: setting + " (by its other family's address)", link: l})
		}
		if len(found) == before {
			found = append(found, candidate{why: setting})
		}
	}
	return found
}

// matches returns the usable addresses of family f that re matches.
func (s search) matches(re *regexp.Regexp, f subnet.Family) iter.Seq2[*netstate.HostLink, netip.Addr] {
	return func(yield func(*netstate.HostLink, netip.Addr) bool) {
		for i := range s.Links {
			for _, a := range s.usableOf(&s.Links[i], f, netip.Addr{}) {
				if re.MatchString(a.String()) && !yield(&s.Links[i], a) {
					return
				}
			}
		}
	}
}

func (s search) byReach() []candidate {
	if !s.CanReach.IsValid() {
		return nil
	}
	c := candidate{why: s.Names.CanReach + "=" + s.CanReach.String(), link: s.link(s.Reach.Link)}
	if subnet.FamilyOf(s.CanReach) == s.family {
		c.addr = s.Reach.Source
	}
	// The kernel sends to an address of its own through the loopback.
	if own := s.holder(s.CanReach); own != nil {
		c.link = own
	}
	return []candidate{c}
}

// byNodeIP returns the interface that has the Node's address, or the other family's.
func (s search) byNodeIP() (found []candidate) {
	if !s.FromNodeIP {
		return nil
	}
	for _, f := range []subnet.Family{s.family, otherFamily(s.family)} {
		ip := s.NodeIP[f]
		if !ip.IsValid() {
			continue
		}
		c := candidate{why: fmt.Sprintf("%s (%s)", s.Names.FromNodeIP, ip), link: s.holder(ip)}
		if f == s.family {
			c.addr = ip
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return []candidate{{why: s.Names.FromNodeIP + " (the Node has no InternalIP)"}}
	}
	return found
}

// byPublicIP returns the interface that has the public address, or the other
// family's. A host behind NAT has neither.
func (s search) byPublicIP() (found []candidate) {
	for _, f := range []subnet.Family{s.family, otherFamily(s.family)} {
		l := s.holder(s.PublicIP[f])
		if l == nil {
			continue
		}
		c := candidate{why: fmt.Sprintf("%s=%s", s.Names.PublicIP[f], s.PublicIP[f]), link: l}
		if f == s.family {
			c.addr = s.PublicIP[f]
		}
		found = append(found, c)
	}
	return found
}

func (s search) byDefault() (found []candidate) {
	for _, d := range s.defaultRoutes() {
		found = append(found, s.byWay(d)...)
	}
	if len(found) == 0 {
		return []candidate{{why: "default route"}}
	}
	return found
}

// defaultRoutes returns the default routes, the best first.
func (s search) defaultRoutes() []netstate.DefaultRoute {
	var ways []netstate.DefaultRoute
	for _, d := range s.Defaults {
		if subnet.FamilyOf(d.Dst.Addr()) == s.family {
			ways = append(ways, d)
		}
	}
	sort.SliceStable(ways, func(i, j int) bool {
		a, b := &ways[i], &ways[j]
		return cmp.Or(
			against(a.Down, b.Down),
			cmp.Compare(a.Priority, b.Priority),
			against(!s.leadsToLast(*a), !s.leadsToLast(*b)),
		) < 0
	})
	return ways
}

func (s search) byWay(d netstate.DefaultRoute) []candidate {
	c := candidate{why: "default route", link: s.link(d.Link), addr: d.Source, via: d.Via}
	found := []candidate{c}
	// A host in a routed fabric has its address on the loopback. The kernel uses it as
	// the source on a link without addresses.
	if c.lender = s.link(loopback); c.lender != nil && !d.Source.IsValid() {
		c.why = "default route, with an address of lo"
		found = append(found, c)
	}
	return found
}

// leadsToLast reports whether d alone would lead to the address that was chosen last.
// It is not enough that its link has the address: another link may have it too, and
// this one may have a better one.
func (s search) leadsToLast(d netstate.DefaultRoute) bool {
	for _, c := range s.byWay(d) {
		if a, obstacle := s.address(c); obstacle == "" {
			return a == s.Last[s.family]
		}
	}
	return false
}

const loopback = "lo"

// carrier returns the link through which packets from an address on l leave: no
// packet leaves through the loopback, and its MTU means nothing to other hosts.
func (s search) carrier(l *netstate.HostLink) *netstate.HostLink {
	if l.Name != loopback {
		return l
	}
	s.Last[s.family] = netip.Addr{} // the choice is made; of equal ways, the first
	for _, d := range s.defaultRoutes() {
		if way := s.link(d.Link); way != nil && !s.isBridge(way.Name) {
			return way
		}
	}
	return l
}

// link returns the link of a name.
func (s search) link(name string) *netstate.HostLink {
	return linkAt(s.Links, slices.IndexFunc(s.Links, func(l netstate.HostLink) bool { return l.Name == name }))
}

// holder returns the link that has an address.
func (s search) holder(a netip.Addr) *netstate.HostLink {
	return linkAt(s.Links, slices.IndexFunc(s.Links, func(l netstate.HostLink) bool { return hasAddr(l, a) }))
}

func hasAddr(l netstate.HostLink, a netip.Addr) bool {
	return slices.ContainsFunc(l.Addrs, func(h netstate.HostAddr) bool { return h.Addr() == a })
}

func linkAt(links []netstate.HostLink, i int) *netstate.HostLink {
	if i < 0 {
		return nil
	}
	return &links[i]
}

func otherFamily(f subnet.Family) subnet.Family { return subnet.IPv4 + subnet.IPv6 - f }
