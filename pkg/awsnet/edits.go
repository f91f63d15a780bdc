package awsnet

import "strings"

// settle returns want with the values of have that cannot be changed and need not be:
// names that AWS never changes, and what the Spec leaves to AWS.
func settle(want, have Object) Object {
	switch w := want.(type) {
	case Block:
		if h := have.(Block); !w.Prefix.IsValid() {
			w.Prefix = h.Prefix
		}
		return w
	case Subnet:
		h := have.(Subnet)
		if w.HostnameType == "" {
			w.HostnameType = h.HostnameType
		}
		if w.IPv6 == (Slice{}) { // a person added it
			w.IPv6, w.AssignIPv6 = h.IPv6, h.AssignIPv6
		}
		return w
	case Address:
		w.Pool = have.(Address).Pool
		return w
	case Endpoint:
		h := have.(Endpoint)
		all := w.Tables.All()
		for _, r := range h.Tables.All() {
			if r.ID != "" { // a foreign table
				all = append(all, r)
			}
		}
		w.Tables = RefsTo(all...)
		return w
	case SecurityGroup:
		h := have.(SecurityGroup)
		w.Title, w.Description = h.Title, h.Description
		return w
	case Balancer:
		h := have.(Balancer)
		w.Title, w.Elastic = h.Title, h.Elastic
		return w
	case TargetGroup:
		w.Title = have.(TargetGroup).Title
		return w
	case Bastion:
		h := have.(Bastion)
		if strings.HasPrefix(w.Image, "resolve:") {
			w.Image = h.Image
		}
		w.SSHKey = h.SSHKey
		return w
	}
	return want
}

// initial returns the state of an object after the call that creates it. The rest takes
// more calls.
func initial(want Object) Object {
	switch w := want.(type) {
	case VPC:
		w.DNSSupport, w.DNSHostnames = true, false
		return w
	case InternetGateway:
		w.VPC = Ref{}
		return w
	case Subnet:
		w.PublicIPs, w.AssignIPv6, w.DNS64, w.HostnameType = false, false, false, ""
		return w
	case Balancer:
		w.CrossZone = false
		return w
	case TargetGroup:
		w.PreserveIP, w.EndUnhealthy = true, true
		return w
	}
	return want
}

// creation are the calls that create an object, by its kind.
var creation = map[Kind]Call{
	KindVPC: {Action: "CreateVpc"}, KindBlock: {Action: "AssociateVpcCidrBlock"}, KindInternetGateway: {Action: "CreateInternetGateway"},
	KindEgressGateway: {Action: "CreateEgressOnlyInternetGateway"}, KindCarrierGateway: {Action: "CreateCarrierGateway"}, KindSubnet: {Action: "CreateSubnet"},
	KindAddress: {Action: "AllocateAddress"}, KindNATGateway: {Action: "CreateNatGateway"}, KindRouteTable: {Action: "CreateRouteTable"},
	KindRoute: {Action: "CreateRoute"}, KindAssociation: {Action: "AssociateRouteTable"}, KindEndpoint: {Action: "CreateVpcEndpoint"},
	KindSecurityGroup: {Action: "CreateSecurityGroup"}, KindRule: {Action: "AuthorizeSecurityGroupIngress"}, KindBalancer: {Action: "CreateLoadBalancer"},
	KindTargetGroup: {Action: "CreateTargetGroup"}, KindListener: {Action: "CreateListener"}, KindBastion: {Action: "RunInstances"}, KindTagging: {Action: "CreateTags"},
}

// deletion are the calls that delete an object, by its kind.
var deletion = map[Kind]Call{
	KindVPC: {Action: "DeleteVpc"}, KindBlock: {Action: "DisassociateVpcCidrBlock"}, KindInternetGateway: {Action: "DeleteInternetGateway"},
	KindEgressGateway: {Action: "DeleteEgressOnlyInternetGateway"}, KindCarrierGateway: {Action: "DeleteCarrierGateway"}, KindSubnet: {Action: "DeleteSubnet"},
	KindAddress: {Action: "ReleaseAddress"}, KindNATGateway: {Action: "DeleteNatGateway"}, KindRouteTable: {Action: "DeleteRouteTable"},
	KindRoute: {Action: "DeleteRoute"}, KindAssociation: {Action: "DisassociateRouteTable"}, KindEndpoint: {Action: "DeleteVpcEndpoints"},
	KindSecurityGroup: {Action: "DeleteSecurityGroup"}, KindRule: {Action: "RevokeSecurityGroupIngress"}, KindBalancer: {Action: "DeleteLoadBalancer"},
	KindTargetGroup: {Action: "DeleteTargetGroup"}, KindListener: {Action: "DeleteListener"}, KindBastion: {Action: "TerminateInstances"}, KindTagging: {Action: "DeleteTags"},
}

// callsToCreate returns the calls that create an object.
func callsToCreate(want Object) []Call {
	first := creation[want.Key().Kind]
	if r, is := want.(Rule); is && r.Egress {
		first.Action = "AuthorizeSecurityGroupEgress"
	}
	more, _ := edits(initial(want), want)
	return append([]Call{first}, more...)
}

// callsToDelete returns the calls that delete an object.
func callsToDelete(have Object) []Call {
	last := deletion[have.Key().Kind]
	switch h := have.(type) {
	case Rule:
		if h.Egress {
			last.Action = "RevokeSecurityGroupEgress"
		}
	case InternetGateway:
		if h.VPC != (Ref{}) {
			return []Call{{Action: "DetachInternetGateway"}, last}
		}
	}
	return []Call{last}
}

// edits returns the calls that change have into want, and false if there are none that
// do.
func edits(have, want Object) (calls []Call, ok bool) {
	if have == want {
		return nil, true
	}
	call := func(differs bool, action, part string) {
		if differs {
			calls = append(calls, Call{action, part})
		}
	}
	switch w := want.(type) {
	case VPC:
		h := have.(VPC)
		call(h.DNSSupport != w.DNSSupport, "ModifyVpcAttribute", "enableDnsSupport")
		call(h.DNSHostnames != w.DNSHostnames, "ModifyVpcAttribute", "enableDnsHostnames")
		return calls, h.IPv4 == w.IPv4
	case InternetGateway:
		call(have.(InternetGateway).VPC == Ref{}, "AttachInternetGateway", "")
		return calls, len(calls) > 0
	case Subnet:
		h := have.(Subnet)
		call(h.IPv6 == Slice{} && w.IPv6 != Slice{}, "AssociateSubnetCidrBlock", "")
		call(h.PublicIPs != w.PublicIPs, "ModifySubnetAttribute", "mapPublicIpOnLaunch")
		call(h.AssignIPv6 != w.AssignIPv6, "ModifySubnetAttribute", "assignIpv6AddressOnCreation")
		call(h.DNS64 != w.DNS64, "ModifySubnetAttribute", "enableDns64")
		call(h.HostnameType != w.HostnameType, "ModifySubnetAttribute", "privateDnsHostnameTypeOnLaunch")
		return calls, h.VPC == w.VPC && h.Zone == w.Zone && h.IPv4 == w.IPv4 && (h.IPv6 == w.IPv6 || h.IPv6 == Slice{})
	case Route:
		return []Call{{Action: "ReplaceRoute"}}, true
	case Association:
		return []Call{{Action: "ReplaceRouteTableAssociation"}}, true
	case Endpoint:
		h := have.(Endpoint)
		call(h.Tables != w.Tables, "ModifyVpcEndpoint", "")
		return calls, h.VPC == w.VPC
	case Rule:
		action := "UpdateSecurityGroupRuleDescriptionsIngress"
		if w.Egress {
			action = "UpdateSecurityGroupRuleDescriptionsEgress"
		}
		return []Call{{Action: action}}, true
	case Balancer:
		h := have.(Balancer)
		call(h.Subnets != w.Subnets, "SetSubnets", "")
		call(h.DualStack != w.DualStack, "SetIpAddressType", "")
		call(h.Groups != w.Groups, "SetSecurityGroups", "")
		call(h.CrossZone != w.CrossZone, "ModifyLoadBalancerAttributes", "load_balancing.cross_zone.enabled")
		return calls, h.Scheme == w.Scheme
	case TargetGroup:
		h := have.(TargetGroup)
		call(h.Health != w.Health, "ModifyTargetGroup", "")
		call(h.PreserveIP != w.PreserveIP || h.EndUnhealthy != w.EndUnhealthy, "ModifyTargetGroupAttributes", "")
		return calls, h.VPC == w.VPC && h.Port == w.Port && h.IPv6 == w.IPv6
	case Listener:
		return []Call{{Action: "ModifyListener"}}, true
	case Tagging:
		return []Call{{Action: "CreateTags"}}, true
	}
	return nil, false
}

// replaceable reports whether the Plan deletes and re-creates an object that cannot be
// changed. Other objects contain what people put there, or are known outside by their
// addresses. A target group outlives its VPC.
func replaceable(k Kind) bool {
	return k == KindNATGateway || k == KindBastion || k == KindTargetGroup
}
