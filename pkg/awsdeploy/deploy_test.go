package awsdeploy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestBuildsAndDestroys builds a network in three zones, finds nothing to do, and deletes it.
func TestBuildsAndDestroys(t *testing.T) {
	l := newLab(t)
	r := l.build(threeZones)
	t.Logf("%d steps, %d calls: %v", r.Done, l.fake.Count(""), l.fake.Counts())
	if host, port := r.View.Endpoint(); host == "" || port != 6443 {
		t.Errorf("endpoint %s:%d", host, port)
	}
	before := l.changes()
	if r := l.build(threeZones); r.Done != 0 || l.changes() != before {
		t.Errorf("a second run made %d steps", r.Done)
	}
	l.destroy(threeZones)
	before = l.changes()
	if l.destroy(threeZones); l.changes() != before {
		t.Error("a second deletion changed something")
	}
}

// TestQuotasAreCheckedFirst: nothing begins if a quota does not suffice, and the error has the
// numbers.
func TestQuotasAreCheckedFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for range 4 {
		if _, err := l.fake.Do("AllocateAddress", "Domain", "vpc"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.deployer().Build(t.Context(), l.spec(threeZones))
	short, is := errors.AsType[awsdeploy.QuotaError](err)
	if !is || len(short.Short()) != 1 || !strings.Contains(err.Error(), "elastic addresses per region: the limit is 5, 4 are used, and 3 more are needed; raise the quota L-0263D0A3") {
		t.Fatalf("%v", err)
	}
	if n := l.changes(); n != 0 {
		t.Errorf("%d changes", n)
	}
	// The account has more than AWS's default.
	l.fake.Set(func(s *awstest.Settings) { s.Addresses = 7 })
	l.build(threeZones)
}

// TestQuotaHitHalfWay: another program takes what was free. Everything that does not need it is
// made, and the next run completes the network.
func TestQuotaHitHalfWay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.fake.Set(func(s *awstest.Settings) { s.Addresses = 2 })
	_, err := l.deployer().Build(t.Context(), l.spec(threeZones))
	if text := failures(t, err); strings.Count(text, "\n") != 0 || !strings.Contains(text, "address/nat-") || !strings.Contains(text, "L-0263D0A3") {
		t.Errorf("%v", err)
	}
	if e, _ := errors.AsType[*awsdeploy.RunError](err); e == nil || e.Left != 3 || len(e.View.Plan.Steps) != 3 {
		t.Errorf("%v", err)
	}
	l.fake.Set(func(s *awstest.Settings) { s.Addresses = 5 })
	if r := l.build(threeZones); r.Done != 3 {
		t.Errorf("%d steps", r.Done)
	}
	l.destroy(threeZones)
}

// TestDeniedCallIsNamed: without one permission, the error names it, and the rest is made.
func TestDeniedCallIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.fake.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{"CreateNatGateway": true} })
	_, err := l.deployer().Build(t.Context(), l.spec(threeZones))
	if text := failures(t, err); strings.Count(text, "allow ec2:CreateNatGateway") != 3 {
		t.Errorf("%v", err)
	}
	l.fake.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{"DescribeNatGateways": true} })
	if _, err = l.deployer().Build(t.Context(), l.spec(threeZones)); err == nil || !strings.Contains(err.Error(), "allow ec2:DescribeNatGateways") {
		t.Errorf("%v", err)
	}
	l.fake.ChangeKey(func(k *awstest.Key) { k.Denied = nil })
	l.build(threeZones)
}

// TestLagMakesNothingTwice: AWS shows new objects late, to reads and to writes.
func TestLagMakesNothingTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.fake.Set(func(s *awstest.Settings) { s.Lag, s.LagWrites = 300*time.Millisecond, true })
	l.build(oneZone)
	l.fake.Set(func(s *awstest.Settings) { s.Lag = 0 })
	l.destroy(oneZone)
}

// TestThrottlingOnlyDelays: AWS throttles calls of every kind.
func TestThrottlingOnlyDelays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, action := range []string{"CreateSubnet", "DescribeVpcs", "CreateLoadBalancer", "AllocateAddress"} {
		l.fake.Inject(awstest.Fault{Action: action, Times: 1, Answer: awstest.Throttled})
	}
	l.build(threeZones)
}

// TestDestroyNamesBlockers: an interface of another program keeps its subnet, and what that needs.
// Everything else is deleted, and the rest once the interface is gone.
func TestDestroyNamesBlockers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.build(oneZone)
	subnet := r.View.Holding.ID(awsnet.Key{Kind: awsnet.KindSubnet, Name: "prod-subnet-private-" + awstest.Region + "a"})
	id := l.do("CreateNetworkInterface", "networkInterfaceId", "SubnetId", subnet, "Description", "of another program")
	o := l.fast()
	o.Linger = 100 * time.Millisecond
	_, err := awsdeploy.New(l.client(), o).Destroy(t.Context(), awsdeploy.EndOf(l.spec(oneZone), false))
	open, is := errors.AsType[*awsdeploy.OpenError](err)
	if !is || len(open.Blocked) < 2 || !strings.Contains(err.Error(), subnet+" is held by "+id+" (of another program)") {
		t.Fatalf("%v", err)
	}
	if tables := len(l.fake.Tables()); tables > 3 { // each VPC has a main one; that of the subnet may stay
		t.Errorf("%d route tables", tables)
	}
	l.do("DeleteNetworkInterface", "", "NetworkInterfaceId", id)
	l.destroy(oneZone)
}

// TestDestroyLeavesOtherClusters: a network of the same name and another UID stays as it is.
func TestDestroyLeavesOtherClusters(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.build(oneZone)
	before := l.changes()
	other := l.spec(oneZone)
	other.UID = "another"
	r, err := l.deployer().Destroy(t.Context(), awsdeploy.EndOf(other, true))
	if r.Done > 0 || l.changes() != before {
		t.Errorf("%d steps, %v", r.Done, err)
	}
	l.destroy(oneZone)
}

// TestLeftoversOfServices: what the cloud controllers left is named, and deleted only if asked to.
func TestLeftoversOfServices(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.build(oneZone)
	subnet := r.View.Holding.ID(awsnet.Key{Kind: awsnet.KindSubnet, Name: "prod-subnet-public-" + awstest.Region + "a"})
	l.do("CreateLoadBalancer", "", "Name", "a1b2c3", "Type", "network", "Subnets.member.1", subnet,
		"Tags.member.1.Key", "kubernetes.io/cluster/prod", "Tags.member.1.Value", "owned", "Tags.member.2.Key", "kubernetes.io/service-name", "Tags.member.2.Value", "default/web")
	o := l.fast()
	o.Linger = 100 * time.Millisecond
	_, err := awsdeploy.New(l.client(), o).Destroy(t.Context(), awsdeploy.EndOf(l.spec(oneZone), false))
	if err == nil || !strings.Contains(err.Error(), "made for service default/web") {
		t.Fatalf("%v", err)
	}
	if r, err := l.deployer().Destroy(t.Context(), awsdeploy.EndOf(l.spec(oneZone), true)); err != nil || !r.View.Done() {
		t.Fatalf("%v", err)
	}
	l.wantNothing()
}

// TestGarbageIsRefusedBeforeTheFirstCall refuses specs with the value and the fix.
func TestGarbageIsRefusedBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for spec, want := range map[string]string{
		"network: {vpc: {cidrBlock: 10.0.0.5/24}}": "10.0.0.5/24 has host bits; use 10.0.0.0/24",
		"network: {vpc: {cidrBlock: 10.0.0.0/24}, subnets: [{id: a, cidrBlock: 10.1.0.0/24, availabilityZone: eu-central-1a}]}": "outside the VPC's blocks",
		"network: {vpc: {cidrBlock: 10.0.0.0/24}, subnets: [{id: a, cidrBlock: 10.0.0.0/25, availabilityZone: us-east-1a}]}":    `"us-east-1a" is no zone of eu-central-1`,
		"controlPlaneLoadBalancer: {scheme: public}": `"public"; use internet-facing or internal`,
		"natGateways: Two":                           `"Two"; use PerZone, Single or None`,
	} {
		if _, err := l.deployer().Build(t.Context(), l.spec(spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if n := l.fake.Count(""); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// TestInterruptedRunSaysWhatIsLeft: the calls in flight end, no other begins, and the next run does
// the rest.
func TestInterruptedRunSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.fake.Set(func(s *awstest.Settings) { s.Latency = map[string]time.Duration{"CreateSubnet": 50 * time.Millisecond} })
	l.fake.Inject(awstest.Fault{Action: "CreateSubnet", When: func(awstest.Call) bool { cancel(); return false }})
	r, err := l.deployer().Build(ctx, l.spec(threeZones))
	if err == nil || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(err.Error(), "left to do") || r.Left == 0 {
		t.Fatalf("%v", err)
	}
	for _, c := range l.called {
		if c.Err != nil {
			t.Errorf("%s: %v", c.Call, c.Err)
		}
	}
	before := l.changes()
	l.build(threeZones)
	if n := l.changes(); before+n == 0 || l.fake.Count("CreateSubnet") != 6 || l.fake.Count("CreateVpc") != 1 {
		t.Errorf("%d subnets, %d VPCs", l.fake.Count("CreateSubnet"), l.fake.Count("CreateVpc"))
	}
}
