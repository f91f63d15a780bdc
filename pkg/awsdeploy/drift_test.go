package awsdeploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// found is a built network, in which a test finds the objects that a person changes.
type found struct {
	*lab
	awsnet.Holding
}

// first returns the ID of the cluster's first object of a kind whose name has a prefix.
func (f found) first(kind awsnet.Kind, prefix string) string {
	f.Helper()
	var names []string
	for k := range maps.Keys(f.Ours) {
		if k.Kind == kind && strings.HasPrefix(k.Name, prefix) {
			names = append(names, k.Name)
		}
	}
	if len(names) == 0 {
		f.Fatalf("no %s/%s…", kind, prefix)
	}
	return f.ID(awsnet.Key{Kind: kind, Name: slices.Min(names)})
}

// handmade are ten changes that people make by hand. Those that only add something foreign need no
// repair.
var handmade = []struct {
	name    string
	foreign bool
	change  func(f found)
}{
	{"a default route is gone", false, func(f found) {
		f.do("DeleteRoute", "", "RouteTableId", f.first(awsnet.KindRouteTable, "public"), "DestinationCidrBlock", "0.0.0.0/0")
	}},
	{"another gateway is in a default route", false, func(f found) {
		f.do("ReplaceRoute", "", "RouteTableId", f.first(awsnet.KindRouteTable, "private-"), "DestinationCidrBlock", "0.0.0.0/0", "GatewayId", f.first(awsnet.KindInternetGateway, ""))
	}},
	{"an association is removed", false, func(f found) {
		f.do("DisassociateRouteTable", "", "AssociationId", f.first(awsnet.KindAssociation, ""))
	}},
	{"a private table has a foreign route to the internet gateway", true, func(f found) {
		f.do("CreateRoute", "", "RouteTableId", f.first(awsnet.KindRouteTable, "private-"), "DestinationCidrBlock", "203.0.113.0/24", "GatewayId", f.first(awsnet.KindInternetGateway, ""))
	}},
	{"a NAT gateway is deleted", false, func(f found) {
		f.do("DeleteNatGateway", "", "NatGatewayId", f.first(awsnet.KindNATGateway, ""))
	}},
	{"a rule is revoked", false, func(f found) {
		f.do("RevokeSecurityGroupIngress", "", "GroupId", f.first(awsnet.KindSecurityGroup, "node"), "SecurityGroupRuleId.1", f.first(awsnet.KindRule, "node/in/"))
	}},
	{"a foreign rule is added", true, func(f found) {
		f.do("AuthorizeSecurityGroupIngress", "", "GroupId", f.first(awsnet.KindSecurityGroup, "node"), "IpPermissions.1.IpProtocol", "tcp",
			"IpPermissions.1.FromPort", "2222", "IpPermissions.1.ToPort", "2222", "IpPermissions.1.IpRanges.1.CidrIp", "198.51.100.0/24")
	}},
	{"an egress rule is removed", false, func(f found) {
		f.do("RevokeSecurityGroupEgress", "", "GroupId", f.first(awsnet.KindSecurityGroup, "node"), "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0")
	}},
	{"a listener is deleted", false, func(f found) {
		f.do("DeleteListener", "", "ListenerArn", f.first(awsnet.KindListener, ""))
	}},
	{"DNS hostnames are off", false, func(f found) {
		f.do("ModifyVpcAttribute", "", "VpcId", f.first(awsnet.KindVPC, "main"), "EnableDnsHostnames.Value", "false")
	}},
}

// foreignOf returns the foreign routes and rules of a network, by what they are for.
func foreignOf(h awsnet.Holding) (all []string) {
	for _, f := range h.Foreign {
		switch o := f.Object.(type) {
		case awsnet.Route:
			all = append(all, o.To.String())
		case awsnet.Rule:
			all = append(all, o.Addresses.String())
		}
	}
	slices.Sort(all)
	return all
}

// TestChangesByHandAreUndone makes ten changes by hand, one by one, and then all at once. Each time
// one run undoes what concerns the network, keeps what is foreign, and a second run changes nothing.
// The deletion leaves nothing.
func TestChangesByHandAreUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := found{l, l.build(threeZones).View.Holding}
	foreign := []string{}
	repaired := func(name string, wants bool) {
		t.Helper()
		r := l.build(threeZones)
		if (r.Done > 0) != wants {
			t.Errorf("%s: %d steps", name, r.Done)
		}
		f.Holding = r.View.Holding
		if now := foreignOf(f.Holding); !slices.Equal(now, foreign) {
			t.Errorf("%s: foreign are %v, want %v", name, now, foreign)
		}
		before := l.changes()
		if r := l.build(threeZones); r.Done > 0 || l.changes() != before {
			t.Errorf("%s: a second run made %d steps", name, r.Done)
		}
	}
	for _, c := range handmade {
		c.change(f)
		switch {
		case c.foreign && strings.Contains(c.name, "route"):
			foreign = append(foreign, "203.0.113.0/24")
		case c.foreign:
			foreign = append(foreign, "198.51.100.0/24")
		}
		slices.Sort(foreign)
		repaired(c.name, !c.foreign)
	}
	for _, c := range handmade {
		if !c.foreign {
			c.change(f)
		}
	}
	repaired("all at once", true)
	l.destroy(threeZones)
}
