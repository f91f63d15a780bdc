package awsnet_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// specs are the networks that tests create, change and delete.
var specs = map[string]string{
	"three zones": "network: {vpc: {cidrBlock: 10.0.0.0/24}}",
	"everything": `
network:
  vpc: {cidrBlock: 10.0.0.0/16, ipv6: {}, secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}], emptyRoutesDefaultVPCSecurityGroup: true, privateDnsHostnameTypeOnLaunch: resource-name}
  subnets:
  - {id: pub-a, availabilityZone: us-east-1a, cidrBlock: 10.0.0.0/24, isPublic: true, isIpv6: true}
  - {id: pub-b, availabilityZone: us-east-1b, cidrBlock: 10.0.1.0/24, isPublic: true, isIpv6: true}
  - {id: priv-a, availabilityZone: us-east-1a, cidrBlock: 10.0.2.0/24, isIpv6: true}
  - {id: priv-b, availabilityZone: us-east-1b, isIpv6: true}
  - {id: priv-c, availabilityZone: us-east-1c, cidrBlock: 10.0.4.0/24}
  - {id: pods, availabilityZone: us-east-1a, cidrBlock: 100.64.0.0/20, tags: {sigs.k8s.io/cluster-api-provider-aws/association: secondary}}
  - {id: edge, availabilityZone: us-east-1-bos-1a, cidrBlock: 10.0.5.0/24}
  - {id: wave, availabilityZone: us-east-1-wl1-bos-wlz-1, cidrBlock: 10.0.6.0/24, isPublic: true}
  additionalNodeIngressRules:
  - {description: from NAT, protocol: tcp, fromPort: 443, toPort: 443, natGatewaysIPsSource: true}
bastion: {enabled: true}
controlPlaneLoadBalancer: {crossZoneLoadBalancing: true, ingressRules: [{description: office, protocol: tcp, fromPort: 6443, toPort: 6443, cidrBlocks: [192.0.2.0/24]}], additionalListeners: [{port: 8132}]}
secondaryControlPlaneLoadBalancer: {}
additionalTags: {team: net}`,
	"small": `
network:
  vpc: {cidrBlock: 10.0.0.0/24, ipv6: {}, availabilityZoneUsageLimit: 1}
bastion: {enabled: true}`,
	"public alone":                     "natGateways: None\ngatewayEndpoints: []\ncontrolPlaneLoadBalancer: {loadBalancerType: disabled}\nnetwork:\n  subnets:\n  - {id: a, availabilityZone: us-east-1a, cidrBlock: 10.0.0.0/24, isPublic: true}",
	"private alone":                    "natGateways: None\ncontrolPlaneLoadBalancer: {scheme: internal}\nnetwork:\n  subnets:\n  - {id: a, availabilityZone: us-east-1a, cidrBlock: 10.0.0.0/24}",
	"a block of a pool of the account": "network: {vpc: {cidrBlock: 10.0.0.0/24, ipv6: {poolId: ipv6pool-ec2-0123abcd}}}",
	"addresses of the account":         "network: {vpc: {cidrBlock: 10.0.0.0/24, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-0123abcd}}}",
	"one gateway":                      "natGateways: Single\nnetwork: {vpc: {cidrBlock: 10.0.0.0/24}}",
}

func TestApplyAndDestroyInAnyOrder(t *testing.T) {
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				w := newWorld(t, seed)
				want := w.want(spec)
				w.apply(want)
				w.exact(want)
				if p := w.apply(want); len(p.Foreign) > 0 || len(p.Problems) > 0 {
					t.Errorf("%v %v", p.Foreign, p.Problems)
				}
				w.destroy(false)
				w.empty()
			}
		})
	}
}

// TestCallsOfANewNetwork counts the calls that create a network in three zones, each
// step's once.
func TestCallsOfANewNetwork(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want(specs["three zones"])
	p := awsnet.Diff(w.owner, want, w.account.Read())
	if n := p.Calls(); n > 66 {
		t.Errorf("%d calls:\n%s", n, summaries(p))
	} else {
		t.Logf("%d calls, %d steps", n, len(p.Steps))
	}
}

// TestKilledAtEveryCall kills the process before the answer of each call, during
// creation and deletion. After every second kill, the account does not show the new
// object at once. The test takes some seconds, because each call needs a network of its
// own.
func TestKilledAtEveryCall(t *testing.T) {
	w := newWorld(t, 0)
	want := w.want(specs["small"])
	w.apply(want)
	for at := range w.calls {
		killedAt(t, want, at, at%2 == 0)
	}
	t.Logf("killed at each of %d calls", w.calls)
}

// TestKilledInALargeNetwork does the same at every fifth call.
func TestKilledInALargeNetwork(t *testing.T) {
	w := newWorld(t, 0)
	want := w.want(specs["everything"])
	w.apply(want)
	for at := 0; at < w.calls; at += 5 {
		killedAt(t, want, at, at%2 == 0)
	}
	t.Logf("killed in %d calls", w.calls)
}

func killedAt(t *testing.T, want map[awsnet.Key]awsnet.Wanted, at int, loose bool) {
	w := newWorld(t, uint64(at))
	w.crash, w.loose = at, loose
	w.apply(want)
	w.exact(want)
	w.crash = at
	w.destroy(false)
	w.empty()
	if t.Failed() {
		t.Fatalf("killed at call %d, hidden %v", at, loose)
	}
}

// TestChangesOfASpec changes a network into another one, and back.
func TestChangesOfASpec(t *testing.T) {
	for _, test := range []struct{ name, from, to string }{
		{"to one NAT gateway", specs["three zones"], specs["one gateway"]},
		{"to a NAT gateway in each zone", specs["one gateway"], specs["three zones"]},
		{"to none", specs["three zones"], "natGateways: None\nnetwork: {vpc: {cidrBlock: 10.0.0.0/24}}"},
		{"with a bastion and a listener", specs["three zones"], specs["three zones"] + "\nbastion: {enabled: true}\ncontrolPlaneLoadBalancer: {additionalListeners: [{port: 8132}]}"},
		{"without a balancer", specs["three zones"], specs["three zones"] + "\ncontrolPlaneLoadBalancer: {loadBalancerType: disabled}"},
		{"with IPv6", specs["three zones"], "network: {vpc: {cidrBlock: 10.0.0.0/24, ipv6: {}}}"},
		{"with another health check", specs["three zones"], specs["three zones"] + "\ncontrolPlaneLoadBalancer: {healthCheckProtocol: HTTPS, preserveClientIP: true, crossZoneLoadBalancing: true}"},
		{"another bastion", specs["three zones"] + "\nbastion: {enabled: true}", specs["three zones"] + "\nbastion: {enabled: true, instanceType: t3.small}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(4) {
				w := newWorld(t, seed)
				w.apply(w.want(test.from))
				want := w.want(test.to)
				if p := w.apply(want); len(p.Problems) > 0 {
					t.Error(p.Problems)
				}
				w.exact(want)
				back := w.want(test.from)
				w.apply(back)
				w.destroy(false)
				w.empty()
			}
		})
	}
}

// TestHealsWhateverPeopleDelete deletes some of the objects that AWS lets people
// delete, and adds foreign ones.
func TestHealsWhateverPeopleDelete(t *testing.T) {
	w := newWorld(t, 0)
	want := w.want(specs["small"])
	for seed := range uint64(25) {
		w := newWorld(t, seed)
		w.apply(want)
		for range 1 + w.rnd.IntN(12) {
			found := w.account.Read().Found
			w.account.Delete(found[w.rnd.IntN(len(found))].ID)
		}
		var foreign []string
		for _, id := range w.account.IDs(awsnet.KindRouteTable) {
			foreign = append(foreign, w.account.Put(awsnet.Route{Table: awsnet.Foreign(id), To: netip.MustParsePrefix("100.64.7.0/24"), Via: awsnet.Foreign("eni-f0000001")}, nil))
		}
		w.apply(want)
		w.exact(want)
		for _, id := range foreign {
			if w.account.Get(id).ID == "" {
				t.Errorf("%s is gone", id)
			}
		}
		w.destroy(false)
		w.empty()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestPlansAreTheSameEachTime shows that a plan does not depend on the order of maps.
func TestPlansAreTheSameEachTime(t *testing.T) {
	for name, spec := range specs {
		w := newWorld(t, 1)
		want := w.want(spec)
		w.crash = 15
		a := w.account.Read()
		w.pass(awsnet.Diff(w.owner, want, a))
		a = w.account.Read()
		first, last := awsnet.Diff(w.owner, want, a), awsnet.Destroy(w.owner, a, false)
		for range 4 {
			if again := awsnet.Diff(w.owner, want, a); !reflect.DeepEqual(first, again) {
				t.Fatalf("%s:\n%s\nand then\n%s", name, summaries(first), summaries(again))
			}
			if again := awsnet.Destroy(w.owner, a, false); !reflect.DeepEqual(last, again) {
				t.Fatalf("%s:\n%s\nand then\n%s", name, summaries(last), summaries(again))
			}
		}
	}
}

// TestDefaultGroupIsEmptied shows the only change of an object that AWS made.
func TestDefaultGroupIsEmptied(t *testing.T) {
	w := newWorld(t, 2)
	rules := func() (n int) {
		for _, id := range w.account.IDs(awsnet.KindRule) {
			if owner := w.account.Get(w.account.Get(id).Object.(awsnet.Rule).Owner.ID); owner.Fixed {
				n++
			}
		}
		return n
	}
	w.apply(w.want("network: {vpc: {cidrBlock: 10.0.0.0/24}}"))
	if n := rules(); n != 1 {
		t.Errorf("the default group has %d rules", n)
	}
	w.apply(w.want("network: {vpc: {cidrBlock: 10.0.0.0/24, emptyRoutesDefaultVPCSecurityGroup: true}}"))
	if n := rules(); n != 0 {
		t.Errorf("the default group has %d rules", n)
	}
}
