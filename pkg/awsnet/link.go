package awsnet

import "slices"

// link sets the steps that each step needs.
func (d *differ) link() {
	byKey := make(map[Key][]StepID)
	for id := range d.steps {
		byKey[id.Key] = append(byKey[id.Key], id)
	}
	groups := d.sources()
	for id, s := range d.steps {
		switch id.Verb {
		case Create, Change:
			for _, k := range append(needs(s.Want), groups[ownerOf(s.Want)]...) {
				if d.want[k].Object != nil && d.h.Ours[k].Object == nil && len(byKey[k]) == 0 {
					s.Needs = append(s.Needs, StepID{Verb: Create, Key: k}) // the object cannot be created
				}
				d.afterCreation(s, byKey[k])
			}
			if n, is := s.Want.(Subnet); is {
				d.afterBlocks(s, n)
			}
			for _, other := range byKey[id.Key] { // itself, in another step
				if id.Verb == Create && (other.Verb == Delete || other.Verb == Wait) {
					s.Needs = append(s.Needs, other)
				}
			}
		}
	}
	for id := range d.doomed {
		d.afterUsers(id)
	}
}

// needs returns the keys of ours that must exist before an object can be created: those
// that it refers to, and those that AWS requires in addition.
func needs(o Object) (all []Key) {
	for _, r := range o.refs() {
		if r.ID == "" && r != (Ref{}) {
			all = append(all, r.Key)
		}
	}
	igw := InternetGateway{}.Key()
	switch o := o.(type) {
	case NATGateway, Bastion:
		all = append(all, igw)
	case Balancer:
		if o.Scheme == InternetFacing {
			all = append(all, igw)
		}
	}
	return all
}

// afterCreation makes a step wait for the steps that create another object.
func (d *differ) afterCreation(s *Step, of []StepID) {
	for _, id := range of {
		if id == s.StepID || id.Verb == Delete || id.Verb == Wait && d.steps[id].Want == nil {
			continue
		}
		s.Needs = append(s.Needs, id)
	}
}

// afterBlocks makes the creation of a subnet wait for the block that contains it, and
// for the deletion of subnets in its place.
func (d *differ) afterBlocks(s *Step, n Subnet) {
	for id, other := range d.steps {
		switch b := other.Want.(type) {
		case Block:
			if within(b.Prefix, n.IPv4) || b.Pool != "" && n.IPv6 != (Slice{}) {
				s.Needs = append(s.Needs, id)
			}
		}
		if old, is := d.doomed[id].Object.(Subnet); is && s.Verb == Create && old.IPv4.IsValid() && n.IPv4.IsValid() && old.IPv4.Overlaps(n.IPv4) {
			s.Needs = append(s.Needs, id)
		}
	}
}

// ownerOf returns a rule's group and direction. One call can add all rules of one
// owner.
func ownerOf(o Object) Rule {
	r, is := o.(Rule)
	if !is {
		return Rule{}
	}
	return Rule{Owner: r.Owner, Egress: r.Egress}
}

// sources returns the groups that the rules of each group name. All rules of a group
// wait for all of them, so that one call can create all rules.
func (d *differ) sources() map[Rule][]Key {
	all := make(map[Rule][]Key)
	for id, s := range d.steps {
		if r, is := s.Want.(Rule); is && id.Verb == Create && r.Group != (Ref{}) && r.Group.ID == "" {
			owner := ownerOf(r)
			if !slices.Contains(all[owner], r.Group.Key) {
				all[owner] = append(all[owner], r.Group.Key)
			}
		}
	}
	return all
}

// afterUsers makes a deletion wait until no object of ours uses the object.
func (d *differ) afterUsers(id StepID) {
	s, gone := d.steps[id], d.doomed[id]
	if id.Verb == Wait {
		return
	}
	use := func(o Object) bool {
		switch r := o.(type) {
		case Route: // a blackhole does no harm
			if r.Via.Key == id.Key && r.Table.Key != id.Key && d.isDoomed(r.Table.Key) {
				return false
			}
		}
		if d.h.ID(id.Key) != gone.ID { // users of a twin refer to its ID
			return slices.ContainsFunc(o.refs(), func(r Ref) bool { return r.ID == gone.ID })
		}
		return slices.Contains(needs(o), id.Key)
	}
	for _, p := range d.skipped {
		switch p.part.(type) {
		case Association, Listener:
			if p.with != id && use(p.part) {
				s.Needs = append(s.Needs, p.with)
			}
		}
	}
	for other, step := range d.steps {
		if other == id || step.Have == nil || !use(step.Have) {
			continue
		}
		switch other.Verb {
		case Delete:
			s.Needs = append(s.Needs, other)
		case Wait:
			if step.Want == nil {
				s.Needs = append(s.Needs, other)
			}
		case Change:
			if d.replaced[id.Key] && d.h.ID(id.Key) == gone.ID {
				continue // its change comes after
			}
			s.Needs = append(s.Needs, other)
		}
	}
}
