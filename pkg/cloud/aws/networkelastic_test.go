package aws

import (
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestNetworkBalancerHasItsAddresses builds a network whose addresses come from the account's
// own pool. The load balancer gets them, and releases them before the plan deletes them.
func TestNetworkBalancerHasItsAddresses(t *testing.T) {
	l := newNetworkLab(t)
	l.fake.Set(func(s *awstest.Settings) { s.Addresses = 10 })
	const spec = `
network:
  vpc: {cidrBlock: 10.0.0.0/16, availabilityZoneUsageLimit: 3, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-0123abcd}}
`
	l.converge(spec)
	h := l.ours(spec)
	balancer := l.find(h, awsnet.KindBalancer, "").Object.(awsnet.Balancer)
	if n := len(balancer.Elastic.All()); n != 3 {
		t.Errorf("the load balancer has %d addresses: %v", n, balancer.Elastic)
	}
	for k, f := range h.Ours {
		if k.Kind == awsnet.KindAddress && f.Given.UsedBy == "" {
			t.Errorf("%s is not in use", k)
		}
	}
	p := awsnet.Destroy(l.owner, l.read(l.scope()), false)
	for _, s := range p.Steps {
		if r := balancer.Elastic.All(); s.Verb == awsnet.Delete && slices.ContainsFunc(r, func(r awsnet.Ref) bool { return r.Key == s.Key }) &&
			!slices.ContainsFunc(s.Needs, func(n awsnet.StepID) bool { return n.Key.Kind == awsnet.KindBalancer }) {
			t.Errorf("%s does not wait for the load balancer", s.Summary)
		}
	}
	l.destroy()
	if left := l.owned(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
