package awstest

import (
	"cmp"
	"slices"
	"strings"
)

type tag struct{ key, value string }

// Tag is a tag of an object.
type Tag struct{ Key, Value string }

func (m *meta) tag(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(m.tags, key, func(t tag, key string) int { return cmp.Compare(t.key, key) })
	if !ok {
		return "", false
	}
	return m.tags[i].value, true
}

func (m *meta) valueOf(key string) []string {
	if v, ok := m.tag(key); ok {
		return []string{v}
	}
	return nil
}

func (m *meta) keys() []string {
	keys := make([]string, len(m.tags))
	for i, t := range m.tags {
		keys[i] = t.key
	}
	return keys
}

func (m *meta) setTag(t tag) {
	i, ok := slices.BinarySearchFunc(m.tags, t.key, func(t tag, key string) int { return cmp.Compare(t.key, key) })
	if ok {
		m.tags[i] = t
	} else {
		m.tags = slices.Insert(m.tags, i, t)
	}
}

func (x *answer) tags(tags []tag) {
	if len(tags) > 0 {
		items(x, "tagSet", tags, func(t tag) {
			x.always("key", t.key)
			x.always("value", t.value)
		})
	}
}

// tagsAt reads a list of tags.
func (r *request) tagsAt(list []*form) ([]tag, error) {
	var tags []tag
	for _, f := range list {
		t := tag{f.text("Key"), f.text("Value")}
		switch {
		case t.key == "":
			return nil, bad("InvalidParameterValue", "Tag keys cannot be empty")
		case len(t.key) > 128:
			return nil, bad("InvalidParameterValue", "Tag key exceeds the maximum length of 128 characters")
		case len(t.value) > 256:
			return nil, bad("InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters")
		case strings.HasPrefix(strings.ToLower(t.key), "aws:"):
			return nil, bad("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		case slices.ContainsFunc(tags, func(o tag) bool { return o.key == t.key }):
			return nil, bad("InvalidParameterValue", "Duplicate tag key '%s' specified.", t.key)
		}
		tags = append(tags, t)
	}
	if len(tags) > r.set.TagsPerObject {
		return nil, bad("TagLimitExceeded", "More than %d tags specified", r.set.TagsPerObject)
	}
	return tags, nil
}

// newTags returns the tags of a request that creates objects of these kinds, by kind.
func (r *request) newTags(kinds ...string) (map[string][]tag, error) {
	all := make(map[string][]tag)
	for _, f := range r.form.list("TagSpecification") {
		kind := f.text("ResourceType")
		if !slices.Contains(kinds, kind) {
			return nil, bad("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
		tags, err := r.tagsAt(f.list("Tag"))
		if err != nil {
			return nil, err
		}
		all[kind] = append(all[kind], tags...)
	}
	return all, nil
}

func (m *meta) addTags(tags []tag) {
	for _, t := range tags {
		m.setTag(t)
	}
}

// tagged are the kinds of objects with tags, by the prefix of their IDs.
var tagged = map[string]struct {
	find    func(*account, string) (object, bool)
	missing func(string) *Error
}{
	"vpc":      {func(a *account, id string) (object, bool) { o, ok := a.vpcs.byID[id]; return o, ok }, noVPC},
	"subnet":   {func(a *account, id string) (object, bool) { o, ok := a.subnets.byID[id]; return o, ok }, noSubnet},
	"rtb":      {func(a *account, id string) (object, bool) { o, ok := a.tables.byID[id]; return o, ok }, noTable},
	"i":        {func(a *account, id string) (object, bool) { o, ok := a.instances.byID[id]; return o, ok }, noInstance},
	"eni":      {func(a *account, id string) (object, bool) { o, ok := a.enis.byID[id]; return o, ok }, noInterface},
	"igw":      {func(a *account, id string) (object, bool) { o, ok := a.igws.byID[id]; return o, ok }, noIGW},
	"nat":      {func(a *account, id string) (object, bool) { o, ok := a.nats.byID[id]; return o, ok }, noNAT},
	"eipalloc": {func(a *account, id string) (object, bool) { o, ok := a.eips.byID[id]; return o, ok }, noAllocation},
	"eigw":     {func(a *account, id string) (object, bool) { o, ok := a.egresses.byID[id]; return o, ok }, noEgress},
	"vpce":     {func(a *account, id string) (object, bool) { o, ok := a.endpoints.byID[id]; return o, ok }, noEndpoint},
	"sgr":      {findRule, noRule},
	"sg":       {func(a *account, id string) (object, bool) { o, ok := a.groups.byID[id]; return o, ok }, noGroup},
}

// tagTargets returns the objects that a request about tags names. All must exist.
func (r *request) tagTargets() ([]*meta, error) {
	ids := r.form.texts("ResourceId")
	if len(ids) == 0 {
		return nil, bad("MissingParameter", "The request must contain the parameter resourceIdSet")
	}
	var all []*meta
	for _, id := range ids {
		prefix, _, _ := strings.Cut(id, "-")
		k, ok := tagged[prefix]
		if !ok {
			return nil, bad("InvalidID", "The ID '%s' is not valid", id)
		}
		o, ok := k.find(r.account, id)
		if !ok || r.set.LagWrites && !r.seen(o.base().made) {
			return nil, k.missing(id)
		}
		all = append(all, o.base())
	}
	return all, nil
}

// overTags reports whether these tags would exceed an object's limit.
func (r *request) overTags(m *meta, tags []tag) bool {
	n := len(m.tags)
	for _, t := range tags {
		if _, ok := m.tag(t.key); !ok {
			n++
		}
	}
	return n > r.set.TagsPerObject
}

func createTags(r *request) error {
	targets, err := r.tagTargets()
	if err != nil {
		return err
	}
	if len(r.form.list("Tag")) == 0 {
		return bad("MissingParameter", "The request must contain the parameter tagSet")
	}
	tags, err := r.tagsAt(r.form.list("Tag"))
	if err != nil {
		return err
	}
	for _, m := range targets {
		if r.overTags(m, tags) {
			return bad("TagLimitExceeded", "The maximum number of tags for %s is %d", m.id, r.set.TagsPerObject)
		}
	}
	for _, m := range targets {
		m.addTags(tags)
	}
	r.x.flag("return", true)
	return nil
}

// deleteTags deletes tags by key, or by key and value if the request gives a value. Without
// keys, it deletes all.
func deleteTags(r *request) error {
	targets, err := r.tagTargets()
	if err != nil {
		return err
	}
	wanted := r.form.list("Tag")
	for _, m := range targets {
		m.tags = slices.DeleteFunc(m.tags, func(t tag) bool {
			return len(wanted) == 0 || slices.ContainsFunc(wanted, func(f *form) bool {
				return f.text("Key") == t.key && (!f.has("Value") || f.text("Value") == t.value)
			})
		})
	}
	r.x.flag("return", true)
	return nil
}

// findRule returns the tags of a rule of a security group.
func findRule(a *account, id string) (object, bool) {
	for _, g := range a.groups.order {
		for _, o := range g.rules {
			if o.id == id {
				return o.meta, true
			}
		}
	}
	return nil, false
}
