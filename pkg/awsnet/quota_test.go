package awsnet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

func TestHeadroom(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want(specs["three zones"])
	plan := awsnet.Diff(w.owner, want, w.account.Read())
	if short := awsnet.Headroom(plan, want, nil); len(short) > 0 {
		t.Errorf("an empty account has no room: %v", short)
	}
	short := awsnet.Headroom(plan, want, map[string]awsnet.Usage{
		"L-0263D0A3": {Used: 3},                                                 // addresses: 3 + 3 of 5
		"L-F678F1CE": {Limit: 100, Used: 99},                                    // VPCs
		"L-FE5A380F": {Zones: map[string]int{"us-east-1b": 5, "us-east-1d": 9}}, // NAT gateways
		"L-A4707A72": {Used: 5},                                                 // internet gateways
	})
	text := fmt.Sprint(short)
	for _, part := range []string{
		"elastic addresses per region: the limit is 5, 3 are used, and 3 more are needed; raise the quota L-0263D0A3 of ec2, or delete what is not needed",
		"NAT gateways per availability zone in us-east-1b: the limit is 5, 5 are used, and 1 more are needed",
		"internet gateways per region: the limit is 5, 5 are used",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %s", part, text)
		}
	}
	if len(short) != 3 {
		t.Errorf("%d shortages: %v", len(short), short)
	}
	w.apply(want)
	if short := awsnet.Headroom(awsnet.Diff(w.owner, want, w.account.Read()), want, map[string]awsnet.Usage{"L-0263D0A3": {Used: 5}}); len(short) > 0 {
		t.Errorf("what exists needs more room: %v", short)
	}
}

func TestHeadroomOfTheVPCAndItsGroups(t *testing.T) {
	w := newWorld(t, 1)
	var blocks, rules []string
	for i := range 5 {
		blocks = append(blocks, fmt.Sprintf("{ipv4CidrBlock: 100.%d.0.0/16}", 64+i))
	}
	for i := range 70 {
		rules = append(rules, fmt.Sprintf("192.0.2.%d/32", i))
	}
	want := w.want("network:\n  vpc: {secondaryCidrBlocks: [" + strings.Join(blocks, ", ") + "]}\n  additionalNodeIngressRules: [{description: x, protocol: tcp, fromPort: 1, toPort: 1, cidrBlocks: [" + strings.Join(rules, ", ") + "]}]")
	text := fmt.Sprint(awsnet.Headroom(awsnet.Diff(w.owner, want, w.account.Read()), want, nil))
	for _, part := range []string{"blocks of IPv4 per VPC: the limit is 5, 0 are used, and 6 more are needed", "rules per security group, direction and family in node (in, IPv4): the limit is 60"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %s", part, text)
		}
	}
}

// TestOwnAddressesNeedNoQuota: AWS's quota of elastic addresses is for its own.
func TestOwnAddressesNeedNoQuota(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want("network:\n  vpc: {cidrBlock: 10.0.0.0/16, availabilityZoneUsageLimit: 3, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-0123abcd}}")
	for _, n := range awsnet.Needs(awsnet.Diff(w.owner, want, w.account.Read()), want, nil) {
		if n.Kind == awsnet.KindAddress {
			t.Errorf("%v", n)
		}
	}
}

func TestPrice(t *testing.T) {
	w := newWorld(t, 1)
	costs, known := awsnet.Price(w.want(specs["three zones"]+"\nbastion: {enabled: true}"), "us-east-1")
	want := "3 NAT gateway 98.55, 7 public IPv4 address 25.55, 1 network load balancer 16.43, 1 bastion of type t3.micro 7.59"
	var lines []string
	for _, c := range costs {
		lines = append(lines, fmt.Sprintf("%d %s %.2f", c.Count, c.What, c.Monthly))
	}
	if got := strings.Join(lines, ", "); !known || got != want {
		t.Errorf("got %s, %v, want %s", got, known, want)
	}
	if costs, known := awsnet.Price(w.want(specs["one gateway"]), "eu-north-7"); known || len(costs) != 3 || costs[0].Monthly != 0 {
		t.Errorf("%v, %v", costs, known)
	}
	if costs, _ := awsnet.Price(w.want("natGateways: None\ncontrolPlaneLoadBalancer: {loadBalancerType: disabled}"), "us-east-1"); len(costs) != 0 {
		t.Errorf("a network without gateways costs %v", costs)
	}
}

func TestTokens(t *testing.T) {
	o, k := awsnet.Owner{Cluster: "prod", UID: "1"}, awsnet.Key{Kind: awsnet.KindNATGateway, Name: "a"}
	seen := make(map[string]bool)
	for _, token := range []string{
		awsnet.Token(o, k), awsnet.Token(awsnet.Owner{Cluster: "prod", UID: "2"}, k), awsnet.Token(o, awsnet.Key{Kind: awsnet.KindNATGateway, Name: "b"}),
		awsnet.Token(o, k, "nat-1"), awsnet.Token(o, k, "nat-1", "nat-2"),
	} {
		if seen[token] || len(token) > 64 {
			t.Errorf("%s is there twice, or too long", token)
		}
		seen[token] = true
	}
}

// TestRulesOfAGroupAreOneCall shows that a new group gets all its rules at once.
func TestRulesOfAGroupAreOneCall(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want(specs["everything"])
	plan := awsnet.Diff(w.owner, want, w.account.Read())
	done := make(map[awsnet.StepID]bool)
	calls := make(map[string]int)
	for ready := awsnet.Ready(plan, done, nil); len(ready) > 0; ready = awsnet.Ready(plan, done, nil) {
		for _, batch := range awsnet.Batches(ready) {
			if r, is := batch[0].Want.(awsnet.Rule); is {
				calls[r.Owner.String()]++
			}
			for _, s := range batch {
				done[s.StepID] = true
			}
		}
	}
	if len(done) != len(plan.Steps) {
		t.Errorf("%d of %d steps", len(done), len(plan.Steps))
	}
	if calls["security-group/controlplane"] != 1 || calls["security-group/lb"] != 1 {
		t.Error(calls)
	}
}

// TestHeadroomOfRulesIsOfEachFamily checks that rules of IPv4 and of IPv6 count
// separately, as in AWS. A rule that names a security group counts towards both.
func TestHeadroomOfRulesIsOfEachFamily(t *testing.T) {
	short := func(v4, v6 int) string {
		w := newWorld(t, 1)
		var blocks []string
		for i := range v4 {
			blocks = append(blocks, fmt.Sprintf("192.0.2.%d/32", i))
		}
		for i := range v6 {
			blocks = append(blocks, fmt.Sprintf("'2001:db8::%x/128'", i))
		}
		want := w.want("network:\n  additionalNodeIngressRules: [{description: x, protocol: tcp, fromPort: 1, toPort: 1, cidrBlocks: [" + strings.Join(blocks[:v4], ", ") + "], ipv6CidrBlocks: [" + strings.Join(blocks[v4:], ", ") + "]}]")
		return fmt.Sprint(awsnet.Headroom(awsnet.Diff(w.owner, want, w.account.Read()), want, nil))
	}
	if text := short(45, 45); text != "[]" {
		t.Errorf("45 rules of each family: %s", text)
	}
	if text := short(10, 60); !strings.Contains(text, "in node (in, IPv6): the limit is 60") || strings.Contains(text, "IPv4)") {
		t.Errorf("60 rules of IPv6, and those of security groups: %s", text)
	}
}

// TestHeadroomCountsTheMainTable checks that the main table counts towards the quota of
// tables.
func TestHeadroomCountsTheMainTable(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want(specs["three zones"])
	plan := awsnet.Diff(w.owner, want, w.account.Read())
	for limit, fits := range map[int]bool{4: false, 5: true} {
		if short := awsnet.Headroom(plan, want, map[string]awsnet.Usage{"L-589F43AA": {Limit: limit}}); (len(short) == 0) != fits {
			t.Errorf("4 tables beside the main one, and a limit of %d: %v", limit, short)
		}
	}
}
