package awstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// want fails the test if a call said something else.
func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}

// balanced returns a server whose VPC has a balancer in the zones a and b, with a listener
// to a group with three instances in zone a.
func balanced(t *testing.T) (*awstest.Server, *world) {
	f, w := fresh(t)
	w.ids["b"], w.ids["c"] = f.Default().Subnets[1], f.Default().Subnets[2]
	want(t, "a group", w.group("sg", "vpc"), "ok")
	want(t, "a balancer", w.balanceAs("lb", func(in *elb.CreateLoadBalancerInput) {
		in.Subnets, in.SecurityGroups = w.idsOf("a", "b"), w.idsOf("sg")
	}), "provisioning")
	want(t, "a target group", w.targetGroup("tg", "vpc", tcp, 30080), "ok")
	want(t, "a listener", w.listen("lb", tcp, 80, "tg"), "ok")
	want(t, "targets", w.register("tg", "i1", "i2", "i3"), "ok")
	for i := range 3 {
		name := fmt.Sprint("i", i+1)
		w.names[w.ids[name]] = name
	}
	return f, w
}

// The interfaces of a deleted balancer hold its security group for a while.
func TestDeletedBalancerHoldsItsGroup(t *testing.T) {
	f, w := balanced(t)
	f.Set(func(s *awstest.Settings) { s.Linger = 5 * time.Minute })
	want(t, "deleted", w.unbalance("lb"), "ok")
	want(t, "at once", w.deleteGroup("sg"), "DependencyViolation")
	want(t, "its target group at once", w.dropTargetGroup("tg"), "ok")
	f.Advance(4 * time.Minute)
	want(t, "too early", w.deleteGroup("sg"), "DependencyViolation")
	f.Advance(time.Minute)
	want(t, "in the end", w.deleteGroup("sg"), "ok")
	if len(f.Balancers()) != 0 || len(f.TargetGroups()) != 0 {
		t.Errorf("%+v, %+v", f.Balancers(), f.TargetGroups())
	}
}

func TestBalancerBecomesActive(t *testing.T) {
	f, w := fresh(t)
	f.Set(func(s *awstest.Settings) { s.Provision, s.Lag = 3*time.Minute, 10*time.Second })
	want(t, "a balancer", w.balance("lb", "a"), "provisioning")
	want(t, "not seen yet", w.balancer("lb"), "LoadBalancerNotFound")
	f.Advance(time.Minute)
	w.names[w.ids["vpc"]], w.names[w.ids["a"]] = "vpc", "a"
	want(t, "a minute later", w.balancer("lb"), "network internet-facing ipv4 provisioning vpc [a][]")
	f.Advance(2 * time.Minute)
	want(t, "in the end", w.balancer("lb"), "network internet-facing ipv4 active vpc [a][]")
}

func TestTargetHealth(t *testing.T) {
	f, w := balanced(t)
	f.Set(func(s *awstest.Settings) { s.Health = 30 * time.Second })
	want(t, "at first", w.health("tg", "i1"), "i1:30080 initial Elb.InitialHealthChecking")
	f.Advance(30 * time.Second)
	f.Fail(true, w.ids["i2"])
	f.Stop(w.ids["i3"])
	want(t, "then", w.health("tg"), "i1:30080 healthy, i2:30080 unhealthy Target.FailedHealthChecks, i3:30080 unused Target.InvalidState")
	f.Fail(false, w.ids["i2"])
	f.Terminate(w.ids["i3"])
	want(t, "one terminated", w.health("tg"), "i1:30080 healthy, i2:30080 healthy")
	made := f.Launch(awstest.Launch{Subnet: w.ids["c"]})[0]
	w.ids["far"], w.names[made.ID] = made.ID, "far"
	want(t, "in another zone", w.register("tg", "far"), "ok")
	want(t, "its health", w.health("tg", "far"), "far:30080 unused Target.NotInUse")
	want(t, "across zones", w.setAttribute("lb", crossZone, "true"), "ok")
	f.Advance(30 * time.Second)
	want(t, "its health then", w.health("tg", "far"), "far:30080 healthy")
	want(t, "leaving", w.deregister("tg", "i1", "i2"), "ok")
	want(t, "back", w.register("tg", "i2"), "ok")
	f.Advance(5 * time.Minute)
	want(t, "in the end", w.health("tg"), "far:30080 healthy, i2:30080 healthy")
	if g := f.TargetGroups()[0]; len(g.Targets) != 2 || g.Targets[0].Health != "healthy" {
		t.Errorf("%+v", g)
	}
}

func TestInstancesThatCannotBeTargets(t *testing.T) {
	f, w := balanced(t)
	f.Set(func(s *awstest.Settings) { s.TargetsPerZone = 3 })
	i := f.Launch(awstest.Launch{})[0]
	w.ids["new"] = i.ID
	want(t, "one too many", w.register("tg", "new"), "TooManyTargets")
	f.Set(func(s *awstest.Settings) { s.TargetsPerZone = 500 })
	f.Stop(i.ID)
	want(t, "one that is stopped", w.register("tg", "new"), "InvalidTarget")
	other := f.AddNetwork("10.9.0.0/16", 20, false)
	w.ids["new"] = f.Launch(awstest.Launch{Subnet: other.Subnets[0]})[0].ID
	want(t, "one in another VPC", w.register("tg", "new"), "InvalidTarget")
}

func TestAddressesAsTargets(t *testing.T) {
	_, w := balanced(t)
	want(t, "a group", w.targetGroupAs("ips", func(in *elb.CreateTargetGroupInput) {
		in.VpcId, in.Protocol, in.Port, in.TargetType = w.id("vpc"), tcp, aws.Int32(80), types.TargetTypeEnumIp
	}), "ok")
	want(t, "in the VPC", w.register("ips", "172.31.0.9"), "ok")
	want(t, "public", w.register("ips", "1.1.1.1"), "ValidationError")
	want(t, "elsewhere without a zone", w.register("ips", "10.1.2.3"), "ValidationError")
	want(t, "of the other family", w.register("ips", "fd00::1"), "ValidationError")
	want(t, "no address", w.register("ips", "i1"), "ValidationError")
	want(t, "its client's address", w.groupAttribute("ips", "preserve_client_ip.enabled", ""), "false")
	want(t, "its health", w.health("ips"), "172.31.0.9:80 unused Target.NotInUse")
}

func TestTLSListener(t *testing.T) {
	f, w := balanced(t)
	tls := types.ProtocolEnumTls
	with := func(arn string) func(*elb.CreateListenerInput) {
		return func(in *elb.CreateListenerInput) {
			in.Certificates, in.AlpnPolicy = []types.Certificate{{CertificateArn: &arn}}, []string{"HTTP2Preferred"}
		}
	}
	arn := f.AddCertificate()
	want(t, "without a certificate", w.listen("lb", tls, 443, "tg"), "InvalidConfigurationRequest")
	want(t, "one that there is not", w.listenAs("lb", tls, 443, "tg", with(arn+"0")), "CertificateNotFound")
	want(t, "a policy that there is not", w.listenAs("lb", tls, 443, "tg", func(in *elb.CreateListenerInput) {
		with(arn)(in)
		in.SslPolicy = aws.String("no")
	}), "SSLPolicyNotFound")
	want(t, "with one", w.listenAs("lb", tls, 443, "tg", with(arn)), "ok")
	l := f.Balancers()[0].Listeners[1]
	want(t, "what it has", fmt.Sprint(l.Protocol, " ", l.Port, " ", l.Certificate == arn, " ", l.Policy), "TLS 443 true ELBSecurityPolicy-2016-08")
	_, err := w.elb.ModifyListener(w.ctx, &elb.ModifyListenerInput{ListenerArn: w.id("lb:443"), Protocol: tcp})
	want(t, "TCP again", ok(err), "ok")
	if l := f.Balancers()[0].Listeners[1]; l.Protocol != "TCP" || l.Certificate != "" {
		t.Errorf("%+v", l)
	}
	_, err = w.elb.ModifyListener(w.ctx, &elb.ModifyListenerInput{ListenerArn: w.id("lb:443"), Port: aws.Int32(80)})
	want(t, "another one's port", ok(err), "DuplicateListener")
}

func TestDualStackBalancer(t *testing.T) {
	f, w := fresh(t)
	n := f.AddNetwork("10.7.0.0/16", 20, true)
	w.ids["six"] = n.Subnets[0]
	w.ids["vpc"] = n.VPC
	if _, err := w.ec2.CreateInternetGateway(w.ctx, &ec2.CreateInternetGatewayInput{}); err != nil {
		t.Fatal(err)
	}
	igws, err := w.ec2.DescribeInternetGateways(w.ctx, &ec2.DescribeInternetGatewaysInput{})
	if err != nil {
		t.Fatal(err)
	}
	dual := func(in *elb.CreateLoadBalancerInput) {
		in.Subnets, in.IpAddressType = w.idsOf("six"), types.IpAddressTypeDualstack
	}
	want(t, "without a gateway", w.balanceAs("lb", dual), "InvalidSubnet")
	_, err = w.ec2.AttachInternetGateway(w.ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: igws.InternetGateways[1].InternetGatewayId, VpcId: &n.VPC})
	want(t, "a gateway", ok(err), "ok")
	want(t, "with one", w.balanceAs("lb", dual), "provisioning")
	want(t, "a group", w.targetGroup("udp", "vpc", udp, 53), "ok")
	want(t, "UDP", w.listen("lb", udp, 53, "udp"), "InvalidConfigurationRequest")
	_, err = w.elb.SetSubnets(w.ctx, &elb.SetSubnetsInput{LoadBalancerArn: w.id("lb"), Subnets: w.idsOf("six"), EnablePrefixForIpv6SourceNat: types.EnablePrefixForIpv6SourceNatEnumOn})
	want(t, "a prefix", ok(err), "ok")
	want(t, "UDP then", w.listen("lb", udp, 53, "udp"), "ok")
	_, err = w.elb.SetSubnets(w.ctx, &elb.SetSubnetsInput{LoadBalancerArn: w.id("lb"), Subnets: w.idsOf("six"), EnablePrefixForIpv6SourceNat: types.EnablePrefixForIpv6SourceNatEnumOff})
	want(t, "no prefix", ok(err), "InvalidConfigurationRequest")
}

// An elastic address belongs to one balancer, until its interfaces have gone.
func TestElasticAddressesOfBalancers(t *testing.T) {
	f, w := fresh(t)
	out, err := w.ec2.AllocateAddress(w.ctx, &ec2.AllocateAddressInput{})
	if err != nil {
		t.Fatal(err)
	}
	w.ids["eip"] = *out.AllocationId
	mapped := func(scheme types.LoadBalancerSchemeEnum) func(in *elb.CreateLoadBalancerInput) {
		return func(in *elb.CreateLoadBalancerInput) {
			in.Scheme, in.SubnetMappings = scheme, []types.SubnetMapping{{SubnetId: w.id("a"), AllocationId: w.id("eip")}}
		}
	}
	facing, internal := types.LoadBalancerSchemeEnumInternetFacing, types.LoadBalancerSchemeEnumInternal
	want(t, "of an internal one", w.balanceAs("in", mapped(internal)), "InvalidConfigurationRequest")
	want(t, "of one", w.balanceAs("lb", mapped(facing)), "provisioning")
	want(t, "of two", w.balanceAs("two", mapped(facing)), "ResourceInUse")
	if b := f.Balancers()[0]; b.Public[0].String() != *out.PublicIp {
		t.Errorf("%+v", b)
	}
	_, err = w.ec2.ReleaseAddress(w.ctx, &ec2.ReleaseAddressInput{AllocationId: w.id("eip")})
	want(t, "released in use", ok(err), "InvalidIPAddress.InUse")
	want(t, "a private address", w.balanceAs("own", func(in *elb.CreateLoadBalancerInput) {
		in.Scheme, in.SubnetMappings = internal, []types.SubnetMapping{{SubnetId: w.id("a"), PrivateIPv4Address: aws.String("172.31.1.1")}}
	}), "provisioning")
	want(t, "the same one", w.balanceAs("own2", func(in *elb.CreateLoadBalancerInput) {
		in.Scheme, in.SubnetMappings = internal, []types.SubnetMapping{{SubnetId: w.id("a"), PrivateIPv4Address: aws.String("172.31.1.1")}}
	}), "InvalidConfigurationRequest")
	want(t, "deleted", w.unbalance("lb"), "ok")
	f.Advance(0)
	_, err = w.ec2.ReleaseAddress(w.ctx, &ec2.ReleaseAddressInput{AllocationId: w.id("eip")})
	want(t, "released then", ok(err), "ok")
}

func TestQuotasOfBalancers(t *testing.T) {
	f, w := balanced(t)
	f.Set(func(s *awstest.Settings) { s.Balancers, s.TargetGroups, s.ListenersPerBalancer = 1, 1, 1 })
	want(t, "a balancer", w.balance("two", "a"), "TooManyLoadBalancers")
	want(t, "a target group", w.targetGroup("two", "vpc", tcp, 80), "TooManyTargetGroups")
	want(t, "a listener", w.listen("lb", tcp, 81, "tg"), "TooManyListeners")
	var pairs []string
	for i := range 51 {
		pairs = append(pairs, fmt.Sprint("key", i), "")
	}
	want(t, "tags", w.elbTag("lb", pairs...), "TooManyTags")
	var arns []string
	for range 21 {
		arns = append(arns, "lb")
	}
	want(t, "tags of too many", w.elbTags(arns...), "ValidationError")
	limits, err := w.elb.DescribeAccountLimits(w.ctx, &elb.DescribeAccountLimitsInput{})
	if err != nil || *limits.Limits[0].Name != "network-load-balancers" || *limits.Limits[0].Max != "1" {
		t.Errorf("%+v, %v", limits, err)
	}
}

// The reads of balancers share a bucket; changes have another one.
func TestReadsOfBalancersShareABucket(t *testing.T) {
	f, w := balanced(t)
	f.Set(func(s *awstest.Settings) {
		s.Buckets = map[string]awstest.Bucket{awstest.ReadsOfBalancers: {Size: 2}, awstest.ChangesOfBalancers: {Size: 1}}
	})
	want(t, "one", w.ports("lb"), "TCP 80 tg")
	want(t, "another", w.elbTags("lb"), "none")
	want(t, "a third", w.balancer("lb"), "ThrottlingException")
	want(t, "a change", w.setAttribute("lb", crossZone, "true"), "ok")
	want(t, "another change", w.dropTargetGroup("tg"), "ThrottlingException")
	want(t, "targets", w.register("tg", "i1"), "ok")
	f.Set(func(s *awstest.Settings) { s.Buckets = awstest.Published() })
	said := ""
	for range 60 {
		if said = w.ports("lb"); said == "ThrottlingException" {
			return
		}
	}
	t.Errorf("60 reads are not throttled: %s", said)
}
