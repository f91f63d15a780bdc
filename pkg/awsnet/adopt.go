package awsnet

import "slices"

// adopted returns the Key of an object that this cluster adopts, although the object
// has another UID or none: an address that a network of the same name kept, or an
// object in the VPC that Owner.Adopt names, which Cluster API's AWS provider made. It
// adopts only objects that are wanted. Some are recognised by others that are already
// adopted, so call it again for all while it adopts any.
func (s *sorter) adopted(f Found, all []Found) (Key, bool) {
	if f.Tags[s.Owner.Tag()] != owned || f.Fixed {
		return Key{}, false
	}
	if k, ok := ParseKey(f.Tags[PartTag]); ok && k.Kind == KindAddress && f.Tags[KeptTag] == "true" && f.Given.UsedBy == "" {
		_, is := f.Object.(Address)
		return k, is && s.want[k].Object != nil
	}
	if _, other := f.Tags[UIDTag]; other || s.Owner.Adopt == "" {
		return Key{}, false
	}
	k := s.place(f, all)
	return k, k != (Key{}) && s.want[k].Object != nil
}

// inAdopted reports whether a Ref is to the VPC of Owner.Adopt.
func (s *sorter) inAdopted(vpc Ref) bool { return vpc.ID == s.Owner.Adopt }

// place returns the Key of the wanted object whose place f has, or the zero Key.
func (s *sorter) place(f Found, all []Found) Key {
	key := func(o Object) Key { return o.Key() }
	is := func(r Ref, k Ref) bool { return r.ID != "" && s.keys[r.ID] == k.Key }
	switch o := f.Object.(type) {
	case VPC:
		if f.ID == s.Owner.Adopt {
			return key(o)
		}
	case InternetGateway:
		if s.inAdopted(o.VPC) {
			return key(o)
		}
	case EgressGateway:
		if s.inAdopted(o.VPC) {
			return key(o)
		}
	case CarrierGateway:
		if s.inAdopted(o.VPC) {
			return key(o)
		}
	case Subnet:
		return s.wanted(func(w Object) bool {
			n, same := w.(Subnet)
			return same && s.inAdopted(o.VPC) && n.Zone == o.Zone && n.IPv4 == o.IPv4 && n.IPv4.IsValid()
		})
	case NATGateway:
		return s.wanted(func(w Object) bool { g, same := w.(NATGateway); return same && is(o.Subnet, g.Subnet) })
	case Address:
		return s.wanted(func(w Object) bool {
			g, same := w.(NATGateway)
			return same && f.Given.UsedBy != "" && s.keys[f.Given.UsedBy] == key(g)
		}).address(s.want)
	case RouteTable:
		return s.tableOf(f.ID, all)
	case Endpoint:
		if s.inAdopted(o.VPC) {
			return Key{KindEndpoint, o.Service}
		}
	case SecurityGroup:
		if s.inAdopted(o.VPC) {
			return Key{KindSecurityGroup, f.Tags[roleTag]}
		}
	case Balancer:
		return s.wanted(func(w Object) bool {
			b, same := w.(Balancer)
			return same && f.Tags[roleTag] == PrimaryBalancer && b.Scheme == o.Scheme && slices.ContainsFunc(o.Subnets.All(), func(r Ref) bool { return s.keys[r.ID] != Key{} })
		})
	case TargetGroup:
		return s.groupOf(f, all)
	case Bastion:
		if f.Tags[roleTag] == string(RoleBastion) && s.keys[o.Subnet.ID] != (Key{}) {
			return key(o)
		}
	}
	return Key{}
}

// wanted returns the first Key whose object matches, or none.
func (s *sorter) wanted(match func(Object) bool) (first Key) {
	for k, w := range s.want {
		if match(w.Object) && (first == Key{} || compareKeys(k, first) < 0) {
			first = k
		}
	}
	return first
}

// address returns the Key of the address of a NAT gateway.
func (k Key) address(want map[Key]Wanted) Key {
	if g, is := want[k].Object.(NATGateway); is {
		return g.Address.Key
	}
	return Key{}
}

// tableOf returns the Key of the table that the subnets of another table are to have.
func (s *sorter) tableOf(id string, all []Found) Key {
	for _, f := range all {
		a, is := f.Object.(Association)
		if !is || a.Table.ID != id {
			continue
		}
		if w, is := s.want[Association{Subnet: Ref{Key: s.keys[a.Subnet.ID]}}.Key()].Object.(Association); is && s.keys[a.Subnet.ID] != (Key{}) {
			return w.Table.Key
		}
	}
	return Key{}
}

// groupOf returns the Key of the target group that a listener is to have.
func (s *sorter) groupOf(g Found, all []Found) Key {
	for _, f := range all {
		l, is := f.Object.(Listener)
		if !is || l.Group.ID != g.ID || s.keys[l.Balancer.ID] == (Key{}) {
			continue
		}
		w, is := s.want[Listener{Balancer: Ref{Key: s.keys[l.Balancer.ID]}, Port: l.Port}.Key()].Object.(Listener)
		if !is {
			continue
		}
		if t, is := s.want[w.Group.Key].Object.(TargetGroup); is && t.IPv6 == g.Object.(TargetGroup).IPv6 && t.Port == g.Object.(TargetGroup).Port {
			return w.Group.Key
		}
	}
	return Key{}
}
