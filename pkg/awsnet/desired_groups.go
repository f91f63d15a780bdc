package awsnet

import (
	"fmt"
	"slices"
	"strings"
)

// groups returns the security groups that the role of a rule's source stands for.
func (d *desire) groups() {
	d.sources = make(map[Role]Ref)
	for role := range d.n.Ingress {
		d.sources[role] = To(KindSecurityGroup, string(role))
	}
	for role, id := range d.n.Overrides {
		d.sources[role] = Foreign(id)
	}
}

// securityGroups adds the security groups that are ours, and their rules.
func (d *desire) securityGroups() {
	for _, role := range sortedKeys(d.n.Ingress) {
		title := d.groupTitle(role)
		more := map[string]string{}
		if role == RoleLB {
			// The service controller adds rules to the group of an instance with this
			// tag.
			more = d.cloud()
		}
		g := SecurityGroup{Role: string(role), VPC: d.vpc, Title: title, Description: fmt.Sprintf("Kubernetes cluster %s: %s", d.n.Owner.Cluster, role)}
		d.add(g, string(role), title, more)
		if role != RoleLB {
			// A second group with this tag would confuse the service controller.
			delete(d.all[g.Key()].Tags, clusterTag+d.n.Owner.Cluster)
		}
		self := To(KindSecurityGroup, string(role))
		for _, in := range d.n.Ingress[role] {
			d.ingress(self, in)
		}
		out := Rule{Owner: self, Egress: true, Protocol: "-1", Addresses: anyIPv4}
		d.rule(out)
		if d.n.IPv6 {
			out.Addresses = anyIPv6
			d.rule(out)
		}
	}
}

func (d *desire) groupTitle(role Role) string {
	name := d.n.Owner.Cluster
	if strings.HasPrefix(name, "sg-") { // AWS refuses these
		name = "@" + name
	}
	return name + "-" + string(role)
}

// ingress adds a rule for each source.
func (d *desire) ingress(owner Ref, in Ingress) {
	r := Rule{Owner: owner, Protocol: in.Protocol, From: in.From, To: in.To, Description: in.Description}
	for _, p := range in.Blocks {
		each := r
		each.Addresses = p
		d.rule(each)
	}
	for _, role := range in.Roles {
		each := r
		each.Group = d.sources[role]
		d.rule(each)
	}
	for _, id := range in.GroupIDs {
		each := r
		each.Group = Foreign(id)
		d.rule(each)
	}
	if in.FromNAT {
		for _, zone := range d.n.natZones() {
			each := r
			each.Elastic = To(KindAddress, "nat-"+zone)
			d.rule(each)
		}
	}
}

// rule adds a rule. If two rules have the same key, AWS allows only one, and the first
// stays.
func (d *desire) rule(r Rule) {
	if _, twice := d.all[r.Key()]; !twice {
		d.all[r.Key()] = Wanted{r, d.n.Owner.tags(r.Key(), "", d.n.Owner.Cluster, d.n.Tags)}
	}
}

// balancers adds the load balancers of the API servers.
func (d *desire) balancers() {
	for _, f := range d.n.Balancers {
		var subnets, groups []Ref
		for _, i := range f.Subnets {
			subnets = append(subnets, d.subnetRef(d.n.Subnets[i]))
		}
		for _, id := range f.SubnetIDs {
			subnets = append(subnets, Foreign(id))
		}
		for _, id := range f.GroupIDs {
			groups = append(groups, Foreign(id))
		}
		groups = append(groups, d.sources[RoleAPIServerLB])
		b := Balancer{Name: f.Name, Title: f.Title, Scheme: f.Scheme, DualStack: f.DualStack, CrossZone: f.CrossZone, Subnets: RefsTo(subnets...), Groups: RefsTo(groups...)}
		if d.n.AddressPool != "" && f.Scheme == InternetFacing {
			b.Elastic = d.elastic(f)
		}
		d.add(b, f.Name, f.Title)
		for _, p := range f.Ports {
			g := TargetGroup{Name: fmt.Sprintf("%s-%d-%s", f.Name, p.Port, familyOf(p.IPv6)), VPC: d.vpc, Port: p.Port, IPv6: p.IPv6, Health: p.Health, PreserveIP: f.Preserve}
			g.Title = title(d.n.Owner, g.Name)
			d.add(g, f.Name, g.Title)
			l := Listener{Balancer: To(KindBalancer, f.Name), Port: p.Port, Group: To(KindTargetGroup, g.Name)}
			d.all[l.Key()] = Wanted{l, d.n.Owner.tags(l.Key(), "", f.Title, d.n.Tags)}
		}
	}
}

// elastic adds the addresses of a balancer from the account's own pool, one for each zone.
func (d *desire) elastic(f Front) Refs {
	var all []Ref
	for _, i := range f.Subnets {
		a := Address{Name: f.Name + "-" + d.n.Subnets[i].Zone, Pool: d.n.AddressPool}
		d.add(a, f.Name, d.name("eip-"+a.Name))
		all = append(all, To(KindAddress, a.Name))
	}
	for _, id := range f.SubnetIDs {
		a := Address{Name: f.Name + "-" + id, Pool: d.n.AddressPool}
		d.add(a, f.Name, d.name("eip-"+a.Name))
		all = append(all, To(KindAddress, a.Name))
	}
	return RefsTo(all...)
}

func familyOf(ipv6 bool) string {
	if ipv6 {
		return "ipv6"
	}
	return "ipv4"
}

func (d *desire) subnetRef(s Net) Ref {
	if s.ID != "" {
		return Foreign(s.ID)
	}
	return To(KindSubnet, s.Name)
}

// bastion adds the bastion.
func (d *desire) bastion() {
	b := d.n.Bastion
	if b == nil {
		return
	}
	d.add(Bastion{Type: b.Type, Image: b.Image, SSHKey: b.SSHKey, Subnet: d.subnetRef(d.n.Subnets[b.Subnet]), Group: d.sources[RoleBastion]}, string(RoleBastion), d.name("bastion"))
}

// Endpoint returns the balancer whose host and port are the cluster's endpoint, and false
// if there is none.
func (n Network) Endpoint() (k Key, port int, ok bool) {
	i := slices.IndexFunc(n.Balancers, func(f Front) bool { return f.Name == PrimaryBalancer })
	if i < 0 {
		return Key{}, 0, false
	}
	return Key{KindBalancer, PrimaryBalancer}, n.Balancers[i].Ports[0].Port, true
}
