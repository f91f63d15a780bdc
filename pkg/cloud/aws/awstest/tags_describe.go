package awstest

import (
	"cmp"
	"slices"
)

// taggedObject is a tag of an object, as an object of describe.
type taggedObject struct {
	meta
	of *meta
	tag
}

// taggedAll returns all objects that can have tags of EC2.
func (a *account) taggedAll() []*meta {
	var all []*meta
	collect(&all, a.vpcs.order)
	collect(&all, a.subnets.order)
	collect(&all, a.tables.order)
	collect(&all, a.instances.order)
	collect(&all, a.enis.order)
	collect(&all, a.groups.order)
	for _, g := range a.groups.order {
		for _, o := range g.rules {
			all = append(all, o.meta)
		}
	}
	collect(&all, a.igws.order)
	collect(&all, a.egresses.order)
	collect(&all, a.endpoints.order)
	collect(&all, a.eips.order)
	collect(&all, a.nats.order)
	slices.SortFunc(all, func(a, b *meta) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

func collect[T object](to *[]*meta, all []T) {
	for _, o := range all {
		*to = append(*to, o.base())
	}
}

// describeTags answers with tags of all kinds of objects.
func describeTags(r *request) error {
	var s shelf[*taggedObject]
	n := 0
	for _, m := range r.taggedAll() {
		for _, t := range m.tags {
			n++
			s.order = append(s.order, &taggedObject{meta{seq: n, made: m.made, tags: []tag{t}}, m, t})
		}
	}
	return describe(r, &s, &kind[*taggedObject]{
		set: "tagSet", least: 5, most: 1000,
		by: attributes[*taggedObject]{
			"key":           func(_ *request, t *taggedObject) []string { return one(t.key) },
			"value":         func(_ *request, t *taggedObject) []string { return []string{t.value} },
			"resource-id":   func(_ *request, t *taggedObject) []string { return one(t.of.id) },
			"resource-type": func(_ *request, t *taggedObject) []string { return one(t.of.kind) },
		},
		write: func(r *request, t *taggedObject) {
			r.x.text("resourceId", t.of.id)
			r.x.text("resourceType", t.of.kind)
			r.x.always("key", t.key)
			r.x.always("value", t.value)
		},
	})
}
