package aws

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestNetworkKeepsAForeignRoute deletes a route that a person has replaced since the
// reading. The person's route stays.
func TestNetworkKeepsAForeignRoute(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	h := l.ours(threeZones)
	table, nat, igw := l.find(h, awsnet.KindRouteTable, "private-").ID, l.find(h, awsnet.KindNATGateway, "").ID, l.id(h, awsnet.KindInternetGateway, "main")
	remove := func(via string) error {
		o := awsnet.Route{Table: awsnet.Foreign(table), To: netip.MustParsePrefix("0.0.0.0/0"), Via: awsnet.Foreign(via)}
		_, err := l.client.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: "DeleteRoute"}, NetworkChange{Step: awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Delete, Key: o.Key()}}, Object: o})
		return err
	}
	l.do("ReplaceRoute", "RouteTableId", table, "DestinationCidrBlock", "0.0.0.0/0", "GatewayId", igw)
	wantKind(t, remove(nat), cloud.Changed)
	if n := l.fake.Count("DeleteRoute"); n != 0 {
		t.Errorf("%d routes are deleted", n)
	}
	for range 2 { // the second time, the route does not exist
		if err := remove(igw); err != nil {
			t.Error(err)
		}
		l.client.tables.mu.Lock()
		clear(l.client.tables.reads) // otherwise it would use routes read within the last second
		l.client.tables.mu.Unlock()
	}
}

// TestNetworkDeletesTargetGroupsWithoutVPC deletes the VPC and everything in it by
// hand. The network's deletion then finds the target groups, which AWS keeps.
func TestNetworkDeletesTargetGroupsWithoutVPC(t *testing.T) {
	l := newNetworkLab(t)
	vpc := l.fake.AddNetwork("172.20.0.0/16", 24, false).VPC
	l.do("CreateTargetGroup", "Name", "old", "Protocol", "TCP", "Port", "6443", "VpcId", vpc, "TargetType", "instance",
		"Tags.member.1.Key", l.owner.Tag(), "Tags.member.1.Value", "owned", "Tags.member.2.Key", awsnet.UIDTag, "Tags.member.2.Value", l.owner.UID,
		"Tags.member.3.Key", awsnet.PartTag, "Tags.member.3.Value", "target-group/apiserver-6443-ipv4")
	if n := len(l.owned()); n != 1 {
		t.Errorf("%d target groups are found", n)
	}
	l.destroy()
	if left := l.fake.TargetGroups(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestNetworkNowReadsManyBalancers reads more load balancers than one call can name.
func TestNetworkNowReadsManyBalancers(t *testing.T) {
	l := newNetworkLab(t)
	n := l.fake.Default()
	l.fake.Set(func(s *awstest.Settings) { s.Balancers = 50 })
	for i := range 25 {
		l.do("CreateLoadBalancer", "Name", fmt.Sprintf("lb-%d", i), "Type", "network", "Scheme", "internal", "Subnets.member.1", n.Subnets[0])
	}
	var arns []string
	for _, b := range l.fake.Balancers() {
		arns = append(arns, b.ARN)
	}
	now, err := l.client.NetworkNow(t.Context(), arns...)
	if err != nil || len(now) != 25 {
		t.Errorf("%d load balancers, %v", len(now), err)
	}
}

// TestBastionWithAHostileSubnet checks that every ID is valid, even if the instance is
// being terminated.
func TestBastionWithAHostileSubnet(t *testing.T) {
	id, subnet := "i-0123456789abcdef0", "subnet-*,"
	if f, _, err := bastionOf(types.Instance{InstanceId: &id, SubnetId: &subnet, State: &types.InstanceState{Name: types.InstanceStateNameShuttingDown}}); err == nil {
		t.Errorf("%+v", f)
	}
}
