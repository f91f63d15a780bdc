package awstest

import "maps"

// balancer is a network load balancer.
type balancer struct {
	meta
	name, hex  string
	scheme     string
	family     string // ipv4, dualstack
	state      string
	vpc        *vpc
	places     []*foothold
	groups     []*group
	grouped    bool // it was made with security groups
	prefix     string
	enforce    string
	attributes map[string]string
	// settings are those that it was made with; a request that has the same succeeds.
	settings string
}

const (
	facing    = "internet-facing"
	internal  = "internal"
	ipv4      = "ipv4"
	dualstack = "dualstack"
)

func createBalancer(r *request) error {
	name, err := r.nameOfNew("load balancer")
	if err != nil {
		return err
	}
	b := &balancer{name: name, state: "provisioning", enforce: "on", settings: r.form.print("Version")}
	if kind := r.form.text("Type"); kind != "network" {
		return invalid("This server has load balancers of the type network only, and not %q", kind)
	}
	if b.scheme, err = r.among(r.form, "Scheme", facing, internal); err != nil {
		return err
	}
	if b.family, err = r.among(r.form, "IpAddressType", ipv4, dualstack); err != nil {
		return err
	}
	if b.prefix, err = r.among(r.form, "EnablePrefixForIpv6SourceNat", "off", "on"); err != nil {
		return err
	}
	tags, err := r.elbTags(listed(r.form, "Tags"))
	if err != nil {
		return err
	}
	for _, o := range r.elbs.order {
		if o.name != name {
			continue
		}
		if o.settings == b.settings {
			return r.wroteBalancers([]*balancer{o})
		}
		return bad("DuplicateLoadBalancerName", "A load balancer with the same name '%s' exists, but with different settings", name)
	}
	if len(r.elbs.order) >= r.set.Balancers {
		return bad("TooManyLoadBalancers", "The maximum number of load balancers has been reached")
	}
	wanted, err := r.wantedPlaces(b)
	if err != nil {
		return err
	}
	b.vpc = wanted[0].subnet.vpc
	if b.groups, err = r.elbGroups(b.vpc, listedTexts(r.form, "SecurityGroups")); err != nil {
		return err
	}
	b.grouped = len(b.groups) > 0
	b.hex = r.hex16()
	b.meta = r.newResource("loadbalancer", "loadbalancer/net/"+name+"/"+b.hex)
	b.attributes = maps.Clone(balancerDefaults)
	if b.scheme == internal {
		b.attributes["ipv6.deny_all_igw_traffic"] = "true"
	}
	b.addTags(tags)
	if err := r.settlePlaces(b, wanted); err != nil {
		return err
	}
	r.elbs.add(b)
	r.later(r.set.Provision, func() { b.state = "active" })
	return r.wroteBalancers([]*balancer{b})
}

// elbGroups returns the security groups that a request names.
func (r *request) elbGroups(v *vpc, ids []string) ([]*group, error) {
	var all []*group
	for _, id := range ids {
		g, err := named(r, &r.groups, id, func(id string) *Error {
			return bad("InvalidSecurityGroup", "Security group %s does not exist", id)
		})
		if err != nil {
			return nil, err
		}
		if g.vpc != v {
			return nil, unfit("One or more security groups are invalid: %s is not in the VPC %s", id, v.id)
		}
		all = append(all, g)
	}
	if len(all) > r.set.GroupsPerBalancer {
		return nil, unfit("A load balancer can have at most %d security groups", r.set.GroupsPerBalancer)
	}
	return all, nil
}

func (r *request) wroteBalancers(all []*balancer) error {
	members(r.x, "LoadBalancers", all, func(b *balancer) { writeBalancer(r, b) })
	return nil
}

func writeBalancer(r *request, b *balancer) {
	x := r.x
	x.text("LoadBalancerArn", b.id)
	x.text("DNSName", b.name+"-"+b.hex+".elb."+r.region+".amazonaws.com")
	x.text("CanonicalHostedZoneId", "Z3F0SRJ5LGBH90")
	x.moment("CreatedTime", b.made)
	x.text("LoadBalancerName", b.name)
	x.text("Scheme", b.scheme)
	x.text("VpcId", b.vpc.id)
	x.within("State", func() { x.text("Code", b.state) })
	x.text("Type", "network")
	x.text("IpAddressType", b.family)
	x.text("EnablePrefixForIpv6SourceNat", b.prefix)
	if b.grouped {
		x.texts("SecurityGroups", groupIDs(b.groups))
		x.text("EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic", b.enforce)
	}
	r.writePlaces(b)
}

// mostBalancerARNs is how many load balancers a read can name.
const mostBalancerARNs = 20

func describeBalancers(r *request) error {
	names, arns := listedTexts(r.form, "Names"), listedTexts(r.form, "LoadBalancerArns")
	if len(names) > 0 && len(arns) > 0 {
		return invalid("Load balancer names and load balancer ARNs cannot be specified at the same time")
	}
	if len(arns) > mostBalancerARNs {
		return invalid("A maximum of %d load balancer ARNs can be specified", mostBalancerARNs)
	}
	wanted, nameOf := arns, func(b *balancer) string { return b.id }
	if len(names) > 0 {
		wanted, nameOf = names, func(b *balancer) string { return b.name }
	}
	found, next, err := pickELB(r, &r.elbs, wanted, func(*balancer) bool { return true }, nameOf, noBalancer)
	if err != nil {
		return err
	}
	r.wroteBalancers(found)
	r.x.text("NextMarker", next)
	return nil
}

func (r *request) balancerOf() (*balancer, error) {
	return resourceOf(r, &r.elbs, "LoadBalancerArn", noBalancer)
}

// deleteBalancer deletes a load balancer with its listeners. Its interfaces stay for a
// while, and hold their subnets, addresses and security groups.
func deleteBalancer(r *request) error {
	if _, err := r.need(r.form, "LoadBalancerArn"); err != nil {
		return err
	}
	b := r.elbs.byID[r.form.text("LoadBalancerArn")]
	if b == nil {
		return nil
	}
	if b.attributes["deletion_protection.enabled"] == "true" {
		return bad("OperationNotPermitted", "Load balancer '%s' cannot be deleted because deletion protection is enabled", b.id)
	}
	for _, l := range r.listeners.find(func(l *listener) bool { return l.of == b }) {
		r.listeners.remove(l)
	}
	for _, p := range b.places {
		r.letGo(p)
	}
	r.elbs.remove(b)
	return nil
}

func setGroups(r *request) error {
	b, err := r.balancerOf()
	if err != nil {
		return err
	}
	ids := listedTexts(r.form, "SecurityGroups")
	if len(ids) == 0 {
		return invalid("At least one security group must be specified")
	}
	if !b.grouped {
		return unfit("You cannot set security groups of a Network Load Balancer that was created without a security group")
	}
	groups, err := r.elbGroups(b.vpc, ids)
	if err != nil {
		return err
	}
	if b.enforce, err = r.among(r.form, "EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic", b.enforce, "on", "off"); err != nil {
		return err
	}
	b.groups, b.settings = groups, ""
	for _, p := range b.places {
		p.eni.groups = groups
	}
	r.x.texts("SecurityGroupIds", groupIDs(groups))
	r.x.text("EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic", b.enforce)
	return nil
}

func setFamily(r *request) error {
	b, err := r.balancerOf()
	if err != nil {
		return err
	}
	if _, err := r.need(r.form, "IpAddressType"); err != nil {
		return err
	}
	family, err := r.among(r.form, "IpAddressType", ipv4, dualstack)
	if err != nil {
		return err
	}
	var wanted []wantedPlace
	for _, p := range b.places {
		wanted = append(wanted, wantedPlace{subnet: p.eni.subnet, kept: p})
	}
	changed := *b
	changed.family = family
	if err := r.fitPlaces(&changed, wanted); err != nil {
		return err
	}
	if err := r.fitFamily(&changed); err != nil {
		return err
	}
	b.family, b.settings = family, ""
	if err := r.settlePlaces(b, wanted); err != nil {
		return err
	}
	r.x.text("IpAddressType", family)
	return nil
}
