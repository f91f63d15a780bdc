package awsnet

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Holding is an Account from the point of view of one cluster.
type Holding struct {
	Owner Owner
	// Ours are the objects that are this cluster's, with Keys in their Refs.
	Ours map[Key]Found
	// Twins have the Key of an object in Ours: a call was repeated after its answer was
	// lost. They are ours, too.
	Twins []Found
	// Claimed are those that will be Twins. They have no UID yet, and nothing without
	// one is deleted.
	Claimed []Found
	// Foreign are the objects in our VPC or in an object of ours that are not ours, and
	// those that have the cluster's tag without its UID. Their Refs to our objects are
	// Keys.
	Foreign []Found
}

// ID returns the ID of an object of ours, or "".
func (h Holding) ID(k Key) string { return h.Ours[k].ID }

// Sort divides an Account by its tags. For objects without tags, want decides whether
// they are ours.
func Sort(o Owner, want map[Key]Wanted, a Account) Holding {
	s := &sorter{
		Holding: Holding{Owner: o, Ours: make(map[Key]Found)},
		want:    want, keys: make(map[string]Key), uses: make(map[string]int), lost: make(map[string]bool),
	}
	for _, f := range a.Found {
		for _, r := range f.Object.refs() {
			s.uses[r.ID]++
		}
	}
	rest := slices.Clone(a.Found)
	slices.SortFunc(rest, func(x, y Found) int {
		return cmp.Or(cmp.Compare(rank[KindOf(x.Object)], rank[KindOf(y.Object)]), cmp.Compare(x.ID, y.ID))
	})
	rest = s.adopt(s.tagged(rest), a.Found)
	s.choose(rest)
	s.resolve()
	s.parts(rest)
	s.taggings(a.Found)
	return s.Holding
}

type sorter struct {
	Holding
	want map[Key]Wanted
	keys map[string]Key  // keys of our objects, by ID
	uses map[string]int  // number of objects that refer to an ID
	lost map[string]bool // the IDs of twins
	// chosen is the block of IPv6 that AWS chose for our VPC, and block its ID.
	chosen netip.Prefix
	block  string
}

// choose finds the block of IPv6 that AWS chose for our VPC. A VPC may have several: a
// person may add one, and so may a repeated call whose answer was lost. Ours is the
// block that contains our subnets.
func (s *sorter) choose(rest []Found) {
	var blocks []Found
	for _, f := range rest {
		if b, is := f.Object.(Block); is && s.keys[b.VPC.ID] == (VPC{}).Key() && s.isBlock(b) && b.Pool != "" && !s.want[b.Key()].Object.(Block).Prefix.IsValid() {
			blocks = append(blocks, f)
		}
	}
	if len(blocks) == 0 {
		return
	}
	subnets := func(block netip.Prefix) (n int) {
		for _, f := range s.Ours {
			if o, is := f.Object.(Subnet); is && o.IPv6.Prefix.IsValid() && within(block, o.IPv6.Prefix) {
				n++
			}
		}
		return n
	}
	first := slices.MinFunc(blocks, func(a, b Found) int {
		return cmp.Or(cmp.Compare(subnets(b.Given.Block), subnets(a.Given.Block)), s.compare(a, b))
	})
	s.chosen, s.block = first.Given.Block, first.ID
}

// tagged finds the objects that are ours by their tags, and returns the rest.
func (s *sorter) tagged(all []Found) (rest []Found) {
	candidates := make(map[Key][]Found)
	for _, f := range all {
		kind := KindOf(f.Object)
		k, ok := ParseKey(f.Tags[PartTag])
		switch {
		case kind.Tagged() && ok && k.Kind == kind && s.Owner.Owns(f.Tags) && !f.Fixed:
			candidates[k] = append(candidates[k], f)
		case kind == KindSecurityGroup && f.Fixed && s.want[Key{KindSecurityGroup, defaultGroup}].Object != nil && s.inMain(candidates, f):
			candidates[Key{KindSecurityGroup, defaultGroup}] = []Found{f}
		default:
			rest = append(rest, f)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(candidates), compareKeys) {
		list := candidates[k]
		slices.SortStableFunc(list, func(a, b Found) int { return s.compare(a, b) })
		for i, f := range list {
			f.Object = named(f.Object, k.Name)
			if i == 0 && !s.inLost(f) {
				s.Ours[k], s.keys[f.ID] = f, k
				continue
			}
			s.Twins = append(s.Twins, f)
			s.lost[f.ID] = true
		}
	}
	return rest
}

// adopt adopts objects, and returns the rest.
func (s *sorter) adopt(rest, all []Found) []Found {
	for more := true; more; {
		more = false
		rest = slices.DeleteFunc(rest, func(f Found) bool {
			k, ok := s.adopted(f, all)
			if !ok {
				return false
			}
			f.Object = named(f.Object, k.Name)
			if _, twice := s.Ours[k]; !twice {
				s.Ours[k], s.keys[f.ID] = f, k
			} else if k.Kind == KindRouteTable { // one table for subnets that had a table each
				s.Claimed = append(s.Claimed, f)
			} else {
				return false
			}
			more = true
			return true
		})
	}
	return rest
}

// inMain reports whether a group is in our VPC. VPCs come first in the order.
func (s *sorter) inMain(candidates map[Key][]Found, f Found) bool {
	list := candidates[VPC{}.Key()]
	return len(list) > 0 && slices.MinFunc(list, s.compare).ID == f.Object.(SecurityGroup).VPC.ID
}

// compare orders two objects with one Key: the one to keep comes first.
func (s *sorter) compare(a, b Found) int {
	worth := func(f Found) int {
		switch {
		case s.inLost(f):
			return 3
		case f.State == Deleting:
			return 2
		case f.State == Failed:
			return 1
		}
		return 0
	}
	ties := func(f Found) int { // an attached gateway comes first
		n := s.uses[f.ID]
		if g, is := f.Object.(InternetGateway); is && g.VPC != (Ref{}) {
			n++
		}
		return n
	}
	return cmp.Or(cmp.Compare(worth(a), worth(b)), cmp.Compare(ties(b), ties(a)), cmp.Compare(a.ID, b.ID))
}

// inLost reports whether an object is in a VPC that is a twin.
func (s *sorter) inLost(f Found) bool {
	return slices.ContainsFunc(f.Object.refs(), func(r Ref) bool { return s.lost[r.ID] })
}

// resolve replaces the Refs of our objects with Keys.
func (s *sorter) resolve() {
	for k, f := range s.Ours {
		f.Object = f.Object.with(s.ref)
		if n, is := f.Object.(Subnet); is && n.IPv6.Nth == 0 {
			if i := number(s.chosen, n.IPv6.Prefix); i > 0 {
				n.IPv6 = Slice{Nth: i}
				f.Object = n
			}
		}
		s.Ours[k] = f
	}
	for _, list := range [][]Found{s.Twins, s.Claimed} {
		for i := range list {
			list[i].Object = list[i].Object.with(s.ref)
		}
	}
}

func (s *sorter) ref(r Ref) Ref {
	if k, ours := s.keys[r.ID]; ours && r.ID != "" {
		return Ref{Key: k}
	}
	return r
}

// parts finds our objects without a PartTag: parts of our objects that are not
// certainly foreign.
func (s *sorter) parts(rest []Found) {
	for _, f := range rest {
		f.Object = f.Object.with(s.ref)
		k := f.Object.Key()
		switch {
		case f.Fixed:
		case s.isPart(f):
			if _, twice := s.Ours[k]; !twice {
				s.Ours[k] = f
			}
		case s.touches(f) || f.Tags[s.Owner.Tag()] == owned:
			s.Foreign = append(s.Foreign, f)
		}
	}
}

// isPart reports whether an object without a PartTag is ours.
func (s *sorter) isPart(f Found) bool {
	ours := func(r Ref) bool { return s.Ours[r.Key].Object != nil }
	w, wanted := s.want[f.Object.Key()]
	switch o := f.Object.(type) {
	case Block:
		return ours(o.VPC) && s.isBlock(o) && (o.Pool == "" || s.block == "" || s.block == f.ID)
	case Route:
		return ours(o.Table) && (wanted || wasOurs(o))
	case Association:
		return ours(o.Subnet)
	case Rule:
		if o.Owner.Key.Name == defaultGroup {
			return ours(o.Owner)
		}
		return ours(o.Owner) && (wanted || s.Owner.Owns(f.Tags))
	case Listener:
		adopted := s.Owner.Adopt != "" && f.Tags[s.Owner.Tag()] == owned && f.Tags[UIDTag] == ""
		return ours(o.Balancer) && (wanted && (adopted || w.Object == f.Object) || s.Owner.Owns(f.Tags))
	}
	return false
}

// isBlock reports whether a block is the wanted one. People may add others.
func (s *sorter) isBlock(b Block) bool {
	w, wanted := s.want[b.Key()].Object.(Block)
	return wanted && w.Pool == b.Pool && (w.Prefix == b.Prefix || !w.Prefix.IsValid())
}

// wasOurs reports whether a route that is no longer wanted can only be ours. A route
// has no tags, so one to a gateway of ours may be another program's. Only a default
// route of the table's own kind is certainly ours.
func wasOurs(r Route) bool {
	if r.To != anyIPv4 && r.To != anyIPv6 && r.To != nat64 {
		return false
	}
	switch r.Via.Key.Kind {
	case KindNATGateway, KindEgressGateway:
		return strings.HasPrefix(r.Table.Key.Name, "private-")
	case KindInternetGateway:
		return r.Table.Key.Name == "public"
	case KindCarrierGateway:
		return r.Table.Key.Name == "carrier"
	}
	return false
}

// touches reports whether an object refers to one of ours.
func (s *sorter) touches(f Found) bool {
	return slices.ContainsFunc(f.Object.refs(), func(r Ref) bool { return r.ID == "" && s.Ours[r.Key].Object != nil })
}

// taggings finds our tags on objects that are not ours.
func (s *sorter) taggings(all []Found) {
	for _, f := range all {
		if _, is := f.Object.(Subnet); !is || s.keys[f.ID] != (Key{}) {
			continue
		}
		k := Key{KindTagging, f.ID}
		w, wanted := s.want[k]
		sharer := sharerPrefix + s.Owner.Cluster
		tags := make(map[string]string)
		if wanted {
			for name := range w.Object.(Tagging).Tags.Map() {
				if v, has := f.Tags[name]; has {
					tags[name] = v
				}
			}
		} else if f.Tags[sharer] == s.Owner.UID && s.Owner.UID != "" {
			tags[sharer] = f.Tags[sharer]
			if name := clusterTag + s.Owner.Cluster; f.Tags[name] == shared {
				tags[name] = shared
			}
		}
		if len(tags) > 0 {
			s.Ours[k] = Found{ID: f.ID, Object: Tagging{ID: f.ID, Tags: PairsOf(tags)}}
		}
	}
}

// named returns an object with its name, which AWS has only in its tag.
func named(o Object, name string) Object {
	switch o := o.(type) {
	case Subnet:
		o.Name = name
		return o
	case Address:
		o.Name = name
		return o
	case NATGateway:
		o.Name = name
		return o
	case RouteTable:
		o.Name = name
		return o
	case Endpoint:
		o.Service = name
		return o
	case SecurityGroup:
		o.Role = name
		return o
	case Balancer:
		o.Name = name
		return o
	case TargetGroup:
		o.Name = name
		return o
	}
	return o
}
