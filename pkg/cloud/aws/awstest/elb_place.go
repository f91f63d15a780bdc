package awstest

import (
	"net/netip"
	"slices"
)

// foothold is a load balancer's interface in a subnet.
type foothold struct {
	eni *eni
	// What the request asked for.
	allocation, private, v6 string
}

// wantedPlace is a subnet that a load balancer shall have an interface in.
type wantedPlace struct {
	subnet  *subnet
	address *eip
	// kept is the interface that is there already.
	kept        *foothold
	private, v6 string
}

// leastFree is how many free addresses a subnet must have for a load balancer.
const leastFree = 8

// wantedPlaces reads the subnets that a request names for a load balancer.
func (r *request) wantedPlaces(b *balancer) ([]wantedPlace, error) {
	plain, mapped := listedTexts(r.form, "Subnets"), listed(r.form, "SubnetMappings")
	switch {
	case len(plain) > 0 && len(mapped) > 0:
		return nil, invalid("You must specify either subnets or subnet mappings, not both")
	case len(plain)+len(mapped) == 0:
		return nil, invalid("At least one subnet must be specified")
	}
	var all []wantedPlace
	add := func(id string) (*wantedPlace, error) {
		s, err := named(r, &r.subnets, id, func(id string) *Error {
			return bad("SubnetNotFound", "The subnet ID '%s' does not exist", id)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, wantedPlace{subnet: s})
		return &all[len(all)-1], nil
	}
	for _, id := range plain {
		if _, err := add(id); err != nil {
			return nil, err
		}
	}
	for _, f := range mapped {
		w, err := add(f.text("SubnetId"))
		if err != nil {
			return nil, err
		}
		w.private, w.v6 = f.text("PrivateIPv4Address"), f.text("IPv6Address")
		if id := f.text("AllocationId"); id != "" {
			if w.address, err = named(r, &r.eips, id, func(id string) *Error {
				return bad("AllocationIdNotFound", "The allocation IDs '%s' are not available for use", id)
			}); err != nil {
				return nil, err
			}
		}
	}
	for i := range all {
		j := slices.IndexFunc(b.places, func(p *foothold) bool { return p.eni.subnet == all[i].subnet })
		if j >= 0 {
			all[i].kept = b.places[j]
		}
	}
	return all, r.fitPlaces(b, all)
}

// fitPlaces checks what subnets a load balancer is to have.
func (r *request) fitPlaces(b *balancer, all []wantedPlace) error {
	var zones, addresses []string
	for _, w := range all {
		s := w.subnet
		switch {
		case s.vpc != all[0].subnet.vpc || b.vpc != nil && s.vpc != b.vpc:
			return bad("InvalidSubnet", "All subnets must belong to the same VPC: '%s'", s.id)
		case slices.Contains(zones, s.zone.name):
			return unfit("A load balancer cannot be attached to multiple subnets in the same Availability Zone")
		case b.scheme == facing && !slices.ContainsFunc(r.igws.order, func(g *igw) bool { return g.vpc == s.vpc }):
			return bad("InvalidSubnet", "VPC %s has no internet gateway", s.vpc.id)
		case w.kept == nil && s.free() < leastFree:
			return bad("InvalidSubnet", "Not enough IP space available in %s. ELB requires at least %d free IP addresses in each subnet", s.id, leastFree)
		case b.family == dualstack && len(s.v6) == 0:
			return unfit("The subnet '%s' has no IPv6 CIDR block, which the IP address type dualstack needs", s.id)
		case b.family != dualstack && (w.v6 != "" || b.prefix == "on"):
			return unfit("IPv6 addresses and prefixes need the IP address type dualstack")
		case w.address != nil && b.scheme != facing:
			return unfit("Allocation IDs cannot be specified for internal load balancers")
		case w.private != "" && b.scheme != internal:
			return unfit("Private IPv4 addresses can only be specified for internal load balancers")
		}
		zones = append(zones, s.zone.name)
		if e := w.address; e != nil {
			held := e.eni != nil && (w.kept == nil || e.eni != w.kept.eni)
			if held || slices.Contains(addresses, e.id) {
				return bad("ResourceInUse", "The allocation IDs are already in use: '%s'", e.id)
			}
			addresses = append(addresses, e.id)
		}
		if err := w.fitAddress(w.private, false); err != nil {
			return err
		}
		if err := w.fitAddress(w.v6, true); err != nil {
			return err
		}
	}
	return nil
}

// fitAddress checks an address that a request asks for.
func (w wantedPlace) fitAddress(text string, six bool) error {
	if text == "" {
		return nil
	}
	at, err := netip.ParseAddr(text)
	switch s := w.subnet; {
	case err != nil || at.Is6() != six:
		return invalid("The address '%s' is not valid", text)
	case six && !s.holds6(at) || !six && !s.v4.Contains(at):
		return unfit("The address '%s' is not in the range of the subnet '%s'", text, s.id)
	case s.used[at] && (w.kept == nil || w.kept.private != text && w.kept.v6 != text):
		return unfit("The address '%s' is in use", text)
	}
	return nil
}

// settlePlaces gives a load balancer the interfaces that it shall have, and takes the
// others from it.
func (r *request) settlePlaces(b *balancer, all []wantedPlace) error {
	var places []*foothold
	for _, w := range all {
		p := w.kept
		if p == nil {
			n, err := r.addInterface(plan{subnet: w.subnet, private: w.private, groups: groupIDs(b.groups), description: "ELB net/" + b.name + "/" + b.hex})
			if err != nil {
				return err
			}
			n.manager, n.itype, n.check = "amazon-elb", "network_load_balancer", false
			if !b.grouped {
				n.groups = nil
			}
			p = &foothold{eni: n, private: w.private, v6: w.v6}
			if b.scheme == facing && w.address == nil {
				n.v4[0].public = r.nextPublic()
			}
		}
		if e := w.address; e != nil && e.eni != p.eni {
			r.give(e, p.eni, 0)
			p.allocation = e.id
		}
		if err := r.settleV6(b, p); err != nil {
			return err
		}
		places = append(places, p)
	}
	for _, p := range b.places {
		if !slices.Contains(places, p) {
			r.letGo(p)
		}
	}
	b.places = places
	return nil
}

// settleV6 gives an interface an IPv6 address if it is to have one.
func (r *request) settleV6(b *balancer, p *foothold) error {
	n := p.eni
	if b.family != dualstack {
		for _, a := range n.v6 {
			delete(n.subnet.used, a)
		}
		n.v6 = nil
		return nil
	}
	if len(n.v6) > 0 {
		return nil
	}
	at, wrong := netip.Addr{}, (*Error)(nil)
	if p.v6 != "" {
		at, wrong = n.subnet.claim(p.v6)
	} else {
		at, wrong = n.subnet.take6()
	}
	if wrong != nil {
		return wrong
	}
	n.v6 = []netip.Addr{at}
	return nil
}

// letGo deletes an interface, after a while.
func (r *request) letGo(p *foothold) {
	a := r.account
	a.later(r.set.Linger, func() { a.deleteInterface(p.eni) })
}

// writePlaces writes the zones of a load balancer.
func (r *request) writePlaces(b *balancer) {
	x := r.x
	members(x, "AvailabilityZones", b.places, func(p *foothold) {
		x.text("ZoneName", p.eni.subnet.zone.name)
		x.text("SubnetId", p.eni.subnet.id)
		x.open("LoadBalancerAddresses")
		if p.allocation != "" || p.private != "" || b.family == dualstack {
			x.within("member", func() {
				if p.allocation != "" {
					x.text("IpAddress", p.eni.v4[0].public.String())
					x.text("AllocationId", p.allocation)
				}
				x.text("PrivateIPv4Address", p.private)
				if len(p.eni.v6) > 0 {
					x.text("IPv6Address", p.eni.v6[0].String())
				}
			})
		}
		x.close("LoadBalancerAddresses")
	})
}

func setSubnets(r *request) error {
	b, err := r.balancerOf()
	if err != nil {
		return err
	}
	changed := *b
	if changed.family, err = r.among(r.form, "IpAddressType", b.family, ipv4, dualstack); err != nil {
		return err
	}
	if changed.prefix, err = r.among(r.form, "EnablePrefixForIpv6SourceNat", b.prefix, "on", "off"); err != nil {
		return err
	}
	wanted, err := r.wantedPlaces(&changed)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if w.kept != nil && w.address != nil && w.kept.allocation != w.address.id {
			return unfit("The address of the subnet '%s' cannot be changed", w.subnet.id)
		}
	}
	if err := r.fitFamily(&changed); err != nil {
		return err
	}
	b.family, b.prefix, b.settings = changed.family, changed.prefix, ""
	if err := r.settlePlaces(b, wanted); err != nil {
		return err
	}
	r.writePlaces(b)
	r.x.text("IpAddressType", b.family)
	r.x.text("EnablePrefixForIpv6SourceNat", b.prefix)
	return nil
}

// fitFamily checks that a load balancer's listeners fit its IP address type.
func (r *request) fitFamily(b *balancer) error {
	for _, l := range r.listeners.order {
		if l.of.id == b.id {
			if err := r.fitListener(b, l.protocol); err != nil {
				return err
			}
		}
	}
	return nil
}
