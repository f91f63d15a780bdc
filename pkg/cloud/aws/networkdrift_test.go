package aws

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// do makes a call as a person does.
func (l *networkLab) do(action string, parameters ...string) {
	l.Helper()
	if _, err := l.fake.Do(action, parameters...); err != nil {
		l.Fatalf("%s %v: %v", action, parameters, err)
	}
}

// ours returns the cluster's objects.
func (l *networkLab) ours(spec string) awsnet.Holding {
	l.Helper()
	return awsnet.Sort(l.owner, l.want(spec), l.read(l.scope()))
}

// id returns the ID of an object of the cluster.
func (l *networkLab) id(h awsnet.Holding, kind awsnet.Kind, name string) string {
	l.Helper()
	id := h.ID(awsnet.Key{Kind: kind, Name: name})
	if id == "" {
		l.Fatalf("no %s/%s", kind, name)
	}
	return id
}

// find returns the first object of a kind whose name has a prefix.
func (l *networkLab) find(h awsnet.Holding, kind awsnet.Kind, prefix string) awsnet.Found {
	l.Helper()
	var names []string
	for k := range h.Ours {
		if k.Kind == kind && strings.HasPrefix(k.Name, prefix) {
			names = append(names, k.Name)
		}
	}
	if len(names) == 0 {
		l.Fatalf("no %s/%s…", kind, prefix)
	}
	return h.Ours[awsnet.Key{Kind: kind, Name: slices.Min(names)}]
}

// TestNetworkHealsWhatPeopleChange makes ten changes by hand, one by one. The next
// reading shows each, and one plan undoes it. Foreign objects stay.
func TestNetworkHealsWhatPeopleChange(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	h := l.ours(threeZones)
	vpc, igw := l.id(h, awsnet.KindVPC, "main"), l.id(h, awsnet.KindInternetGateway, "main")
	public, private := l.id(h, awsnet.KindRouteTable, "public"), l.find(h, awsnet.KindRouteTable, "private-").ID
	node := l.id(h, awsnet.KindSecurityGroup, "node")
	rule := l.find(h, awsnet.KindRule, "node/in/")
	balancer, nat := l.find(h, awsnet.KindBalancer, "").ID, l.find(h, awsnet.KindNATGateway, "")
	for _, c := range []struct {
		name    string
		change  func()
		foreign bool // a foreign object stays
	}{
		{name: "the default route is gone", change: func() { l.do("DeleteRoute", "RouteTableId", public, "DestinationCidrBlock", "0.0.0.0/0") }},
		{name: "another gateway is in it", change: func() {
			l.do("ReplaceRoute", "RouteTableId", private, "DestinationCidrBlock", "0.0.0.0/0", "GatewayId", igw)
		}},
		{name: "an association is removed", change: func() { l.do("DisassociateRouteTable", "AssociationId", l.find(h, awsnet.KindAssociation, "").ID) }},
		{name: "a foreign route to the internet gateway", foreign: true, change: func() {
			l.do("CreateRoute", "RouteTableId", private, "DestinationCidrBlock", "203.0.113.0/24", "GatewayId", igw)
		}},
		{name: "a NAT gateway is deleted", change: func() { l.do("DeleteNatGateway", "NatGatewayId", nat.ID) }},
		{name: "a rule is revoked", change: func() {
			l.do("RevokeSecurityGroupIngress", "GroupId", node, "SecurityGroupRuleId.1", rule.ID)
		}},
		{name: "a foreign rule is added", foreign: true, change: func() {
			l.do("AuthorizeSecurityGroupIngress", "GroupId", node, "IpPermissions.1.IpProtocol", "tcp", "IpPermissions.1.FromPort", "2222", "IpPermissions.1.ToPort", "2222", "IpPermissions.1.IpRanges.1.CidrIp", "198.51.100.0/24")
		}},
		{name: "an egress rule is removed", change: func() {
			l.do("RevokeSecurityGroupEgress", "GroupId", node, "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0")
		}},
		{name: "a listener is deleted", change: func() { l.do("DeleteListener", "ListenerArn", l.find(h, awsnet.KindListener, "").ID) }},
		{name: "DNS hostnames are off", change: func() { l.do("ModifyVpcAttribute", "VpcId", vpc, "EnableDnsHostnames.Value", "false") }},
	} {
		l.read(l.scope()) // the network is remembered
		before := total(l.client)
		if l.read(l.scope()); total(l.client)-before > mostIdle {
			t.Fatalf("%s: the network was not remembered", c.name)
		}
		c.change()
		plan := awsnet.Diff(l.owner, l.want(threeZones), l.read(l.scope()))
		if found := len(plan.Steps) > 0; found == c.foreign {
			t.Errorf("%s: the plan is %v", c.name, summaries(plan))
		}
		if passes := l.converge(threeZones); passes > 1 {
			t.Errorf("%s: restored in %d passes", c.name, passes)
		}
	}
	h = l.ours(threeZones)
	var foreign []string
	for _, f := range h.Foreign {
		switch o := f.Object.(type) {
		case awsnet.Route:
			foreign = append(foreign, o.To.String())
		case awsnet.Rule:
			foreign = append(foreign, o.Addresses.String())
		}
	}
	if slices.Sort(foreign); !slices.Equal(foreign, []string{"198.51.100.0/24", "203.0.113.0/24"}) {
		t.Errorf("foreign: %v", foreign)
	}
	if now := l.find(h, awsnet.KindBalancer, "").ID; now != balancer {
		t.Errorf("the balancer is %s, and was %s", now, balancer)
	}
	if now := l.find(h, awsnet.KindNATGateway, ""); now.ID == nat.ID || now.Given.Address != nat.Given.Address {
		t.Errorf("the NAT gateway is %+v, and was %+v", now, nat)
	}
}

// TestNetworkReadsTheRestInTurn changes parts that short readings do not read each
// time. Later readings find the changes, without more calls.
func TestNetworkReadsTheRestInTurn(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	h := l.ours(threeZones)
	group, balancer := l.find(h, awsnet.KindTargetGroup, "").ID, l.find(h, awsnet.KindBalancer, "").ID
	for name, change := range map[string]func(){
		"a tag of the VPC": func() { l.do("DeleteTags", "ResourceId.1", l.id(h, awsnet.KindVPC, "main"), "Tag.1.Key", "Name") },
		"a tag of an address": func() {
			l.do("CreateTags", "ResourceId.1", l.find(h, awsnet.KindAddress, "").ID, "Tag.1.Key", "Name", "Tag.1.Value", "other")
		},
		"an attribute of a target group": func() {
			l.do("ModifyTargetGroupAttributes", "TargetGroupArn", group, "Attributes.member.1.Key", preserveIP, "Attributes.member.1.Value", "true")
		},
		"zones of a balancer": func() {
			l.do("ModifyLoadBalancerAttributes", "LoadBalancerArn", balancer, "Attributes.member.1.Key", crossZone, "Attributes.member.1.Value", "true")
		},
		"a health check": func() {
			l.do("ModifyTargetGroup", "TargetGroupArn", group, "HealthCheckIntervalSeconds", "30")
		},
	} {
		l.read(l.scope())
		change()
		found := false
		for range 12 {
			p := awsnet.Diff(l.owner, l.want(threeZones), l.read(l.scope()))
			if found = len(p.Steps) > 0; found {
				break
			}
		}
		if !found {
			t.Errorf("%s: 12 readings do not show the change", name)
		}
		l.converge(threeZones)
	}
}

// TestNetworkFailsWhole fails each read in turn. The reading is then an error, which
// names the permission.
func TestNetworkFailsWhole(t *testing.T) {
	l := newNetworkLab(t)
	l.bastion = true
	l.converge(dualStack)
	s := l.scope()
	s.Holders = true
	for _, action := range []string{
		"DescribeVpcs", "DescribeVpcAttribute", "DescribeSubnets", "DescribeRouteTables", "DescribeInternetGateways", "DescribeEgressOnlyInternetGateways", "DescribeAddresses",
		"DescribeNatGateways", "DescribeVpcEndpoints", "DescribeSecurityGroups", "DescribeSecurityGroupRules", "DescribeInstances", "DescribeNetworkInterfaces",
		"DescribeLoadBalancers", "DescribeTargetGroups", "DescribeListeners", "DescribeTags", "DescribeLoadBalancerAttributes", "DescribeTargetGroupAttributes",
	} {
		end := l.fake.Inject(awstest.Fault{Action: action, Answer: &awstest.Error{Status: 403, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."}})
		a, err := l.client.Network(t.Context(), s)
		if end() == 0 {
			t.Errorf("a complete reading does not request %s", action)
		}
		if wantKind(t, err, cloud.Denied); err == nil || !strings.Contains(err.Error(), "allow "+permission(action)) || len(a.Found)+len(a.Holders) > 0 {
			t.Errorf("%s: %v, %d objects", action, err, len(a.Found))
		}
	}
}

// TestNetworkReadsPages reads a network with few objects in each answer.
func TestNetworkReadsPages(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	whole := l.read(l.scope())
	l.fake.Set(func(s *awstest.Settings) { s.Page = 2 })
	l.client = fastClient(t)
	if paged := l.read(l.scope()); len(paged.Found) != len(whole.Found) {
		t.Errorf("%d objects, and %d in pages", len(whole.Found), len(paged.Found))
	}
}

// TestNetworkIsPatientWithNewObjects checks that a change that refers to an object
// waits until AWS shows it, and that a reading without the object is an error.
func TestNetworkIsPatientWithNewObjects(t *testing.T) {
	l := newNetworkLab(t)
	vpc := awsnet.VPC{IPv4: netip.MustParsePrefix("10.0.0.0/16")}
	change := func(action string, o awsnet.Object) []Made {
		t.Helper()
		made, err := l.client.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: action}, NetworkChange{
			Step: awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Create, Key: o.Key()}, Tags: map[string]string{l.owner.Tag(): "owned", awsnet.UIDTag: "uid-1"}}, Object: o,
		})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	l.fake.Set(func(s *awstest.Settings) { s.Lag, s.LagWrites = time.Hour, true })
	id := change("CreateVpc", vpc)[0].ID
	known := make(chan error, 1)
	go func() { // AWS knows the VPC after the first call that names it
		known <- l.fake.Wait(t.Context(), func() bool { return l.fake.Count("CreateSubnet") > 0 })
		l.fake.Advance(2 * time.Hour)
	}()
	change("CreateSubnet", awsnet.Subnet{Name: "a", VPC: awsnet.Foreign(id), Zone: "eu-central-1a", IPv4: netip.MustParsePrefix("10.0.0.0/24")})
	if err := <-known; err != nil {
		t.Fatal(err)
	}
	if n := l.fake.Count("CreateSubnet"); n < 2 {
		t.Errorf("the subnet took %d calls", n)
	}
	l.fake.Set(func(s *awstest.Settings) { s.LagWrites = false })
	_, err := l.client.Network(t.Context(), l.scope())
	if wantKind(t, err, cloud.Pending); err == nil || !strings.Contains(err.Error(), "AWS does not show ") {
		t.Error(err)
	}
	if _, err := l.client.Network(t.Context(), NetworkScope{Owner: awsnet.Owner{Cluster: "other", UID: "uid-2"}}); err != nil {
		t.Errorf("another cluster's reading: %v", err)
	}
	l.fake.Set(func(s *awstest.Settings) { s.Lag = 0 })
	if n := len(l.read(l.scope()).Found); n == 0 {
		t.Error("the reading shows nothing")
	}
}

// TestNetworkCreationsAreMadeOnce repeats a creation whose answer was lost, and one
// whose object was deleted.
func TestNetworkCreationsAreMadeOnce(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	h := l.ours(threeZones)
	vpc := l.id(h, awsnet.KindVPC, "main")
	o := awsnet.RouteTable{Name: "extra", VPC: awsnet.Foreign(vpc)}
	step := awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Create, Key: o.Key()}, Token: awsnet.Token(l.owner, o.Key())}
	create := func(c *Client) (string, error) {
		made, err := c.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: "CreateRouteTable"}, NetworkChange{Step: step, Object: o})
		if err != nil {
			return "", err
		}
		return made[0].ID, nil
	}
	before := len(l.fake.Tables())
	l.fake.Inject(awstest.Fault{Action: "CreateRouteTable", Times: 1, Lose: true})
	if id, err := create(l.client); err == nil {
		t.Errorf("the lost answer was %s", id)
	}
	first, err := create(l.client)
	if err != nil || len(l.fake.Tables()) != before+1 {
		t.Fatalf("%s, %v: %d tables, and %d before", first, err, len(l.fake.Tables()), before)
	}
	l.do("DeleteRouteTable", "RouteTableId", first)
	second, err := create(l.client)
	if err != nil || second == first || !slices.Contains(l.fake.Tables(), second) {
		t.Errorf("after the deletion of %s: %s, %v", first, second, err)
	}
}

// TestNetworkDeletionNamesTheHolder deletes objects in use, and objects that do not
// exist.
func TestNetworkDeletionNamesTheHolder(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	h := l.ours(threeZones)
	subnet := l.find(h, awsnet.KindSubnet, "")
	instance := l.fake.Launch(awstest.Launch{Subnet: subnet.ID, Count: 1})[0]
	remove := func(action, id string, o awsnet.Object) error {
		_, err := l.client.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: action}, NetworkChange{Step: awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Delete, Key: o.Key(), ID: id}}, ID: id, Object: o})
		return err
	}
	err := remove("DeleteSubnet", subnet.ID, subnet.Object)
	if wantKind(t, err, cloud.Taken); err == nil || !strings.Contains(err.Error(), "held by the network interface eni-") {
		t.Errorf("%v, which does not name the interface of %s", err, instance.ID)
	}
	for action, o := range map[string]awsnet.Object{"DeleteSubnet": subnet.Object, "DeleteNatGateway": awsnet.NATGateway{}, "DeleteVpcEndpoints": awsnet.Endpoint{}, "ReleaseAddress": awsnet.Address{}} {
		id := prefixes[action] + "-0123456789abcdef0"
		if err := remove(action, id, o); err != nil {
			t.Errorf("%s of %s, which does not exist: %v", action, id, err)
		}
		if err := remove(action, "i-*", o); cloud.KindOf(err) != cloud.Refused {
			t.Errorf("%s of an invalid ID: %v", action, err)
		}
	}
}

// TestNetworkQuotaIsNamed checks that the error of an exceeded quota has the quota and
// the fix.
func TestNetworkQuotaIsNamed(t *testing.T) {
	l := newNetworkLab(t)
	l.fake.Set(func(s *awstest.Settings) { s.Addresses = 0 })
	o := awsnet.Address{Name: "a"}
	_, err := l.client.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: "AllocateAddress"}, NetworkChange{Step: awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Create, Key: o.Key()}}, Object: o})
	if wantKind(t, err, cloud.Full); err == nil || !strings.Contains(err.Error(), "L-0263D0A3") {
		t.Error(err)
	}
}
