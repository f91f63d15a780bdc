package awstest

import (
	"maps"
	"slices"
)

// targetGroup is a target group.
type targetGroup struct {
	meta
	name, protocol, kind, family string
	port                         int
	vpc                          *vpc
	check                        check
	attributes                   map[string]string
	targets                      []*registered
	settings                     string // those that it was made with
}

func createTargetGroup(r *request) error {
	name, err := r.nameOfNew("target group")
	if err != nil {
		return err
	}
	f := r.form
	g, err := r.readTargetGroup(name)
	if err != nil {
		return err
	}
	tags, err := r.elbTags(listed(f, "Tags"))
	if err != nil {
		return err
	}
	for _, o := range r.targets.order {
		if o.name != name {
			continue
		}
		if o.settings == g.settings {
			return r.wroteTargetGroups([]*targetGroup{o})
		}
		return bad("DuplicateTargetGroupName", "A target group with the same name '%s' exists, but with different settings", name)
	}
	if len(r.targets.order) >= r.set.TargetGroups {
		return bad("TooManyTargetGroups", "The maximum number of target groups has been reached")
	}
	g.meta = r.newResource("targetgroup", "targetgroup/"+name+"/"+r.hex16())
	g.addTags(tags)
	g.attributes = g.initialAttributes()
	r.targets.add(g)
	return r.wroteTargetGroups([]*targetGroup{g})
}

// readTargetGroup reads the target group that a request is to make.
func (r *request) readTargetGroup(name string) (g *targetGroup, err error) {
	f := r.form
	g = &targetGroup{name: name, settings: f.print("Version")}
	if g.kind, err = r.among(f, "TargetType", "instance", "ip", "alb", "lambda"); err != nil {
		return nil, err
	}
	if g.kind == "alb" || g.kind == "lambda" {
		return nil, unfit("This server has target groups of instances and IP addresses only")
	}
	for parameter, what := range map[string]string{"Protocol": "protocol", "Port": "port", "VpcId": "VPC ID"} {
		if f.text(parameter) == "" {
			return nil, invalid("A %s must be specified", what)
		}
	}
	if g.protocol, err = r.among(f, "Protocol", "TCP", "TLS", "UDP", "TCP_UDP", "HTTP", "HTTPS", "GENEVE", "QUIC", "TCP_QUIC"); err != nil {
		return nil, err
	}
	if !slices.Contains(nlbProtocols, g.protocol) {
		return nil, unfit("This server has target groups of network load balancers only, and none with the protocol '%s'", g.protocol)
	}
	if g.port, err = r.between(f, "Port", 1, 65535, 0); err != nil {
		return nil, err
	}
	if g.family, err = r.among(f, "IpAddressType", ipv4, "ipv6"); err != nil {
		return nil, err
	}
	if g.vpc, err = named(r, &r.vpcs, f.text("VpcId"), func(id string) *Error { return invalid("The VPC ID '%s' is not found", id) }); err != nil {
		return nil, err
	}
	if g.check, err = r.newCheck(g); err != nil {
		return nil, err
	}
	return g, nil
}

// initialAttributes returns the attributes of a new target group.
func (g *targetGroup) initialAttributes() map[string]string {
	all := maps.Clone(targetGroupDefaults)
	if g.kind == "ip" && (g.protocol == "TCP" || g.protocol == "TLS") {
		all["preserve_client_ip.enabled"] = "false"
	}
	if g.protocol == "UDP" || g.protocol == "TCP_UDP" {
		all["deregistration_delay.connection_termination.enabled"] = "true"
		all["target_health_state.unhealthy.connection_termination.enabled"] = "false"
	}
	return all
}

// balancersOf returns the load balancers with listeners that forward to a target group.
func (a *account) balancersOf(g *targetGroup) []*balancer {
	var all []*balancer
	for _, l := range a.listeners.order {
		if slices.ContainsFunc(l.to, func(o forward) bool { return o.group == g }) && !slices.Contains(all, l.of) {
			all = append(all, l.of)
		}
	}
	return all
}

func (r *request) wroteTargetGroups(all []*targetGroup) error {
	x := r.x
	members(x, "TargetGroups", all, func(g *targetGroup) {
		x.text("TargetGroupArn", g.id)
		x.text("TargetGroupName", g.name)
		x.text("Protocol", g.protocol)
		x.number("Port", g.port)
		x.text("VpcId", g.vpc.id)
		x.text("TargetType", g.kind)
		x.text("IpAddressType", g.family)
		g.check.write(x)
		var arns []string
		for _, b := range r.balancersOf(g) {
			arns = append(arns, b.id)
		}
		x.texts("LoadBalancerArns", arns)
	})
	return nil
}

func describeTargetGroups(r *request) error {
	names, arns, of := listedTexts(r.form, "Names"), listedTexts(r.form, "TargetGroupArns"), r.form.text("LoadBalancerArn")
	if len(names) > 0 && len(arns) > 0 || of != "" && len(names)+len(arns) > 0 {
		return invalid("Target group names, target group ARNs, and a load balancer ARN cannot be specified at the same time")
	}
	is := func(*targetGroup) bool { return true }
	if of != "" {
		b, err := r.balancerOf()
		if err != nil {
			return err
		}
		is = func(g *targetGroup) bool { return slices.Contains(r.balancersOf(g), b) }
	}
	wanted, nameOf := arns, func(g *targetGroup) string { return g.id }
	if len(names) > 0 {
		wanted, nameOf = names, func(g *targetGroup) string { return g.name }
	}
	found, next, err := pickELB(r, &r.targets, wanted, is, nameOf, noTargetGroup)
	if err != nil {
		return err
	}
	r.wroteTargetGroups(found)
	r.x.text("NextMarker", next)
	return nil
}

func (r *request) targetGroupOf() (*targetGroup, error) {
	return resourceOf(r, &r.targets, "TargetGroupArn", noTargetGroup)
}

// deleteTargetGroup deletes a target group that no listener forwards to.
func deleteTargetGroup(r *request) error {
	if _, err := r.need(r.form, "TargetGroupArn"); err != nil {
		return err
	}
	g := r.targets.byID[r.form.text("TargetGroupArn")]
	if g == nil {
		return nil
	}
	if len(r.balancersOf(g)) > 0 {
		return bad("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule", g.id)
	}
	r.targets.remove(g)
	return nil
}

func modifyTargetGroup(r *request) error {
	g, err := r.targetGroupOf()
	if err != nil {
		return err
	}
	then, err := r.changeCheck(g, g.check)
	if err != nil {
		return err
	}
	g.check, g.settings = then, ""
	return r.wroteTargetGroups([]*targetGroup{g})
}
