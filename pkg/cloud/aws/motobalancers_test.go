//go:build aws

package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/mototest"
)

// TestMotoServesBalancers makes the calls of the client about load balancers against an
// implementation of AWS that is not ours. moto has no account limits, and its SetSubnets
// wants two zones.
func TestMotoServesBalancers(t *testing.T) {
	mototest.Start(t)
	c, err := New(t.Context(), Options{Config: Config{Families: []string{"ipv4"}}, Cluster: "prod", Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c.limiter = cloud.NewLimiter(func(string) cloud.Budget { return cloud.Budget{Burst: 1000, Rate: 1000} })
	instances := launchOnMoto(t, c, 2)
	found, err := c.Instances(t.Context(), instances)
	if err != nil || len(found[instances[0]].Groups) == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	network := found[instances[0]].Network
	subnets, err := c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", network)}})
	if err != nil || len(subnets.Subnets) < 2 {
		t.Fatalf("%+v, %v", subnets, err)
	}
	var mappings []cloud.SubnetMapping
	for _, s := range subnets.Subnets[:2] {
		if _, err := c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{*s.SubnetId}, Tags: []types.Tag{{Key: sdk.String(tag), Value: sdk.String("owned")}}}); err != nil {
			t.Fatal(err)
		}
		mappings = append(mappings, cloud.SubnetMapping{Subnet: *s.SubnetId})
	}
	if all, err := c.Subnets(t.Context()); err != nil || len(all) != len(subnets.Subnets) || !all[0].Regular || all[0].Network != network || !all[0].IPv4.IsValid() {
		t.Errorf("%+v, %v", all, err)
	}

	do := func(b cloud.BalancerChange) cloud.Balancing { t.Helper(); return mustChange(t, c, b) }
	sg := do(cloud.BalancerChange{Verb: cloud.CreateSecurityGroup, Security: cloud.SecurityGroup{Name: "k8s-elb-web", Network: network, Description: "d", Tags: tagged}}).Security[0].ID
	rules := []cloud.Rule{{Protocol: "tcp", From: 80, To: 80, Group: sg, Description: "a"}}
	for range 2 {
		do(cloud.BalancerChange{Verb: cloud.AllowIngress, Security: cloud.SecurityGroup{ID: sg, Rules: rules}})
	}
	if all, err := c.SecurityGroups(t.Context(), []string{sg}); err != nil || len(all) != 1 || len(all[0].Rules) != 1 || all[0].Rules[0] != rules[0] {
		t.Errorf("%+v, %v", all, err)
	}
	for range 2 {
		do(cloud.BalancerChange{Verb: cloud.RevokeIngress, Security: cloud.SecurityGroup{ID: sg, Rules: rules}})
	}
	group := do(cloud.BalancerChange{Verb: cloud.CreateGroup, Group: cloud.TargetGroup{
		Name: "web", Network: network, Protocol: cloud.TCP, Port: 30080, Kind: "instance", Family: "ipv4", Tags: tagged, Health: cloud.HealthCheck{Protocol: cloud.TCP, Port: "30080", Interval: 10},
	}}).Groups[0]
	made := do(cloud.BalancerChange{Verb: cloud.CreateBalancer, Balancer: cloud.Balancer{Name: balancerOf("web"), Scheme: cloud.InternetFacing, Families: cloud.IPv4Only, Mappings: mappings, Security: []string{sg}, Tags: tagged}}).Balancers[0]
	listener := do(cloud.BalancerChange{Verb: cloud.CreateListener, Listener: cloud.Listener{Balancer: made.ID, Protocol: cloud.TCP, Port: 80, Group: group.ID}, Tags: tagged}).Balancers[0].Listeners[0]
	do(cloud.BalancerChange{Verb: cloud.Register, Group: cloud.TargetGroup{ID: group.ID, Targets: []cloud.Target{{ID: instances[0], Port: 30080}, {ID: instances[1], Port: 30080}}}})
	do(cloud.BalancerChange{Verb: cloud.Deregister, Group: cloud.TargetGroup{ID: group.ID, Targets: []cloud.Target{{ID: instances[1], Port: 30080}}}})
	do(cloud.BalancerChange{Verb: cloud.SetBalancerAttributes, Balancer: cloud.Balancer{ID: made.ID, Attributes: map[string]string{"load_balancing.cross_zone.enabled": "true"}}})
	do(cloud.BalancerChange{Verb: cloud.SetGroupAttributes, Group: cloud.TargetGroup{ID: group.ID, Attributes: map[string]string{"deregistration_delay.timeout_seconds": "5"}}})
	do(cloud.BalancerChange{Verb: cloud.SetHealthCheck, Group: cloud.TargetGroup{ID: group.ID, Health: cloud.HealthCheck{Protocol: cloud.HTTP, Port: "10256", Path: "/healthz"}}})
	do(cloud.BalancerChange{Verb: cloud.AddTags, Object: made.ID, Tags: map[string]string{"a": "b"}})
	do(cloud.BalancerChange{Verb: cloud.SetSecurity, Balancer: cloud.Balancer{ID: made.ID, Security: []string{sg}}})
	listener.Port = 81
	do(cloud.BalancerChange{Verb: cloud.SetListener, Listener: listener})

	all, err := c.Balancing(t.Context())
	if err != nil || len(all.Balancers) != 1 || len(all.Groups) != 1 || len(all.Security) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if b := all.Balancers[0]; b.Host == "" || b.State != "active" || b.Tags["a"] != "b" || len(b.Mappings) != 2 || b.Network != network {
		t.Errorf("%+v", b)
	}
	details, err := c.Details(t.Context(), []string{made.ID, group.ID})
	if err != nil || len(details.Balancers) != 1 || len(details.Groups) != 1 {
		t.Fatalf("%+v, %v", details, err)
	}
	if b := details.Balancers[0]; len(b.Listeners) != 1 || b.Listeners[0] != listener || b.Attributes["load_balancing.cross_zone.enabled"] != "true" {
		t.Errorf("%+v", b)
	}
	if g := details.Groups[0]; len(g.Targets) != 1 || g.Targets[0].ID != instances[0] || g.Attributes["deregistration_delay.timeout_seconds"] != "5" {
		t.Errorf("%+v", g)
	}
	for range 2 {
		do(cloud.BalancerChange{Verb: cloud.DeleteListener, Listener: cloud.Listener{ID: listener.ID}})
		do(cloud.BalancerChange{Verb: cloud.DeleteBalancer, Balancer: cloud.Balancer{ID: made.ID}})
		do(cloud.BalancerChange{Verb: cloud.DeleteGroup, Group: cloud.TargetGroup{ID: group.ID}})
		do(cloud.BalancerChange{Verb: cloud.DeleteSecurityGroup, Security: cloud.SecurityGroup{ID: sg}})
	}
	for call, n := range c.Calls() {
		if call.Outcome != "ok" && call.Outcome != "missing" && !strings.HasSuffix(call.Action, "Ingress") {
			t.Errorf("%d calls of %s: %s", n, call.Action, call.Outcome)
		}
	}
}
