package netstate

import (
	"net/netip"
	"strings"
)

// Diff plans the way from actual, a dump of the kernel, to desired: applied to
// actual it gives desired, and a second Diff then gives nothing. Of another's
// routes in actual it touches only those whose place desired needs (see
// takesOver).
func Diff(desired *State, actual []Object) Plan {
	var p Planner
	diff(desired, actual, &p)
	return p.Plan()
}

// DiffSets returns Diff's plan without its deletes, and reports whether there are any.
// To plan as many deletes as a kernel may have objects, only to drop them, would cost
// much.
func DiffSets(desired *State, actual []Object) (sets Plan, deletes bool) {
	p := Planner{setsOnly: true}
	diff(desired, actual, &p)
	return p.Plan(), p.deletes
}

func diff(desired *State, actual []Object, p *Planner) {
	desired.beginPass()
	var others []Route // of ours that differ from what is wanted
	emptied, readdressed := linkChanges(desired, actual)
	met := 0
	for _, a := range actual {
		h := desired.find(a.Key())
		if h == nil {
			_, isLink := a.(Link)
			if (isLink || !emptied[LinkOf(a)]) && mayDelete(desired, a) {
				p.Add(Delete, a)
			}
			continue
		}
		if r, ok := a.(Route); ok && r.Protocol != 0 && !takesOver(desired, h.Object.(Route), r) {
			continue // counts as missing: Create will find what is in the way
		}
		if h.pass < desired.pass {
			h.pass = desired.pass
			met++
		}
		r, isRoute := a.(Route)
		h.placed = h.placed || !isRoute || r.Protocol == 0
		switch {
		case serves(a, h.Object) && !lost(a, emptied, readdressed):
			h.pass = desired.pass + 1
		case isRoute && r.Protocol == 0:
			others = append(others, r)
		default:
			p.Add(Replace, h.Object)
		}
	}
	// Another can append routes with a key of ours: one of them becomes what it
	// should be, if none is, and the rest go.
	for _, r := range others {
		h := desired.find(r.Key())
		if h.pass > desired.pass {
			p.Add(Delete, r)
			continue
		}
		h.pass = desired.pass + 1
		p.Add(Replace, h.Object)
	}
	if met < desired.len {
		for _, h := range desired.all() {
			if h.pass < desired.pass {
				p.Add(Create, h.Object)
			}
		}
	}
}

// linkChanges finds the links whose change costs what is on them: those that
// go, or are made again, lose all; those that get another MAC lose their
// neighbours.
func linkChanges(desired *State, actual []Object) (emptied, readdressed map[string]bool) {
	emptied, readdressed = make(map[string]bool), make(map[string]bool)
	for _, a := range actual {
		l, ok := a.(Link)
		if !ok {
			continue
		}
		want, ok := desired.Get(l.Key())
		switch {
		case !ok || !l.CanBecome(want.(Link)):
			emptied[l.Name] = true
		case l.MAC != want.(Link).MAC:
			readdressed[l.Name] = true
		}
	}
	return emptied, readdressed
}

// lost reports whether a goes by what happens to the link that it is on.
func lost(a Object, emptied, readdressed map[string]bool) bool {
	switch kindOf(a) {
	case KindLink:
		return false
	case KindNeigh:
		return emptied[LinkOf(a)] || readdressed[LinkOf(a)]
	default:
		return emptied[LinkOf(a)]
	}
}

// serves reports whether a, which has want's key, is what want asks for.
func serves(a, want Object) bool {
	if a == want {
		return true
	}
	p, ok := a.(WGPeer)
	return ok && p.serves(want.(WGPeer))
}

// mayDelete reports whether a, which desired does not have, is to go.
func mayDelete(desired *State, a Object) bool {
	switch a := a.(type) {
	case Sysctl:
		return false
	case Route:
		if a.Protocol == 0 {
			return true
		}
		if a.Protocol != ProtocolBoot {
			return false
		}
		// Another's: on our device it can only be a predecessor's. Elsewhere
		// it goes when it would shadow ours, which has the same destination
		// and a metric that comes after.
		if _, ours := desired.Get(Key{Kind: KindLink, Name: a.Link}); ours {
			return true
		}
		twin, ok := desired.Get(Route{Dst: a.Dst, Metric: SpreadMetric(a.Dst)}.Key())
		return ok && a.Metric < twin.Key().Metric && takesOver(desired, twin.(Route), a)
	default:
		return true
	}
}

// MayBePredecessors reports whether a, of a dump, may be a predecessor's route to a
// peer: only a Diff with all peers tells.
func MayBePredecessors(a Object) bool {
	r, ok := a.(Route)
	return ok && r.Protocol == ProtocolBoot && r.Dst.Bits() > 0
}

// takesOver reports whether ours may take the place of another's route to the
// same destination. It may where that is flannel's handwriting: flannel marks
// its routes no other way than by the protocol that everything defaults to, so
// we know it by the device, which is the one that we want ourselves, one of
// ours, or flannel's own; or by the gateway, which is the host to which ours
// leads through a tunnel.
func takesOver(desired *State, ours, theirs Route) bool {
	if theirs.Protocol != ProtocolBoot {
		return false
	}
	if theirs.Link == ours.Link || strings.HasPrefix(theirs.Link, "flannel") || theirs.Via.IsValid() && theirs.Via == remoteHost(desired, ours) {
		return true
	}
	_, own := desired.Get(Key{Kind: KindLink, Name: theirs.Link})
	return own
}

// remoteHost returns the host to which a route leads through a tunnel: its gateway itself,
// or that whose MAC the gateway has.
func remoteHost(desired *State, r Route) netip.Addr {
	if !r.OnLink && !r.Wrap {
		return netip.Addr{}
	}
	neigh, ok := desired.Get(Neigh{Link: r.Link, IP: r.Via}.Key())
	if !ok {
		return r.Via
	}
	fdb, ok := desired.Get(FDB{Link: r.Link, MAC: neigh.(Neigh).MAC}.Key())
	if !ok {
		return netip.Addr{}
	}
	return fdb.(FDB).Dst
}

// ProtocolBoot is the protocol of a route whose maker gave none, such as
// flannel's.
const ProtocolBoot = 3
