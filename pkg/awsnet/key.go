package awsnet

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Kind is the kind of an Object.
type Kind string

// The kinds. Each may depend on those before it.
const (
	KindVPC             Kind = "vpc"
	KindBlock           Kind = "block" // a further block of addresses of the VPC
	KindInternetGateway Kind = "internet-gateway"
	KindEgressGateway   Kind = "egress-gateway" // egress-only, for IPv6
	KindCarrierGateway  Kind = "carrier-gateway"
	KindSubnet          Kind = "subnet"
	KindAddress         Kind = "address"
	KindNATGateway      Kind = "nat-gateway"
	KindRouteTable      Kind = "route-table"
	KindRoute           Kind = "route"
	KindAssociation     Kind = "association" // of a subnet and a route table
	KindEndpoint        Kind = "endpoint"
	KindSecurityGroup   Kind = "security-group"
	KindRule            Kind = "rule"
	KindBalancer        Kind = "load-balancer"
	KindTargetGroup     Kind = "target-group"
	KindListener        Kind = "listener"
	KindBastion         Kind = "bastion"
	KindTagging         Kind = "tagging" // tags on an object that is not ours
)

// kinds are all kinds in their order.
var kinds = []Kind{
	KindVPC, KindBlock, KindInternetGateway, KindEgressGateway, KindCarrierGateway, KindSubnet, KindAddress, KindNATGateway, KindRouteTable,
	KindRoute, KindAssociation, KindEndpoint, KindSecurityGroup, KindRule, KindBalancer, KindTargetGroup, KindListener, KindBastion, KindTagging,
}

// rank is the position of each kind in kinds.
var rank = func() map[Kind]int {
	m := make(map[Kind]int)
	for i, k := range kinds {
		m[k] = i
	}
	return m
}()

// Tagged reports whether a tag contains the Key of a kind's objects. Objects of other
// kinds are parts of one, or are found by their content.
func (k Kind) Tagged() bool {
	switch k {
	case KindBlock, KindRoute, KindAssociation, KindRule, KindListener, KindTagging:
		return false
	}
	return true
}

// Key identifies an object within its cluster. It does not change while the object
// exists.
type Key struct {
	Kind Kind
	Name string
}

// String returns the key as the object's tag contains it, such as "subnet/public-a".
func (k Key) String() string { return string(k.Kind) + "/" + k.Name }

// ParseKey returns the Key in the value of a tag. Names have no control characters,
// because these separate the members of Refs.
func ParseKey(s string) (k Key, ok bool) {
	kind, name, ok := strings.Cut(s, "/")
	k = Key{Kind(kind), name}
	return k, ok && name != "" && !strings.ContainsFunc(name, unicode.IsControl) && slices.Contains(kinds, k.Kind)
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Name, b.Name))
}

// Ref refers to another object: to one of ours by its Key, or to any other by the ID
// that AWS gave it. The zero Ref refers to none.
type Ref struct {
	Key Key
	ID  string
}

// To returns a Ref to an object of ours.
func To(kind Kind, name string) Ref { return Ref{Key: Key{kind, name}} }

// Foreign returns a Ref to an object that is not ours.
func Foreign(id string) Ref { return Ref{ID: id} }

func (r Ref) String() string {
	switch {
	case r == Ref{}:
		return "nothing"
	case r.ID != "":
		return r.ID
	}
	return r.Key.String()
}

// Refs is a set of Refs that can be compared with ==.
type Refs string

// RefsTo returns a set.
func RefsTo(all ...Ref) Refs {
	var words []string
	for _, r := range all {
		word := "=" + r.ID
		if r.ID == "" {
			word = r.Key.String()
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return Refs(strings.Join(slices.Compact(words), "\n"))
}

// All returns the members, in order.
func (r Refs) All() (all []Ref) {
	for _, word := range r.words() {
		if id, is := strings.CutPrefix(word, "="); is {
			all = append(all, Foreign(id))
		} else if kind, name, ok := strings.Cut(word, "/"); ok {
			all = append(all, To(Kind(kind), name))
		}
	}
	return all
}

func (r Refs) words() []string {
	if r == "" {
		return nil
	}
	return strings.Split(string(r), "\n")
}

// Without returns the members that other does not have.
func (r Refs) Without(other Refs) Refs {
	has := other.All()
	return RefsTo(slices.DeleteFunc(r.All(), func(m Ref) bool { return slices.Contains(has, m) })...)
}

func (r Refs) String() string {
	var words []string
	for _, m := range r.All() {
		words = append(words, m.String())
	}
	return strings.Join(words, ", ")
}

// each returns the set with each member replaced by what to returns for it.
func (r Refs) each(to func(Ref) Ref) Refs {
	all := r.All()
	for i := range all {
		all[i] = to(all[i])
	}
	return RefsTo(all...)
}
