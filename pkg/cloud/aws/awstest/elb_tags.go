package awstest

import (
	"slices"
	"strings"
)

// elbTags reads a list of tags.
func (r *request) elbTags(list []*form) ([]tag, error) {
	var tags []tag
	for _, f := range list {
		t := tag{f.text("Key"), f.text("Value")}
		switch {
		case t.key == "" || len(t.key) > 128 || len(t.value) > 256:
			return nil, invalid("The tag '%.40s' must have a key of 1 to 128 characters, and a value of at most 256", t.key)
		case strings.HasPrefix(strings.ToLower(t.key), "aws:"):
			return nil, invalid("Tag keys that begin with 'aws:' are reserved for internal use")
		case slices.ContainsFunc(tags, func(o tag) bool { return o.key == t.key }):
			return nil, bad("DuplicateTagKeys", "The tag key '%s' was specified more than once", t.key)
		}
		tags = append(tags, t)
	}
	if len(tags) > r.set.TagsPerObject {
		return nil, bad("TooManyTags", "The maximum number of tags has been reached: %d", r.set.TagsPerObject)
	}
	return tags, nil
}

// elbTargets returns the objects that a request about tags names. All must be there.
func (r *request) elbTargets() ([]*meta, error) {
	arns := listedTexts(r.form, "ResourceArns")
	switch {
	case len(arns) == 0:
		return nil, invalid("1 validation error detected: Value null at 'resourceArns' failed to satisfy constraint: Member must not be null")
	case len(arns) > mostNamed:
		return nil, invalid("Up to %d resources can be specified, and the request names %d", mostNamed, len(arns))
	}
	var all []*meta
	for _, arn := range arns {
		m, err := r.elbResource(arn)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// elbResource returns the object of an ARN.
func (r *request) elbResource(arn string) (*meta, error) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(arn, r.arn(elbService, "")), "/")
	switch kind {
	case "loadbalancer":
		b, err := named(r, &r.elbs, arn, noBalancer)
		if err != nil {
			return nil, err
		}
		return &b.meta, nil
	case "targetgroup":
		g, err := named(r, &r.targets, arn, noTargetGroup)
		if err != nil {
			return nil, err
		}
		return &g.meta, nil
	case "listener":
		l, err := named(r, &r.listeners, arn, noListener)
		if err != nil {
			return nil, err
		}
		return &l.meta, nil
	}
	return nil, invalid("'%s' is not a valid resource ARN", arn)
}

func addELBTags(r *request) error {
	all, err := r.elbTargets()
	if err != nil {
		return err
	}
	tags, err := r.elbTags(listed(r.form, "Tags"))
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		return invalid("1 validation error detected: Value null at 'tags' failed to satisfy constraint: Member must not be null")
	}
	for _, m := range all {
		if r.overTags(m, tags) {
			return bad("TooManyTags", "The maximum number of tags has been reached on '%s'", m.id)
		}
	}
	for _, m := range all {
		m.addTags(tags)
	}
	return nil
}

func removeELBTags(r *request) error {
	all, err := r.elbTargets()
	if err != nil {
		return err
	}
	keys := listedTexts(r.form, "TagKeys")
	for _, m := range all {
		m.tags = slices.DeleteFunc(m.tags, func(t tag) bool { return slices.Contains(keys, t.key) })
	}
	return nil
}

func describeELBTags(r *request) error {
	all, err := r.elbTargets()
	if err != nil {
		return err
	}
	x := r.x
	members(x, "TagDescriptions", all, func(m *meta) {
		x.text("ResourceArn", m.id)
		members(x, "Tags", m.tags, func(t tag) {
			x.always("Key", t.key)
			x.always("Value", t.value)
		})
	})
	return nil
}
