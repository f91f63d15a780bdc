package awsnettest

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// Do makes one call of a step. bound is the object that the step wants, or deletes,
// with IDs in its Refs. Do returns what the call created.
func (a *Account) Do(s awsnet.Step, c awsnet.Call, id string, bound awsnet.Object) (string, awsnet.Given, error) {
	id, given, err := a.do(s, c, id, bound)
	if err == nil {
		a.Calls[c.Action]++
	}
	return id, given, err
}

func (a *Account) do(s awsnet.Step, c awsnet.Call, id string, bound awsnet.Object) (string, awsnet.Given, error) {
	switch {
	case s.Verb == awsnet.Delete:
		return "", awsnet.Given{}, a.delete(c, id)
	case s.Verb == awsnet.Create && c == s.Calls[0]:
		for _, r := range awsnet.Named(bound) {
			if r.ID != "" && !a.has(r.ID) && !strings.HasPrefix(r.ID, "sg-f") {
				return "", awsnet.Given{}, fmt.Errorf("%s: %s does not exist", c, r.ID)
			}
		}
		return a.create(s, c, bound)
	}
	f, there := a.objects[id]
	if !there {
		return "", awsnet.Given{}, fmt.Errorf("%s: %q does not exist", c, id)
	}
	if c.Action == "CreateTags" || c.Action == "AddTags" {
		f.Tags = maps.Clone(f.Tags)
		if f.Tags == nil {
			f.Tags = make(map[string]string)
		}
		maps.Copy(f.Tags, s.Tags)
		if t, is := bound.(awsnet.Tagging); is {
			maps.Copy(f.Tags, t.Tags.Map())
		}
		a.objects[id] = f
		return id, f.Given, nil
	}
	o, err := a.edit(c, f.Object, nameless(bound))
	if err != nil {
		return "", awsnet.Given{}, err
	}
	f.Object = o
	a.objects[id] = f
	return id, f.Given, nil
}

// edit changes the part of an object that the call names.
func (a *Account) edit(c awsnet.Call, have, want awsnet.Object) (awsnet.Object, error) {
	switch h := have.(type) {
	case awsnet.VPC:
		w := want.(awsnet.VPC)
		switch c.Part {
		case "enableDnsSupport":
			h.DNSSupport = w.DNSSupport
		case "enableDnsHostnames":
			h.DNSHostnames = w.DNSHostnames
		}
		return h, nil
	case awsnet.InternetGateway:
		if w := want.(awsnet.InternetGateway); h.VPC.ID == "" {
			if others := all(a, func(g awsnet.InternetGateway) bool { return g.VPC == w.VPC }); len(others) > 0 {
				return nil, fmt.Errorf("%s: %s has %s already", c, w.VPC, others[0].ID)
			}
			return w, nil
		}
	case awsnet.Subnet:
		w := want.(awsnet.Subnet)
		switch c.Action + c.Part {
		case "AssociateSubnetCidrBlock":
			h.IPv6 = w.IPv6
		case "ModifySubnetAttributemapPublicIpOnLaunch":
			h.PublicIPs = w.PublicIPs
		case "ModifySubnetAttributeassignIpv6AddressOnCreation":
			h.AssignIPv6 = w.AssignIPv6
		case "ModifySubnetAttributeenableDns64":
			h.DNS64 = w.DNS64
		case "ModifySubnetAttributeprivateDnsHostnameTypeOnLaunch":
			h.HostnameType = w.HostnameType
		}
		return h, nil
	case awsnet.Route:
		w := want.(awsnet.Route)
		if !a.has(w.Via.ID) {
			return nil, fmt.Errorf("%s: %s does not exist", c, w.Via)
		}
		return w, nil
	case awsnet.Association, awsnet.Endpoint, awsnet.Rule, awsnet.Listener:
		return want, nil
	case awsnet.Balancer:
		w := want.(awsnet.Balancer)
		switch c.Action {
		case "SetSubnets":
			h.Subnets = w.Subnets
		case "SetIpAddressType":
			h.DualStack = w.DualStack
		case "SetSecurityGroups":
			h.Groups = w.Groups
		case "ModifyLoadBalancerAttributes":
			h.CrossZone = w.CrossZone
		}
		return h, nil
	case awsnet.TargetGroup:
		w := want.(awsnet.TargetGroup)
		if c.Action == "ModifyTargetGroup" {
			h.Health = w.Health
		} else {
			h.PreserveIP, h.EndUnhealthy = w.PreserveIP, w.EndUnhealthy
		}
		return h, nil
	}
	return nil, fmt.Errorf("%s cannot change %v", c, have)
}

// withToken are the calls with a ClientToken. AWS creates nothing twice when one is
// repeated.
var withToken = map[string]bool{
	"CreateNatGateway": true, "CreateRouteTable": true, "CreateVpcEndpoint": true, "CreateEgressOnlyInternetGateway": true, "CreateCarrierGateway": true, "RunInstances": true,
}

// create makes an object as the first call of its creation does.
func (a *Account) create(s awsnet.Step, c awsnet.Call, o awsnet.Object) (string, awsnet.Given, error) {
	refuse := func(text string, args ...any) (string, awsnet.Given, error) {
		return "", awsnet.Given{}, fmt.Errorf("%s: %s", c, fmt.Sprintf(text, args...))
	}
	if id := a.tokens[s.Token]; withToken[c.Action] && id != "" && a.has(id) {
		return id, a.objects[id].Given, nil
	}
	state, given := awsnet.Usable, awsnet.Given{}
	var inUse string
	switch x := o.(type) {
	case awsnet.VPC:
		x.DNSSupport, x.DNSHostnames = true, false
		id := a.store(x, s.Tags, awsnet.Pending, given)
		for _, fixed := range []awsnet.Object{awsnet.SecurityGroup{VPC: awsnet.Foreign(id), Title: "default"}, awsnet.RouteTable{VPC: awsnet.Foreign(id)}} {
			f := a.objects[a.store(fixed, nil, awsnet.Usable, given)]
			f.Fixed = true
			a.objects[f.ID] = f
			if _, is := fixed.(awsnet.SecurityGroup); is {
				a.store(awsnet.Rule{Owner: awsnet.Foreign(f.ID), Protocol: "-1", Group: awsnet.Foreign(f.ID)}, nil, awsnet.Usable, given)
			}
		}
		return id, given, nil
	case awsnet.Block:
		given.Block = x.Prefix
		if x.Pool != "" && !x.Prefix.IsValid() {
			given.Block = netip.MustParsePrefix("2600:1f18:abc:de00::/56")
			if x.Pool != awsnet.AmazonPool {
				x.Prefix = given.Block
			}
		}
		o, state = x, awsnet.Pending
	case awsnet.InternetGateway:
		o = awsnet.InternetGateway{}
	case awsnet.Subnet:
		for _, f := range all(a, func(n awsnet.Subnet) bool { return n.VPC == x.VPC }) {
			if n := f.Object.(awsnet.Subnet); n.IPv4.IsValid() && x.IPv4.IsValid() && n.IPv4.Overlaps(x.IPv4) || n.IPv6 != (awsnet.Slice{}) && n.IPv6 == x.IPv6 {
				return refuse("%v conflicts with %s", x, f.ID)
			}
		}
		if x.IPv4.IsValid() && !a.inVPC(x) {
			return refuse("%s is in no block of %s", x.IPv4, x.VPC)
		}
		x.PublicIPs, x.AssignIPv6, x.DNS64, x.HostnameType = false, false, false, "ip-name"
		o = x
	case awsnet.Address:
		given.Address = a.address()
	case awsnet.NATGateway:
		if inUse = a.objects[x.Address.ID].Given.UsedBy; inUse != "" {
			return refuse("%s is used by %s", x.Address, inUse)
		}
		if !a.attached(a.objects[x.Subnet.ID].Object.(awsnet.Subnet).VPC.ID) {
			return refuse("the VPC of %s has no internet gateway", x.Subnet)
		}
		state, given.Address = awsnet.Pending, a.objects[x.Address.ID].Given.Address
	case awsnet.Route:
		if len(all(a, func(r awsnet.Route) bool { return r.Table == x.Table && r.To == x.To })) > 0 {
			return refuse("%s has a route to %s", x.Table, x.To)
		}
	case awsnet.Association:
		if len(all(a, func(r awsnet.Association) bool { return r.Subnet == x.Subnet })) > 0 {
			return refuse("%s has a table", x.Subnet)
		}
	case awsnet.SecurityGroup:
		if len(all(a, func(g awsnet.SecurityGroup) bool { return g.VPC == x.VPC && g.Title == x.Title })) > 0 {
			return refuse("%s exists", x.Title)
		}
		id := a.store(x, s.Tags, state, given)
		a.store(awsnet.Rule{Owner: awsnet.Foreign(id), Egress: true, Protocol: "-1", Addresses: netip.MustParsePrefix("0.0.0.0/0")}, nil, state, given)
		return id, given, nil
	case awsnet.Rule:
		x.Description = ""
		if len(all(a, func(r awsnet.Rule) bool { r.Description = ""; return r == x })) > 0 {
			return refuse("the rule exists: %+v", x)
		}
	case awsnet.Balancer:
		if len(all(a, func(b awsnet.Balancer) bool { return b.Title == x.Title })) > 0 {
			return refuse("%s exists", x.Title)
		}
		if n := len(x.Elastic.All()); n > 0 && n != len(x.Subnets.All()) {
			return refuse("%d addresses for %d subnets", n, len(x.Subnets.All()))
		}
		for _, r := range x.Subnets.All() {
			if x.Scheme == awsnet.InternetFacing && !a.attached(a.objects[r.ID].Object.(awsnet.Subnet).VPC.ID) {
				return refuse("the VPC of %s has no internet gateway", r)
			}
		}
		x.CrossZone, state, given.Host = false, awsnet.Pending, x.Title+".elb.example.com"
		o = x
	case awsnet.TargetGroup:
		if len(all(a, func(g awsnet.TargetGroup) bool { return g.Title == x.Title })) > 0 {
			return refuse("%s exists", x.Title)
		}
		x.PreserveIP, x.EndUnhealthy = true, true
		o = x
	case awsnet.Listener:
		if len(all(a, func(l awsnet.Listener) bool { return l.Balancer == x.Balancer && l.Port == x.Port })) > 0 {
			return refuse("port %d is in use", x.Port)
		}
	case awsnet.Bastion:
		state, given.Address = awsnet.Pending, a.address()
	case awsnet.Tagging:
		f := a.objects[x.ID]
		f.Tags = maps.Clone(f.Tags)
		if f.Tags == nil {
			f.Tags = make(map[string]string)
		}
		maps.Copy(f.Tags, x.Tags.Map())
		a.objects[x.ID] = f
		return x.ID, f.Given, nil
	}
	id := a.store(o, s.Tags, state, given)
	var used []awsnet.Ref
	switch x := o.(type) {
	case awsnet.NATGateway:
		used = []awsnet.Ref{x.Address}
	case awsnet.Balancer:
		used = x.Elastic.All()
	}
	for _, r := range used {
		f := a.objects[r.ID]
		f.Given.UsedBy = id
		a.objects[f.ID] = f
	}
	a.tokens[s.Token] = id
	return id, given, nil
}

func (a *Account) attached(vpc string) bool {
	return len(all(a, func(g awsnet.InternetGateway) bool { return g.VPC.ID == vpc })) > 0
}

func (a *Account) inVPC(n awsnet.Subnet) bool {
	if a.objects[n.VPC.ID].Object.(awsnet.VPC).IPv4.Contains(n.IPv4.Addr()) {
		return true
	}
	return len(all(a, func(b awsnet.Block) bool {
		return b.VPC == n.VPC && b.Prefix.IsValid() && b.Prefix.Contains(n.IPv4.Addr())
	})) > 0
}
