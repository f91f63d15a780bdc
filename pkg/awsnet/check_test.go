package awsnet

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestCompleteDividesTheVPC(t *testing.T) {
	for _, test := range []struct{ name, spec, want string }{
		{"a /24 into six /27", "network: {vpc: {cidrBlock: 10.0.0.0/24}}", `
public us-east-1a 10.0.0.0/27
private us-east-1a 10.0.0.96/27
public us-east-1b 10.0.0.32/27
private us-east-1b 10.0.0.128/27
public us-east-1c 10.0.0.64/27
private us-east-1c 10.0.0.160/27`},
		{"dual-stack", "network: {vpc: {ipv6: {}, availabilityZoneUsageLimit: 2}}", `
public us-east-1a 10.0.0.0/18 1
private us-east-1a 10.0.128.0/18 3
public us-east-1b 10.0.64.0/18 2
private us-east-1b 10.0.192.0/18 4`},
		{"a block of the account", "network: {vpc: {ipv6: {cidrBlock: '2001:db8:1234:ab00::/56', poolId: ipv6pool-ec2-0123abcd}, availabilityZoneUsageLimit: 1}}", `
public us-east-1a 10.0.0.0/17 02001:db8:1234:ab00::/64
private us-east-1a 10.0.128.0/17 02001:db8:1234:ab01::/64`},
		{"large private subnets", "network: {vpc: {cidrBlock: 10.0.0.0/24, subnetSchema: PreferPrivate}}", `
public us-east-1a 10.0.0.0/28
private us-east-1a 10.0.0.64/26
public us-east-1b 10.0.0.16/28
private us-east-1b 10.0.0.128/26
public us-east-1c 10.0.0.32/28
private us-east-1c 10.0.0.192/26`},
		{"large public subnets", "network: {vpc: {cidrBlock: 10.0.0.0/24, subnetSchema: PreferPublic, availabilityZoneUsageLimit: 1}}", `
public us-east-1a 10.0.0.128/25
private us-east-1a 10.0.0.0/25`},
		{"listed, with the free parts of the VPC's IPv6", `
network:
  vpc: {cidrBlock: 10.0.0.0/16, ipv6: {}, secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}]}
  subnets:
  - {id: a, availabilityZone: us-east-1a, cidrBlock: 10.0.0.0/28, isPublic: true, isIpv6: true}
  - {id: b, availabilityZone: us-east-1a, isIpv6: true}
  - {id: c, availabilityZone: us-east-1-bos-1a, cidrBlock: 100.64.0.0/20}`, `
public us-east-1a 10.0.0.0/28 1
private us-east-1a invalid Prefix 2
private us-east-1-bos-1a 100.64.0.0/20`},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := networkOf(t, test.spec)
			if got := blocksOf(n); got != strings.TrimSpace(test.want) {
				t.Errorf("got\n%s\nwant%s", got, test.want)
			}
			if again := networkOf(t, test.spec); !reflect.DeepEqual(n, again) {
				t.Error("the same spec gives another network")
			}
		})
	}
}

func TestCompleteKeepsTheZonesOfSubnetsThatExist(t *testing.T) {
	o := Owner{Cluster: "prod", UID: "uid"}
	var account Account
	for _, zone := range []string{"us-east-1b", "us-east-1c", "us-east-1d"} {
		name := filledName(o, true, zone)
		account.Found = append(account.Found, Found{ID: "subnet-" + zone, Object: Subnet{Zone: zone}, Tags: map[string]string{o.Tag(): owned, UIDTag: o.UID, PartTag: "subnet/" + name}})
	}
	s := Spec{Cluster: o.Cluster, UID: o.UID, Region: "us-east-1"}
	impaired := slices.Clone(zones)
	impaired[2].Usable = false
	n, problems := Complete(s, Prefer(impaired, o, account))
	if len(problems) > 0 || n.Subnets[0].Zone != "us-east-1b" || n.Subnets[5].Zone != "us-east-1d" {
		t.Error(problems, blocksOf(n))
	}
	n, _ = Complete(s, Prefer(impaired, Owner{Cluster: "prod", UID: "another"}, account))
	if n.Subnets[0].Zone != "us-east-1a" {
		t.Error("subnets of another cluster count", blocksOf(n))
	}
}

// TestRandomZonesStay shows that a cluster's zones are the same whenever its spec is
// read, and that other clusters have other zones.
func TestRandomZonesStay(t *testing.T) {
	seen := make(map[string]bool)
	for _, uid := range []string{"a", "b", "c", "d", "e", "f"} {
		s := specOf(t, "network: {vpc: {availabilityZoneUsageLimit: 1, availabilityZoneSelection: Random}}")
		s.UID = uid
		n, _ := Complete(s, zones)
		reversed := slices.Clone(zones)
		slices.Reverse(reversed)
		again, _ := Complete(s, reversed)
		if !reflect.DeepEqual(n, again) {
			t.Errorf("%s and then %s", blocksOf(n), blocksOf(again))
		}
		seen[n.Subnets[0].Zone] = true
	}
	if len(seen) < 2 {
		t.Error("all clusters have one zone")
	}
}

func TestWrongSpecsAreRefusedWithTheValueAndTheFix(t *testing.T) {
	subnets := func(lines ...string) string {
		return "network:\n  vpc: {cidrBlock: 10.0.0.0/16}\n  subnets:\n  - " + strings.Join(lines, "\n  - ")
	}
	const public = "{id: pub, availabilityZone: us-east-1a, cidrBlock: 10.0.9.0/24, isPublic: true}"
	for _, test := range []struct{ spec, want string }{
		{"network: {vpc: {cidrBlock: 10.0.0.0/8}}", "spec.network.vpc.cidrBlock: 10.0.0.0/8: AWS allows /16 to /28"},
		{"network: {vpc: {cidrBlock: 10.0.0.1/16}}", "10.0.0.1/16 has host bits; use 10.0.0.0/16"},
		{"network: {vpc: {cidrBlock: 10.0.0.0/26}}", "too small for public and private subnets in 3 zones"},
		{"network: {vpc: {cidrBlock: 127.0.0.0/16}}", "is reserved; use a part of"},
		{"network: {vpc: {cidrBlock: 'fd00::/56'}}", "is no block of IPv4"},
		{"network: {vpc: {secondaryCidrBlocks: [{ipv4CidrBlock: 10.0.128.0/20}]}}", "secondaryCidrBlocks[0].ipv4CidrBlock: 10.0.128.0/20 overlaps 10.0.0.0/16"},
		{"network: {vpc: {secondaryCidrBlocks: [{ipv4CidrBlock: 192.168.0.0/20}]}}", "use one of 10.0.0.0/8 or 100.64.0.0/10"},
		{"network: {vpc: {ipamPool: {id: x}}}", "ipamPool: pools of the address manager are not supported; give cidrBlock"},
		{"network: {vpc: {ipv6: {cidrBlock: '2001:db8::/56'}}}", "needs poolId"},
		{"network: {vpc: {ipv6: {cidrBlock: '2001:db8::/57', poolId: ipv6pool-ec2-0123abcd}}}", "AWS allows /44, /48"},
		{"network: {vpc: {availabilityZoneUsageLimit: 0}}", "availabilityZoneUsageLimit: 0; use 1 or more"},
		{"network: {vpc: {availabilityZoneSelection: Best}}", "use Ordered or Random"},
		{"network: {vpc: {subnetSchema: Odd}}", "use Equal, PreferPrivate or PreferPublic"},
		{"network: {vpc: {id: vpc-0123abcd}}", "vpc-0123abcd is not this cluster's; list its subnets"},
		{"network: {vpc: {id: net-1}}", "is no ID of a VPC"},
		{"network: {vpc: {privateDnsHostnameTypeOnLaunch: x}}", "use ip-name or resource-name"},
		{"network: {vpc: {tags: {'aws:x': v}}}", "is AWS's or this program's; remove it"},
		{"additionalTags: {'a<b': v}", "is no key of a tag"},
		{subnets(public, "{id: b, availabilityZone: us-east-1a, cidrBlock: 10.1.0.0/24}"), "subnets[1].cidrBlock: 10.1.0.0/24 is outside the VPC's blocks, 10.0.0.0/16"},
		{subnets(public, "{id: b, availabilityZone: us-east-1a, cidrBlock: 10.0.9.128/25}"), "subnets[1].cidrBlock: 10.0.9.128/25 overlaps 10.0.9.0/24 of network.subnets[0]"},
		{subnets(public, "{id: b, availabilityZone: eu-west-1a, cidrBlock: 10.0.1.0/24}"), `"eu-west-1a" is no zone of us-east-1; use one of us-east-1a, us-east-1b`},
		{subnets(public, "{id: b, availabilityZone: us-east-1e, cidrBlock: 10.0.1.0/24}"), "cannot use us-east-1e; opt in"},
		{subnets(public, "{id: b, availabilityZone: us-east-1a, cidrBlock: 10.0.1.0/29}"), "AWS allows /16 to /28"},
		{subnets(public, "{id: b, availabilityZone: us-east-1a}"), "subnets[1].cidrBlock: empty"},
		{subnets(public, "{id: b, availabilityZone: us-east-1a, isIpv6: true}"), "the VPC has no IPv6"},
		{subnets(public, "{id: pub, availabilityZone: us-east-1a, cidrBlock: 10.0.1.0/24}"), "is also that of network.subnets[0]"},
		{subnets("{id: b, availabilityZone: us-east-1a, cidrBlock: 10.0.1.0/24}"), "or natGateways: None"},
		{"natGateways: None\n" + subnets("{id: b, availabilityZone: us-east-1a, cidrBlock: 10.0.1.0/24}"), "no public subnet in an availability zone for a public load balancer"},
		{"natGateways: Two", "use PerZone, Single or None"},
		{"gatewayEndpoints: [ec2]", "AWS has them for s3 and dynamodb"},
		{"controlPlaneLoadBalancer: {loadBalancerType: classic}", "use nlb, or disabled for none"},
		{"controlPlaneLoadBalancer: {scheme: public}", "use internet-facing or internal"},
		{"controlPlaneLoadBalancer: {name: 'internal-x'}", "not internal- at the beginning"},
		{"controlPlaneLoadBalancer: {additionalListeners: [{port: 6443}]}", "6443 has a listener already"},
		{"controlPlaneLoadBalancer: {additionalListeners: [{port: 0}]}", "use 1 to 65535"},
		{"controlPlaneLoadBalancer: {subnets: [nowhere]}", "is no subnet of network.subnets and no ID"},
		{"controlPlaneLoadBalancer: {healthCheck: {intervalSeconds: 5, timeoutSeconds: 10}}", "timeoutSeconds: 10 is more than intervalSeconds, 5"},
		{"controlPlaneLoadBalancer: {targetGroupIPType: ipv6}", "the VPC has none"},
		{"controlPlaneLoadBalancer: {targetGroupIPType: ipv6}\nnetwork: {vpc: {ipv6: {}}, subnets: [{id: pub, availabilityZone: us-east-1a, cidrBlock: 10.0.9.0/24, isPublic: true}]}", "a subnet of the load balancer has none"},
		{"controlPlaneLoadBalancer: {loadBalancerType: disabled}\nsecondaryControlPlaneLoadBalancer: {}", "there is no first one"},
		{"network: {securityGroupOverrides: {master: sg-0123abcd}}", "is no role; use one of bastion"},
		{"network: {securityGroupOverrides: {node: abc}}", "is no ID of a security group"},
		{"network: {additionalNodeIngressRules: [{description: x, protocol: tcp, fromPort: 1, toPort: 2}]}", "has no source"},
		{"network: {additionalNodeIngressRules: [{description: x, protocol: sctp, fromPort: 1, toPort: 2, cidrBlocks: [10.0.0.0/8]}]}", "use tcp, udp, icmp"},
		{"network: {additionalNodeIngressRules: [{description: x, protocol: tcp, fromPort: 3, toPort: 2, cidrBlocks: [10.0.0.0/8]}]}", "3 to 2; use 0 to 65535, the lower one first"},
		{"network: {additionalNodeIngressRules: [{description: x, protocol: tcp, fromPort: 1, toPort: 2, cidrBlocks: ['fd00::/8']}]}", "is of the other family"},
		{"natGateways: None\nnetwork: {additionalNodeIngressRules: [{description: x, protocol: tcp, fromPort: 1, toPort: 2, natGatewaysIPsSource: true}]}", "the network has no NAT gateways"},
		{"bastion: {enabled: true, disableIngressRules: true, allowedCIDRBlocks: [10.0.0.0/8]}", "remove one of them"},
		{"bastion: {enabled: true, instanceType: big}", "is no instance type"},
		{"bastion: {enabled: true, ami: ubuntu}", "is no image"},
	} {
		problems := Check(specOf(t, test.spec), zones)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), test.want) }) {
			t.Errorf("%s\ngot %v, want %s", test.spec, problems, test.want)
		}
	}
}

// TestAllProblemsAtOnce shows that Check reports all mistakes, not only the first.
func TestAllProblemsAtOnce(t *testing.T) {
	s := specOf(t, "natGateways: Two\nbastion: {enabled: true, ami: x}\ncontrolPlaneLoadBalancer: {scheme: x}\nnetwork: {vpc: {cidrBlock: 10.0.0.0/8}}")
	s.Cluster, s.UID, s.Region = "Prod", "", "mars"
	if problems := Check(s, zones); len(problems) != 7 {
		t.Errorf("%d problems: %v", len(problems), problems)
	}
}
