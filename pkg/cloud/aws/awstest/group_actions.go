package awstest

import "slices"

func createGroup(r *request) error {
	name, err := r.form.want("GroupName")
	if err != nil {
		return err
	}
	description, err := r.form.want("GroupDescription")
	if err != nil {
		return err
	}
	v := r.vpcs.order[0]
	if id := r.form.text("VpcId"); id != "" {
		if v, err = named(r, &r.vpcs, id, noVPC); err != nil {
			return err
		}
	} else if !v.isDefault {
		return bad("VPCIdNotSpecified", "No default VPC for this user")
	}
	tags, err := r.newTags("security-group")
	if err != nil {
		return err
	}
	others := r.groups.find(func(g *group) bool { return g.vpc == v })
	switch {
	case slices.ContainsFunc(others, func(g *group) bool { return g.name == name }):
		return bad("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, v.id)
	case len(others) >= r.set.GroupsPerVPC:
		return bad("SecurityGroupLimitExceeded", "The maximum number of security groups for VPC '%s' has been reached.", v.id)
	}
	g := r.addGroup(v, name, description)
	g.addTags(tags["security-group"])
	r.x.text("groupId", g.id)
	r.x.flag("return", true)
	r.x.tags(g.tags)
	return nil
}

// groupOf returns the group that a request names.
func (r *request) groupOf() (*group, error) {
	return wanted(r, "GroupId", &r.groups, noGroup)
}

// deleteGroup deletes a group. No interface may have it, and no rule of another group may name
// it.
func deleteGroup(r *request) error {
	g, err := r.groupOf()
	if err != nil {
		return err
	}
	if g.name == defaultGroup {
		return bad("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", g.id)
	}
	held := slices.ContainsFunc(r.enis.order, func(n *eni) bool { return slices.Contains(n.groups, g) }) ||
		slices.ContainsFunc(r.groups.order, func(o *group) bool {
			return o != g && slices.ContainsFunc(o.rules, func(u rule) bool { return u.group == g.id })
		})
	if held {
		return bad("DependencyViolation", "resource %s has a dependent object", g.id)
	}
	r.groups.remove(g)
	r.x.flag("return", true)
	r.x.text("groupId", g.id)
	return nil
}

// ofRules returns a filter by a value of a group's rules.
func ofRules(egress bool, get func(rule) string) func(*request, *group) []string {
	return func(_ *request, g *group) []string {
		var all []string
		for _, o := range g.rules {
			if o.egress == egress {
				all = append(all, one(get(o))...)
			}
		}
		return all
	}
}

var groupKind = &kind[*group]{
	ids: "GroupId", set: "securityGroupInfo", least: 5, most: 1000, missing: noGroup,
	by: attributes[*group]{
		"group-id":                      func(_ *request, g *group) []string { return one(g.id) },
		"group-name":                    func(_ *request, g *group) []string { return one(g.name) },
		"description":                   func(_ *request, g *group) []string { return one(g.description) },
		"vpc-id":                        func(_ *request, g *group) []string { return one(g.vpc.id) },
		"owner-id":                      func(r *request, _ *group) []string { return one(r.place.account) },
		"ip-permission.cidr":            ofRules(false, func(o rule) string { return o.v4 }),
		"ip-permission.ipv6-cidr":       ofRules(false, func(o rule) string { return o.v6 }),
		"ip-permission.group-id":        ofRules(false, func(o rule) string { return o.group }),
		"ip-permission.protocol":        ofRules(false, func(o rule) string { return o.protocol }),
		"egress.ip-permission.cidr":     ofRules(true, func(o rule) string { return o.v4 }),
		"egress.ip-permission.group-id": ofRules(true, func(o rule) string { return o.group }),
	},
	write: func(r *request, g *group) {
		r.x.text("ownerId", r.place.account)
		r.x.text("groupId", g.id)
		r.x.text("groupName", g.name)
		r.x.text("groupDescription", g.description)
		r.x.text("vpcId", g.vpc.id)
		r.permissions("ipPermissions", g, false)
		r.permissions("ipPermissionsEgress", g, true)
		r.x.tags(g.tags)
	},
}

func describeGroups(r *request) error { return describe(r, &r.groups, groupKind) }
