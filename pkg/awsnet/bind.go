package awsnet

import (
	"fmt"
)

// Binder knows the IDs of our objects while a Plan runs. Pass it the result of each
// creation with Learn. It is not safe for concurrent use.
type Binder struct {
	ids   map[Key]string
	given map[Key]Given
}

// Binder returns a Binder that knows the objects that existed when the Plan was made,
// including those that the Plan sweeps.
func (p Plan) Binder() *Binder {
	b := &Binder{ids: make(map[Key]string), given: make(map[Key]Given)}
	for k, f := range p.ours {
		b.Learn(k, f.ID, f.Given)
	}
	return b
}

// Learn records the ID and the other values that AWS gave an object.
func (b *Binder) Learn(k Key, id string, g Given) { b.ids[k], b.given[k] = id, g }

// ID returns the ID of an object of ours, or "".
func (b *Binder) ID(k Key) string { return b.ids[k] }

// Have returns an existing object as a call that deletes or changes it needs it: with
// IDs in its Refs. Values that AWS chose are not parameters of such a call.
func (b *Binder) Have(o Object) Object {
	return o.with(func(r Ref) Ref {
		if id := b.ids[r.Key]; r.ID == "" && id != "" {
			return Foreign(id)
		}
		return r
	})
}

// Bind returns an object as a call that creates it, or changes another one into it,
// needs it: with IDs in its Refs, and with the values that AWS has chosen meanwhile.
func (b *Binder) Bind(o Object) (Object, error) {
	var unknown error
	bound := o.with(func(r Ref) Ref {
		if r == (Ref{}) || r.ID != "" {
			return r
		}
		id := b.ids[r.Key]
		if id == "" {
			unknown = fmt.Errorf("%s needs %s, whose ID is not known yet", o.Key(), r.Key)
		}
		return Foreign(id)
	})
	switch x := o.(type) {
	case Subnet:
		if x.IPv6.Nth == 0 {
			break
		}
		p := x.IPv6.In(b.given[Block{Pool: AmazonPool}.Key()].Block)
		if !p.IsValid() {
			return nil, fmt.Errorf("%s needs the VPC's block of IPv6, which AWS has not chosen yet", o.Key())
		}
		s := bound.(Subnet)
		s.IPv6 = Slice{Prefix: p}
		bound = s
	case Rule:
		if x.Elastic == (Ref{}) {
			break
		}
		ip := b.given[x.Elastic.Key].Address
		if !ip.IsValid() {
			return nil, fmt.Errorf("%s needs the address of %s, which is not known yet", o.Key(), x.Elastic)
		}
		r := bound.(Rule)
		r.Elastic, r.Addresses = Ref{}, hostPrefix(ip)
		bound = r
	}
	return bound, unknown
}

// Named returns the other objects that an object refers to.
func Named(o Object) []Ref { return o.refs() }
