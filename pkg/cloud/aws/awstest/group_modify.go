package awstest

import (
	"net/netip"
	"slices"
)

var noRule = func(id string) *Error {
	return bad("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", id)
}

// modifyRules replaces rules of a group, each by its ID, all or none.
func modifyRules(r *request) error {
	g, err := r.groupOf()
	if err != nil {
		return err
	}
	changes := r.form.list("SecurityGroupRule")
	if len(changes) == 0 {
		return bad("MissingParameter", "The request must contain the parameter SecurityGroupRule")
	}
	then := slices.Clone(g.rules)
	for _, f := range changes {
		id, err := f.want("SecurityGroupRuleId")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(then, func(o rule) bool { return o.id == id })
		if i < 0 {
			return noRule(id)
		}
		if then[i], err = r.ruleAs(then[i], f.at("SecurityGroupRule")); err != nil {
			return err
		}
	}
	for i, o := range then {
		if slices.ContainsFunc(then[:i], func(p rule) bool { return p.egress == o.egress && p.ruleKey == o.ruleKey }) {
			return bad("InvalidPermission.Duplicate", "the specified rule \"peer: %s, %s, from port: %d, to port: %d, ALLOW\" already exists", o.peer(), o.protocol, o.from, o.to)
		}
	}
	g.rules = then
	r.x.flag("return", true)
	return nil
}

// ruleAs returns a rule with the changes of a request.
func (r *request) ruleAs(o rule, f *form) (rule, error) {
	k := ruleKey{protocol: f.text("IpProtocol"), group: f.text("ReferencedGroupId"), list: f.text("PrefixListId")}
	if name, ok := protocols[k.protocol]; ok {
		k.protocol = name
	}
	if k.protocol == "" {
		return o, bad("MissingParameter", "The request must contain the parameter ipProtocol")
	}
	var err error
	if k.from, err = f.number("FromPort", -1); err != nil {
		return o, err
	}
	if k.to, err = f.number("ToPort", -1); err != nil {
		return o, err
	}
	if k.protocol == anyProtocol {
		k.from, k.to = -1, -1
	} else if wrong := wrongPorts(k); wrong != nil {
		return o, wrong
	}
	sources := 0
	for name, to := range map[string]*string{"CidrIpv4": &k.v4, "CidrIpv6": &k.v6} {
		text := f.text(name)
		if text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is6() != (name == "CidrIpv6") {
			return o, bad("InvalidParameterValue", "CIDR block %s is malformed", text)
		}
		*to = p.Masked().String()
	}
	for _, source := range []string{k.v4, k.v6, k.group, k.list} {
		if source != "" {
			sources++
		}
	}
	if sources != 1 {
		return o, bad("InvalidParameterValue", "A rule must have exactly one source or destination")
	}
	if k.group != "" {
		if _, err := named(r, &r.groups, k.group, noGroup); err != nil {
			return o, err
		}
	}
	o.ruleKey, o.description = k, f.text("Description")
	return o, nil
}

// describeAs changes the descriptions of rules, which the request names by content or by ID.
func describeAs(egress bool) func(*request) error {
	return func(r *request) error {
		g, err := r.groupOf()
		if err != nil {
			return err
		}
		then := slices.Clone(g.rules)
		change := func(is func(rule) bool, description string, none *Error) error {
			i := slices.IndexFunc(then, func(o rule) bool { return o.egress == egress && is(o) })
			if i < 0 {
				return none
			}
			then[i].description = description
			return nil
		}
		if list := r.form.list("SecurityGroupRuleDescription"); len(list) > 0 {
			for _, f := range list {
				id := f.text("SecurityGroupRuleId")
				if err := change(func(o rule) bool { return o.id == id }, f.text("Description"), noRule(id)); err != nil {
					return err
				}
			}
		} else {
			wanted, err := r.rulesOf(egress)
			if err != nil {
				return err
			}
			for _, w := range wanted {
				none := bad("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
				if err := change(func(o rule) bool { return o.ruleKey == w.ruleKey }, w.description, none); err != nil {
					return err
				}
			}
		}
		g.rules = then
		r.x.flag("return", true)
		return nil
	}
}

// ruleObject is a rule as an object of describe.
type ruleObject struct {
	meta
	of *group
	rule
}

// describeRules answers with the rules of groups, one by one.
func describeRules(r *request) error {
	var s shelf[*ruleObject]
	n := 0
	for _, g := range r.groups.order {
		for _, o := range g.rules {
			n++
			s.add(&ruleObject{meta{id: o.id, seq: n, made: o.made, tags: o.tags}, g, o})
		}
	}
	return describe(r, &s, &kind[*ruleObject]{
		ids: "SecurityGroupRuleId", set: "securityGroupRuleSet", least: 5, most: 1000, missing: noRule,
		by: attributes[*ruleObject]{
			"group-id":               func(_ *request, o *ruleObject) []string { return one(o.of.id) },
			"security-group-rule-id": func(_ *request, o *ruleObject) []string { return one(o.rule.id) },
		},
		write: func(r *request, o *ruleObject) { r.rule(o.of, o.rule) },
	})
}
