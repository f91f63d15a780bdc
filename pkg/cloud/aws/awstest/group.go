package awstest

// group is a security group.
type group struct {
	meta
	vpc               *vpc
	name, description string
	rules             []rule
}

func (a *account) addGroup(v *vpc, name, description string) *group {
	g := a.groups.add(&group{meta: a.newMeta("security-group", "sg"), vpc: v, name: name, description: description})
	all := ruleKey{protocol: anyProtocol, from: -1, to: -1, v4: "0.0.0.0/0"}
	g.rules = []rule{a.newRule(rule{egress: true, ruleKey: all})}
	if len(v.v6) > 0 {
		g.rules = append(g.rules, a.newRule(rule{egress: true, ruleKey: ruleKey{protocol: anyProtocol, from: -1, to: -1, v6: "::/0"}}))
	}
	if name == defaultGroup {
		all.v4, all.group = "", g.id
		g.rules = append(g.rules, a.newRule(rule{ruleKey: all}))
	}
	return g
}

// defaultGroup is the name of the group that AWS makes with each VPC.
const defaultGroup = "default"

// groupsOf returns the groups that a request names for an interface, or else the VPC's default
// group.
func (r *request) groupsOf(v *vpc, ids []string) ([]*group, error) {
	if len(ids) == 0 {
		return []*group{v.group}, nil
	}
	if len(ids) > r.set.GroupsPerInterface {
		return nil, bad("SecurityGroupsPerInterfaceLimitExceeded", "The maximum number of security groups per interface has been reached.")
	}
	var all []*group
	for _, id := range ids {
		g, err := named(r, &r.groups, id, noGroup)
		if err != nil {
			return nil, err
		}
		if g.vpc != v {
			return nil, bad("InvalidParameter", "You have specified two resources that belong to different networks.")
		}
		all = append(all, g)
	}
	return all, nil
}

func (x *answer) groups(all []*group) {
	items(x, "groupSet", all, func(g *group) {
		x.text("groupId", g.id)
		x.text("groupName", g.name)
	})
}

func groupIDs(all []*group) []string {
	var ids []string
	for _, g := range all {
		ids = append(ids, g.id)
	}
	return ids
}

func groupNames(all []*group) []string {
	var names []string
	for _, g := range all {
		names = append(names, g.name)
	}
	return names
}
