package awstest

import (
	"net/netip"
	"slices"
)

// rule is a rule of a security group: one protocol, one range of ports, one source.
type rule struct {
	id, description string
	egress          bool
	ruleKey
	*meta // with its tags
}

// newRule gives a rule an ID.
func (a *account) newRule(o rule) rule {
	m := a.newMeta("security-group-rule", "sgr")
	o.id, o.meta = m.id, &m
	return o
}

// ruleKey identifies a rule in its group.
type ruleKey struct {
	protocol string
	from, to int
	// One of these is the source, or the destination of an egress rule.
	v4, v6, group, list string
}

// anyProtocol stands for all protocols in AWS's rules.
const anyProtocol = "-1"

var protocols = map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": anyProtocol}

// rulesOf reads the rules of a request.
func (r *request) rulesOf(egress bool) ([]rule, error) {
	var all []rule
	for _, f := range r.form.list("IpPermissions") {
		k, err := portsOf(f)
		if err != nil {
			return nil, err
		}
		some, err := r.sourcesOf(f, rule{egress: egress, ruleKey: k})
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, bad("InvalidParameterValue", "A rule has no source or destination")
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, bad("MissingParameter", "The request must contain the parameter ipPermissions")
	}
	return all, nil
}

// portsOf reads the protocol and the ports of a permission.
func portsOf(f *form) (k ruleKey, err error) {
	k.protocol = f.text("IpProtocol")
	if name, ok := protocols[k.protocol]; ok {
		k.protocol = name
	}
	if k.protocol == "" {
		return k, bad("MissingParameter", "The request must contain the parameter ipProtocol")
	}
	if k.from, err = f.number("FromPort", -1); err != nil {
		return k, err
	}
	if k.to, err = f.number("ToPort", -1); err != nil {
		return k, err
	}
	if k.protocol == anyProtocol {
		k.from, k.to = -1, -1
	} else if wrong := wrongPorts(k); wrong != nil {
		return k, wrong
	}
	return k, nil
}

// sourcesOf returns a rule for each source, or destination, of a permission.
func (r *request) sourcesOf(f *form, of rule) (all []rule, err error) {
	for name, v6 := range map[string]bool{"IpRanges": false, "Ipv6Ranges": true} {
		for _, from := range f.list(name) {
			text := from.text("CidrIp") + from.text("CidrIpv6")
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Addr().Is6() != v6 {
				return nil, bad("InvalidParameterValue", "CIDR block %s is malformed", text)
			}
			each := of
			if each.description = from.text("Description"); v6 {
				each.v6 = p.Masked().String()
			} else {
				each.v4 = p.Masked().String()
			}
			all = append(all, each)
		}
	}
	for _, from := range f.list("Groups") {
		if _, err := named(r, &r.groups, from.text("GroupId"), noGroup); err != nil {
			return nil, err
		}
		each := of
		each.description, each.group = from.text("Description"), from.text("GroupId")
		all = append(all, each)
	}
	for _, from := range f.list("PrefixListIds") {
		each := of
		each.description, each.list = from.text("Description"), from.text("PrefixListId")
		all = append(all, each)
	}
	return all, nil
}

// wrongPorts returns what is wrong with the ports of a rule.
func wrongPorts(k ruleKey) *Error {
	if (k.protocol == "tcp" || k.protocol == "udp") && (k.from < 0 || k.to > 65535 || k.from > k.to) {
		return bad("InvalidParameterValue", "Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
	}
	return nil
}

// authorize adds rules to a group, all or none.
func authorize(egress bool) func(*request) error {
	return func(r *request) error {
		g, err := r.groupOf()
		if err != nil {
			return err
		}
		rules, err := r.rulesOf(egress)
		if err != nil {
			return err
		}
		tags, err := r.newTags("security-group-rule")
		if err != nil {
			return err
		}
		for i, added := range rules {
			same := func(o rule) bool { return o.egress == egress && o.ruleKey == added.ruleKey }
			if slices.ContainsFunc(g.rules, same) || slices.ContainsFunc(rules[:i], same) {
				return bad("InvalidPermission.Duplicate", "the specified rule \"peer: %s, %s, from port: %d, to port: %d, ALLOW\" already exists", added.peer(), added.protocol, added.from, added.to)
			}
			rules[i] = r.newRule(added)
			rules[i].addTags(tags["security-group-rule"])
		}
		if g.count(egress)+len(rules) > r.set.RulesPerGroup {
			return bad("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
		}
		g.rules = append(g.rules, rules...)
		r.x.flag("return", true)
		items(r.x, "securityGroupRuleSet", rules, func(o rule) { r.rule(g, o) })
		return nil
	}
}

// revoke removes rules from a group. The request names them by content or by ID.
func revoke(egress bool) func(*request) error {
	return func(r *request) error {
		g, err := r.groupOf()
		if err != nil {
			return err
		}
		var gone []rule
		if ids := r.form.texts("SecurityGroupRuleId"); len(ids) > 0 {
			for _, id := range ids {
				i := slices.IndexFunc(g.rules, func(o rule) bool { return o.id == id && o.egress == egress })
				if i < 0 {
					return bad("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", id)
				}
				gone = append(gone, g.rules[i])
			}
		} else {
			rules, err := r.rulesOf(egress)
			if err != nil {
				return err
			}
			for _, wanted := range rules {
				i := slices.IndexFunc(g.rules, func(o rule) bool { return o.egress == egress && o.ruleKey == wanted.ruleKey })
				if i < 0 {
					return bad("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
				}
				gone = append(gone, g.rules[i])
			}
		}
		g.rules = slices.DeleteFunc(g.rules, func(o rule) bool {
			return slices.ContainsFunc(gone, func(g rule) bool { return g.id == o.id })
		})
		r.x.flag("return", true)
		return nil
	}
}

func (k ruleKey) peer() string { return k.v4 + k.v6 + k.group + k.list }

func (g *group) count(egress bool) int {
	n := 0
	for _, o := range g.rules {
		if o.egress == egress {
			n++
		}
	}
	return n
}

func (r *request) rule(g *group, o rule) {
	x := r.x
	x.text("securityGroupRuleId", o.id)
	x.text("groupId", g.id)
	x.text("groupOwnerId", r.place.account)
	x.flag("isEgress", o.egress)
	x.text("ipProtocol", o.protocol)
	x.number("fromPort", o.from)
	x.number("toPort", o.to)
	x.text("cidrIpv4", o.v4)
	x.text("cidrIpv6", o.v6)
	x.text("prefixListId", o.list)
	if o.group != "" {
		x.within("referencedGroupInfo", func() {
			x.text("groupId", o.group)
			x.text("userId", r.place.account)
		})
	}
	x.text("description", o.description)
	x.tags(o.tags)
}

// permissions writes rules for describes, which group them by protocol and port range.
func (r *request) permissions(name string, g *group, egress bool) {
	type ports struct {
		protocol string
		from, to int
	}
	var order []ports
	by := make(map[ports][]rule)
	for _, o := range g.rules {
		if o.egress != egress {
			continue
		}
		p := ports{o.protocol, o.from, o.to}
		if by[p] == nil {
			order = append(order, p)
		}
		by[p] = append(by[p], o)
	}
	x := r.x
	each := func(set, element string, rules []rule, get func(rule) string) {
		x.open(set)
		for _, o := range rules {
			if get(o) == "" {
				continue
			}
			x.within("item", func() {
				if element == "groupId" {
					x.text("userId", r.place.account)
				}
				x.text(element, get(o))
				x.text("description", o.description)
			})
		}
		x.close(set)
	}
	items(x, name, order, func(p ports) {
		x.text("ipProtocol", p.protocol)
		if p.protocol != anyProtocol {
			x.number("fromPort", p.from)
			x.number("toPort", p.to)
		}
		each("ipRanges", "cidrIp", by[p], func(o rule) string { return o.v4 })
		each("ipv6Ranges", "cidrIpv6", by[p], func(o rule) string { return o.v6 })
		each("groups", "groupId", by[p], func(o rule) string { return o.group })
		each("prefixListIds", "prefixListId", by[p], func(o rule) string { return o.list })
	})
}
