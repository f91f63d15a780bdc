package aws

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// newBalancing returns an account, and a Client with a budget that is larger than any test.
func newBalancing(t *testing.T) (*awstest.Server, *Client) {
	f, c := newAccount(t)
	c.limiter = cloud.NewLimiter(func(string) cloud.Budget { return cloud.Budget{Burst: 1000, Rate: 1000} })
	return f, c
}

// mustChange makes a change and fails the test if it fails.
func mustChange(t testing.TB, c *Client, b cloud.BalancerChange) cloud.Balancing {
	t.Helper()
	made, err := c.ChangeBalancing(t.Context(), b)
	if err != nil {
		t.Fatalf("%s: %v", b.Verb, err)
	}
	return made
}

// service holds the objects for one Service.
type service struct {
	balancer, group, security string
}

// balancerOf returns the name of the balancer of a Service.
func balancerOf(service string) string { return fmt.Sprintf("a%031x", service) }

// expose creates a balancer with a security group and a target group.
func expose(t testing.TB, f *awstest.Server, c *Client, name string) service {
	t.Helper()
	n := f.Default()
	var s service
	s.security = mustChange(t, c, cloud.BalancerChange{Verb: cloud.CreateSecurityGroup, Security: cloud.SecurityGroup{Name: "k8s-elb-" + name, Network: n.VPC, Description: "d", Tags: tagged}}).Security[0].ID
	s.group = mustChange(t, c, cloud.BalancerChange{Verb: cloud.CreateGroup, Group: cloud.TargetGroup{
		Name: name, Network: n.VPC, Protocol: cloud.TCP, Port: 30080, Kind: "instance", Family: "ipv4", Tags: tagged,
		Health: cloud.HealthCheck{Protocol: cloud.HTTP, Port: "10256", Path: "/healthz", Interval: 10, Timeout: 6, Healthy: 2, Unhealthy: 2},
	}}).Groups[0].ID
	s.balancer = mustChange(t, c, cloud.BalancerChange{Verb: cloud.CreateBalancer, Balancer: cloud.Balancer{
		Name: balancerOf(name), Scheme: cloud.InternetFacing, Families: cloud.IPv4Only, Mappings: []cloud.SubnetMapping{{Subnet: n.Subnets[0]}, {Subnet: n.Subnets[1]}}, Security: []string{s.security}, Tags: tagged,
	}}).Balancers[0].ID
	return s
}

// TestChangesOfBalancing makes each change, and reads its effect.
func TestChangesOfBalancing(t *testing.T) {
	f, c := newBalancing(t)
	n := f.Default()
	s := expose(t, f, c, "web")
	do := func(b cloud.BalancerChange) cloud.Balancing { t.Helper(); return mustChange(t, c, b) }

	instances := f.Launch(awstest.Launch{Count: 3, Tags: tagged})
	var targets []cloud.Target
	for _, i := range instances {
		targets = append(targets, cloud.Target{ID: i.ID, Port: 30080})
	}
	do(cloud.BalancerChange{Verb: cloud.Register, Group: cloud.TargetGroup{ID: s.group, Targets: targets}})
	listener := do(cloud.BalancerChange{Verb: cloud.CreateListener, Listener: cloud.Listener{Balancer: s.balancer, Protocol: cloud.TCP, Port: 80, Group: s.group}, Tags: tagged}).Balancers[0].Listeners[0]
	do(cloud.BalancerChange{Verb: cloud.SetBalancerAttributes, Balancer: cloud.Balancer{ID: s.balancer, Attributes: map[string]string{"load_balancing.cross_zone.enabled": "true"}}})
	do(cloud.BalancerChange{Verb: cloud.SetGroupAttributes, Group: cloud.TargetGroup{ID: s.group, Attributes: map[string]string{"deregistration_delay.timeout_seconds": "0"}}})
	do(cloud.BalancerChange{Verb: cloud.SetHealthCheck, Group: cloud.TargetGroup{ID: s.group, Health: cloud.HealthCheck{Protocol: cloud.TCP, Port: "traffic-port", Interval: 20, Timeout: 10, Healthy: 3, Unhealthy: 3}}})
	do(cloud.BalancerChange{Verb: cloud.Deregister, Group: cloud.TargetGroup{ID: s.group, Targets: targets[2:]}})
	do(cloud.BalancerChange{Verb: cloud.SetSubnets, Balancer: cloud.Balancer{ID: s.balancer, Families: cloud.IPv4Only, Mappings: []cloud.SubnetMapping{{Subnet: n.Subnets[1]}, {Subnet: n.Subnets[2]}}}})
	do(cloud.BalancerChange{Verb: cloud.SetFamilies, Balancer: cloud.Balancer{ID: s.balancer, Families: cloud.IPv4Only}})
	do(cloud.BalancerChange{Verb: cloud.AddTags, Object: s.balancer, Tags: map[string]string{"a": "b"}})
	do(cloud.BalancerChange{Verb: cloud.AddTags, Object: s.security, Tags: map[string]string{"c": "d"}})
	listener.Port = 81
	do(cloud.BalancerChange{Verb: cloud.SetListener, Listener: listener})

	all, err := c.Balancing(t.Context())
	if err != nil || len(all.Balancers) != 1 || len(all.Groups) != 1 || len(all.Security) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	b, g := all.Balancers[0], all.Groups[0]
	if b.ID != s.balancer || b.Name != balancerOf("web") || b.State != "active" || b.Network != n.VPC || !strings.HasSuffix(b.Host, ".amazonaws.com") || b.Tags["a"] != "b" || b.Tags[tag] != "owned" ||
		b.Scheme != cloud.InternetFacing || b.Families != cloud.IPv4Only || !slices.Equal(b.Security, []string{s.security}) || len(b.Mappings) != 2 || b.Detailed {
		t.Errorf("%+v", b)
	}
	for _, p := range b.Mappings {
		if p.Subnet == n.Subnets[0] || p.Zone == "" || p.Allocation != "" {
			t.Errorf("%+v", p)
		}
	}
	want := cloud.HealthCheck{Protocol: cloud.TCP, Port: "traffic-port", Interval: 20, Timeout: 10, Healthy: 3, Unhealthy: 3}
	if g.ID != s.group || g.Port != 30080 || g.Kind != "instance" || g.Family != "ipv4" || g.Health != want || !slices.Equal(g.Balancers, []string{b.ID}) || g.Tags[tag] != "owned" {
		t.Errorf("%+v", g)
	}
	if all.Security[0].Tags["c"] != "d" {
		t.Errorf("%+v", all.Security)
	}
	details, err := c.Details(t.Context(), []string{b.ID, g.ID})
	if err != nil || len(details.Balancers) != 1 || len(details.Groups) != 1 {
		t.Fatalf("%+v, %v", details, err)
	}
	b, g = details.Balancers[0], details.Groups[0]
	if !b.Detailed || b.Attributes["load_balancing.cross_zone.enabled"] != "true" || !slices.Equal(b.Listeners, []cloud.Listener{listener}) {
		t.Errorf("%+v", b)
	}
	if !g.Detailed || g.Attributes["deregistration_delay.timeout_seconds"] != "0" || len(g.Targets) != 2 || g.Targets[0].State != "healthy" {
		t.Errorf("%+v", g)
	}

	do(cloud.BalancerChange{Verb: cloud.DeleteListener, Listener: cloud.Listener{ID: listener.ID}})
	for range 2 { // deleting an absent object succeeds
		do(cloud.BalancerChange{Verb: cloud.DeleteBalancer, Balancer: cloud.Balancer{ID: s.balancer}})
		do(cloud.BalancerChange{Verb: cloud.DeleteListener, Listener: cloud.Listener{ID: listener.ID}})
		do(cloud.BalancerChange{Verb: cloud.DeleteGroup, Group: cloud.TargetGroup{ID: s.group}})
		do(cloud.BalancerChange{Verb: cloud.Deregister, Group: cloud.TargetGroup{ID: s.group, Targets: targets}})
		do(cloud.BalancerChange{Verb: cloud.DeleteSecurityGroup, Security: cloud.SecurityGroup{ID: s.security}})
		do(cloud.BalancerChange{Verb: cloud.RevokeIngress, Security: cloud.SecurityGroup{ID: s.security, Rules: []cloud.Rule{{Protocol: "tcp", From: 1, To: 1, Source: netip.MustParsePrefix("0.0.0.0/0")}}}})
	}
	if all, err = c.Balancing(t.Context()); err != nil || len(all.Balancers)+len(all.Groups)+len(all.Security) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if details, err = c.Details(t.Context(), []string{b.ID, g.ID}); err != nil || len(details.Balancers)+len(details.Groups) != 0 {
		t.Errorf("%+v, %v", details, err)
	}
}

func TestRulesOfSecurityGroups(t *testing.T) {
	f, c := newBalancing(t)
	s := expose(t, f, c, "web")
	rules := []cloud.Rule{
		{Protocol: "tcp", From: 80, To: 80, Source: netip.MustParsePrefix("10.0.0.0/8"), Description: "a"},
		{Protocol: "udp", From: 53, To: 54, Source: netip.MustParsePrefix("fd00::/8"), Description: "b"},
		{Protocol: "icmp", From: 3, To: 4, Group: s.security, Description: "c"},
		{Protocol: "-1", Source: netip.MustParsePrefix("192.168.0.0/16"), Description: "d"},
	}
	do := func(verb cloud.BalancerVerb, some ...cloud.Rule) {
		t.Helper()
		mustChange(t, c, cloud.BalancerChange{Verb: verb, Security: cloud.SecurityGroup{ID: s.security, Rules: some}})
	}
	want := func(rules ...cloud.Rule) {
		t.Helper()
		all, err := c.SecurityGroups(t.Context(), []string{s.security, "sg-0123456789abcdef0"})
		if err != nil || len(all) != 1 || !slices.Equal(all[0].Rules, rules) {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	do(cloud.AllowIngress, rules[1])
	do(cloud.AllowIngress, rules...) // one exists: the others are added
	do(cloud.AllowIngress, rules[1])
	want(rules...)
	do(cloud.RevokeIngress, rules[1:3]...)
	do(cloud.RevokeIngress, rules[1:]...)
	do(cloud.RevokeIngress)
	want(rules[0])
	_, err := c.ChangeBalancing(t.Context(), cloud.BalancerChange{Verb: cloud.DeleteSecurityGroup, Security: cloud.SecurityGroup{ID: s.security}})
	wantKind(t, err, cloud.Taken)
	_, err = c.SecurityGroups(t.Context(), []string{"sg-*"})
	wantKind(t, err, cloud.Refused)
}

// TestShowsOnlyTaggedBalancing: the client returns only objects with the cluster's tag.
func TestShowsOnlyTaggedBalancing(t *testing.T) {
	f, c := newBalancing(t)
	f.Set(func(s *awstest.Settings) { s.Page = 7 })
	n := f.Default()
	var mine []string
	for i := range 45 {
		tags := tagged
		if i%2 == 0 {
			tags = map[string]string{"kubernetes.io/cluster/other": "owned"}
		}
		made := mustChange(t, c, cloud.BalancerChange{Verb: cloud.CreateGroup, Group: cloud.TargetGroup{
			Name: fmt.Sprint("group-", i), Network: n.VPC, Protocol: cloud.UDP, Port: 53, Kind: "instance", Family: "ipv4", Health: cloud.HealthCheck{Protocol: cloud.TCP, Port: "30000"}, Tags: tags,
		}})
		if tags[tag] != "" {
			mine = append(mine, made.Groups[0].ID)
		}
	}
	f.Forget()
	all, err := c.Balancing(t.Context())
	if err != nil || len(all.Groups) != len(mine) {
		t.Fatalf("%d groups, %v", len(all.Groups), err)
	}
	for _, g := range all.Groups {
		if !slices.Contains(mine, g.ID) {
			t.Errorf("%+v", g)
		}
	}
	if got := f.Counts(); got[describeTags] != 3 || got[describeTargetGroups] != 7 {
		t.Errorf("%v", got)
	}
}

// TestOmitsGroupsDeletedDuringTheRead: a target group that is deleted while the client reads
// tags is missing from the result. All others are in it.
func TestOmitsGroupsDeletedDuringTheRead(t *testing.T) {
	f, c := newBalancing(t)
	a, b := expose(t, f, c, "a"), expose(t, f, c, "b")
	gone := strings.Replace(a.group, "/a/", "/gone/", 1)
	tags, err := c.tagsOf(t.Context(), []string{a.group, gone, b.group, b.balancer, gone + "0"})
	if got := slices.Sorted(maps.Keys(tags)); err != nil || len(got) != 3 || tags[b.balancer][tag] != "owned" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRetriedCreationMakesOneObject: the retry of a creation whose answer was lost creates no
// second object.
func TestRetriedCreationMakesOneObject(t *testing.T) {
	f, c := newBalancing(t)
	s := expose(t, f, c, "web")
	listener := cloud.BalancerChange{Verb: cloud.CreateListener, Listener: cloud.Listener{Balancer: s.balancer, Protocol: cloud.TCP, Port: 80, Group: s.group}}
	f.Inject(awstest.Fault{Action: createListener, Times: 1, Lose: true})
	_, err := c.ChangeBalancing(t.Context(), listener)
	wantKind(t, err, cloud.Unavailable)
	made := mustChange(t, c, listener).Balancers[0].Listeners[0]
	if l := f.Balancers()[0].Listeners; len(l) != 1 || l[0].ARN != made.ID {
		t.Errorf("%+v", l)
	}
}

func TestErrorsOfBalancing(t *testing.T) {
	f, c := newBalancing(t)
	s := expose(t, f, c, "web")
	n := f.Default()
	f.Set(func(s *awstest.Settings) { s.TargetGroups = 1 })
	change := func(b cloud.BalancerChange, kind cloud.Kind, text string) {
		t.Helper()
		_, err := c.ChangeBalancing(t.Context(), b)
		if wantKind(t, err, kind); err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	mustChange(t, c, cloud.BalancerChange{Verb: cloud.CreateListener, Listener: cloud.Listener{Balancer: s.balancer, Protocol: cloud.TCP, Port: 80, Group: s.group}})
	group := cloud.TargetGroup{Name: "web", Network: n.VPC, Protocol: cloud.UDP, Port: 30080, Kind: "instance", Family: "ipv4"}
	change(cloud.BalancerChange{Verb: cloud.CreateGroup, Group: group}, cloud.Changed, "rename or delete")
	group.Name = "other"
	change(cloud.BalancerChange{Verb: cloud.CreateGroup, Group: group}, cloud.Full, "L-B22855CB")
	change(cloud.BalancerChange{Verb: cloud.DeleteGroup, Group: cloud.TargetGroup{ID: s.group}}, cloud.Taken, "in use")
	change(cloud.BalancerChange{Verb: cloud.DeleteSecurityGroup, Security: cloud.SecurityGroup{ID: s.security}}, cloud.Taken, "dependent")
	change(cloud.BalancerChange{Verb: cloud.CreateSecurityGroup, Security: cloud.SecurityGroup{Name: "k8s-elb-web", Network: n.VPC, Description: "d"}}, cloud.Changed, "rename or delete")
	change(cloud.BalancerChange{Verb: cloud.SetSecurity, Balancer: cloud.Balancer{ID: s.balancer + "0", Security: []string{s.security}}}, cloud.Missing, "LoadBalancerNotFound")
	f.ChangeKey(func(k *awstest.Key) {
		k.Denied = map[string]bool{setSubnets: true, describeBalancers: true, revokeIngress: true}
	})
	change(cloud.BalancerChange{Verb: cloud.SetSubnets, Balancer: cloud.Balancer{ID: s.balancer, Mappings: []cloud.SubnetMapping{{Subnet: n.Subnets[0]}}}}, cloud.Denied, "allow elasticloadbalancing:SetSubnets")
	_, err := c.Balancing(t.Context())
	wantKind(t, err, cloud.Denied)
	change(cloud.BalancerChange{Verb: cloud.RevokeIngress, Security: cloud.SecurityGroup{ID: s.security, Rules: []cloud.Rule{{Protocol: "-1", Group: s.security}}}}, cloud.Denied, "allow ec2:RevokeSecurityGroupIngress")
}

// TestRefusesChangesWithInvalidIDs: the client does not send a change whose ID is of another
// kind.
func TestRefusesChangesWithInvalidIDs(t *testing.T) {
	f, c := newBalancing(t)
	f.Forget()
	for _, verb := range []cloud.BalancerVerb{
		cloud.CreateSecurityGroup, cloud.DeleteSecurityGroup, cloud.AllowIngress, cloud.RevokeIngress, cloud.CreateGroup, cloud.SetHealthCheck, cloud.SetGroupAttributes, cloud.DeleteGroup,
		cloud.Register, cloud.Deregister, cloud.CreateBalancer, cloud.SetBalancerAttributes, cloud.SetSubnets, cloud.SetFamilies, cloud.SetSecurity, cloud.DeleteBalancer,
		cloud.CreateListener, cloud.SetListener, cloud.DeleteListener, cloud.AddTags, "", "no",
	} {
		_, err := c.ChangeBalancing(t.Context(), cloud.BalancerChange{Verb: verb})
		wantKind(t, err, cloud.Refused)
	}
	_, err := c.ChangeBalancing(t.Context(), cloud.BalancerChange{Verb: cloud.Register, Group: cloud.TargetGroup{ID: "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/a/0"}})
	wantKind(t, err, cloud.Refused)
	_, err = c.Details(t.Context(), []string{"arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/a/*"})
	wantKind(t, err, cloud.Refused)
	if n := f.Count(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestBalancersShareBudgets: all reads of balancers share one bucket, and all changes another.
func TestBalancersShareBudgets(t *testing.T) {
	f, c := newBalancing(t)
	s := expose(t, f, c, "web")
	f.Inject(awstest.Fault{Action: describeListeners, Times: 1, Answer: &awstest.Error{Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"}})
	if _, err := c.Details(t.Context(), []string{s.balancer}); err != nil {
		t.Fatal(err)
	}
	if part := c.limiter.Scale(readsOfBalancers); part == 1 {
		t.Error("no slower after ThrottlingException")
	}
	if part := c.limiter.Scale(changesOfBalancers); part != 1 {
		t.Errorf("changes are slower, too: %v", part)
	}
	q, err := c.BalancerQuota(t.Context())
	if want := (cloud.BalancerQuota{Balancers: 50, Groups: 3000, Listeners: 50, Targets: 500, Rules: 60}); err != nil || q != want {
		t.Errorf("%+v, %v", q, err)
	}
}

// The quota of rules is the account's. The default is assumed only while it was never read,
// and the reason is told.
func TestQuotaOfRulesIsRead(t *testing.T) {
	f, c := newBalancing(t)
	f.Set(func(s *awstest.Settings) { s.RulesPerGroup = 130 })
	allow := func(yes bool) {
		f.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{getQuota: !yes} })
	}
	want := func(rules int, assumed string) {
		t.Helper()
		q, err := c.BalancerQuota(t.Context())
		if err != nil || q.Balancers != 50 || q.Rules != rules || !strings.Contains(q.Assumed, assumed) || (q.Assumed == "") != (assumed == "") {
			t.Errorf("%+v, %v; want %d, %q", q, err, rules, assumed)
		}
	}
	allow(false)
	want(60, "allow servicequotas:GetServiceQuota")
	allow(true)
	want(130, "")
	allow(false)
	want(130, "")
	allow(true)
	f.Set(func(s *awstest.Settings) { s.RulesPerGroup = 0 })
	want(130, "")
}
