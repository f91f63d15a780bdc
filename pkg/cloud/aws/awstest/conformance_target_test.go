package awstest_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

const (
	tcp  = types.ProtocolEnumTcp
	udp  = types.ProtocolEnumUdp
	both = types.ProtocolEnumTcpUdp
)

// groupAttribute changes an attribute of a target group, and returns what it is then.
func (w *world) groupAttribute(group, key, value string) string {
	if value != "" {
		_, err := w.elb.ModifyTargetGroupAttributes(w.ctx, &elb.ModifyTargetGroupAttributesInput{
			TargetGroupArn: w.id(group), Attributes: []types.TargetGroupAttribute{{Key: &key, Value: &value}},
		})
		if err != nil {
			return code(err)
		}
	}
	out, err := w.elb.DescribeTargetGroupAttributes(w.ctx, &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: w.id(group)})
	return said(err, func() string {
		for _, a := range out.Attributes {
			if *a.Key == key {
				return aws.ToString(a.Value)
			}
		}
		return "none"
	})
}

var targetGroups = scenario{"target groups", []row{
	{name: "a VPC", want: "ok", do: vpcForBalancers},
	{name: "a group", want: "ok", do: func(w *world) string { return w.targetGroup("tg", "vpc", tcp, 30080) }},
	{name: "how it checks its targets", want: "TCP traffic-port 30 10 5 2", do: func(w *world) string { return w.check("tg") }},
	{name: "the same again", moto: "DuplicateTargetGroupName", want: "ok", do: func(w *world) string { return w.targetGroup("tg", "vpc", tcp, 30080) }},
	{name: "its name again", want: "DuplicateTargetGroupName", do: func(w *world) string { return w.targetGroup("tg", "vpc", tcp, 30081) }},
	{name: "a name that is too long", want: "ValidationError", do: func(w *world) string { return w.targetGroup(strings.Repeat("x", 33), "vpc", tcp, 80) }},
	{name: "a name with a dot", want: "ValidationError", do: func(w *world) string { return w.targetGroup("x.y", "vpc", tcp, 80) }},
	{name: "without a port", want: "ValidationError", do: func(w *world) string {
		return w.targetGroupAs("x", func(in *elb.CreateTargetGroupInput) { in.VpcId, in.Protocol = w.id("vpc"), tcp })
	}},
	{name: "a VPC that there is not", want: "ValidationError", do: func(w *world) string {
		w.ids["no"] = "vpc-0123456789abcdef0"
		return w.targetGroup("x", "no", tcp, 80)
	}},
	{name: "checked with UDP", moto: "ok", want: "InvalidConfigurationRequest", do: func(w *world) string {
		return w.targetGroupAs("checked", func(in *elb.CreateTargetGroupInput) {
			in.VpcId, in.Protocol, in.Port, in.HealthCheckProtocol = w.id("vpc"), udp, aws.Int32(53), udp
		})
	}},
	{name: "checked with HTTP", want: "ok", do: func(w *world) string {
		return w.targetGroupAs("http", func(in *elb.CreateTargetGroupInput) {
			in.VpcId, in.Protocol, in.Port, in.HealthCheckProtocol, in.HealthCheckPath, in.HealthCheckPort = w.id("vpc"), tcp, aws.Int32(80), types.ProtocolEnumHttp, aws.String("/healthz"), aws.String("10256")
			in.HealthCheckIntervalSeconds, in.HealthCheckTimeoutSeconds, in.HealthyThresholdCount = aws.Int32(10), aws.Int32(6), aws.Int32(2)
		})
	}},
	{name: "how that one checks its targets", moto: "HTTP 10256 10 6 2 2 /healthz 200", want: "HTTP 10256 10 6 2 2 /healthz 200-399", do: func(w *world) string { return w.check("http") }},
	{name: "a path with TCP", moto: "ok", want: "InvalidConfigurationRequest", do: func(w *world) string {
		_, err := w.elb.ModifyTargetGroup(w.ctx, &elb.ModifyTargetGroupInput{TargetGroupArn: w.id("tg"), HealthCheckPath: aws.String("/")})
		return ok(err)
	}},
	{name: "an interval that is too long", moto: "ok", want: "ValidationError", do: func(w *world) string {
		_, err := w.elb.ModifyTargetGroup(w.ctx, &elb.ModifyTargetGroupInput{TargetGroupArn: w.id("http"), HealthCheckIntervalSeconds: aws.Int32(301)})
		return ok(err)
	}},
	{name: "checked otherwise", moto: "HTTP 10257 20 6 2 3 / 200", want: "HTTP 10257 20 6 2 3 / 200-399", do: func(w *world) string {
		if _, err := w.elb.ModifyTargetGroup(w.ctx, &elb.ModifyTargetGroupInput{
			TargetGroupArn: w.id("http"), HealthCheckPath: aws.String("/"), HealthCheckPort: aws.String("10257"), UnhealthyThresholdCount: aws.Int32(3), HealthCheckIntervalSeconds: aws.Int32(20),
		}); err != nil {
			return code(err)
		}
		return w.check("http")
	}},
	{name: "its delay", want: "300", do: func(w *world) string { return w.groupAttribute("tg", "deregistration_delay.timeout_seconds", "") }},
	{name: "another delay", want: "0", do: func(w *world) string { return w.groupAttribute("tg", "deregistration_delay.timeout_seconds", "0") }},
	{name: "a delay that is too long", want: "ValidationError", do: func(w *world) string {
		return w.groupAttribute("http", "deregistration_delay.timeout_seconds", "3601")
	}},
	{name: "an attribute that there is not", moto: "x", want: "ValidationError", do: func(w *world) string { return w.groupAttribute("http", "no", "x") }},
	{name: "whether it keeps the client's address", moto: "none", want: "true", do: func(w *world) string { return w.groupAttribute("tg", "preserve_client_ip.enabled", "") }},
	{name: "groups by name", want: "tg", do: func(w *world) string {
		out, err := w.elb.DescribeTargetGroups(w.ctx, &elb.DescribeTargetGroupsInput{Names: []string{"tg"}})
		return said(err, func() string { return w.plain(*out.TargetGroups[0].TargetGroupArn) })
	}},
	{name: "one that there is not", want: "TargetGroupNotFound", do: func(w *world) string {
		_, err := w.elb.DescribeTargetGroups(w.ctx, &elb.DescribeTargetGroupsInput{Names: []string{"tg", "no"}})
		return ok(err)
	}},
	{name: "deleted", want: "ok", do: func(w *world) string { return w.dropTargetGroup("http") }},
	{name: "deleted twice", moto: "TargetGroupNotFound", want: "ok", do: func(w *world) string { return w.dropTargetGroup("http") }},
}}

var targetsAndListeners = scenario{"targets and listeners", []row{
	{name: "a VPC", want: "ok", do: vpcForBalancers},
	{name: "instances", want: "pending pending", do: func(w *world) string { return w.launch("i1", "a") + " " + w.launch("i2", "b") }},
	{name: "groups", want: "ok ok ok", do: func(w *world) string {
		return fmt.Sprint(w.targetGroup("tg", "vpc", tcp, 30080), " ", w.targetGroup("udp", "vpc", udp, 30053), " ", w.targetGroup("both", "vpc", both, 30053))
	}},
	{name: "registered", want: "ok", do: func(w *world) string { return w.register("tg", "i1", "i2") }},
	{name: "registered twice", want: "ok", do: func(w *world) string { return w.register("tg", "i1") }},
	{name: "an instance that there is not", moto: "ok", want: "InvalidTarget", do: func(w *world) string { return w.register("udp", "i-0123456789abcdef0") }},
	{name: "in a group that there is not", want: "TargetGroupNotFound", do: func(w *world) string {
		w.ids["no"] = *w.id("tg") + "0"
		return w.register("no", "i1")
	}},
	{name: "health of a group that no balancer uses", moto: "i1:30080 healthy, i2:30080 healthy", want: "i1:30080 unused Target.NotInUse, i2:30080 unused Target.NotInUse", do: func(w *world) string { return w.health("tg") }},
	{name: "a balancer", want: "provisioning", do: func(w *world) string { return w.balance("lb", "a", "b") }},
	{name: "a listener", want: "ok", do: func(w *world) string { return w.listen("lb", tcp, 80, "tg") }},
	{name: "the same again", moto: "ok", want: "ok", do: func(w *world) string {
		before := *w.id("lb:80")
		said := w.listen("lb", tcp, 80, "tg")
		if *w.id("lb:80") != before { // moto makes another one: it must not stay
			_, err := w.elb.DeleteListener(w.ctx, &elb.DeleteListenerInput{ListenerArn: w.id("lb:80")})
			w.ids["lb:80"] = before
			return ok(err)
		}
		return said
	}},
	{name: "its port again", moto: "ok", want: "DuplicateListener", do: func(w *world) string {
		before := *w.id("lb:80")
		said := w.listen("lb", tcp, 80, "both")
		if *w.id("lb:80") != before {
			w.elb.DeleteListener(w.ctx, &elb.DeleteListenerInput{ListenerArn: w.id("lb:80")})
			w.ids["lb:80"] = before
		}
		return said
	}},
	{name: "a protocol of other balancers", want: "ValidationError", do: func(w *world) string { return w.listen("lb", types.ProtocolEnumHttp, 81, "tg") }},
	{name: "TCP to a group of UDP", moto: "ok", want: "IncompatibleProtocols", do: func(w *world) string { return w.listen("lb", tcp, 82, "udp") }},
	{name: "a certificate with TCP", moto: "CertificateNotFound", want: "InvalidConfigurationRequest", do: func(w *world) string {
		return w.listenAs("lb", tcp, 83, "tg", func(in *elb.CreateListenerInput) {
			in.Certificates = []types.Certificate{{CertificateArn: aws.String("arn:aws:acm:eu-central-1:123456789012:certificate/01234567-89ab-4def-8123-456789abcdef")}}
		})
	}},
	{name: "a group that there is not", want: "TargetGroupNotFound", do: func(w *world) string { return w.listen("lb", tcp, 84, "no") }},
	{name: "UDP", want: "ok", do: func(w *world) string { return w.listen("lb", udp, 53, "both") }},
	{name: "health", want: "i1:30080 healthy, i2:30080 healthy", do: func(w *world) string { return w.health("tg") }},
	{name: "health of one that is not registered", moto: "i1:80 unused Target.NotRegistered", want: "i1:30053 unused Target.NotRegistered", do: func(w *world) string { return w.health("udp", "i1") }},
	{name: "deleting a group in use", want: "ResourceInUse", do: func(w *world) string { return w.dropTargetGroup("both") }},
	{name: "a group of two balancers", moto: "ok", want: "TargetGroupAssociationLimit", do: func(w *world) string {
		if s := w.balance("other", "a"); s != "provisioning" {
			return s
		}
		return w.listen("other", tcp, 80, "tg")
	}},
	{name: "another port", want: "ok", do: func(w *world) string {
		_, err := w.elb.ModifyListener(w.ctx, &elb.ModifyListenerInput{ListenerArn: w.id("lb:53"), Port: aws.Int32(5353)})
		return ok(err)
	}},
	{name: "deregistered", want: "ok", do: func(w *world) string { return w.deregister("tg", "i2") }},
	{name: "health of it", moto: "i1:30080 healthy", want: "i1:30080 healthy, i2:30080 draining Target.DeregistrationInProgress", do: func(w *world) string { return w.health("tg") }},
	{name: "deregistering what is not registered", moto: "InvalidTarget", want: "ok", do: func(w *world) string { return w.deregister("tg", "i-0123456789abcdef0") }},
	{name: "a listener deleted", want: "ok", do: func(w *world) string {
		_, err := w.elb.DeleteListener(w.ctx, &elb.DeleteListenerInput{ListenerArn: w.id("lb:53")})
		return ok(err)
	}},
	{name: "deleted twice", want: "ListenerNotFound", do: func(w *world) string {
		_, err := w.elb.DeleteListener(w.ctx, &elb.DeleteListenerInput{ListenerArn: w.id("lb:53")})
		return ok(err)
	}},
	{name: "its group deleted", want: "ok", do: func(w *world) string { return w.dropTargetGroup("both") }},
	{name: "the listeners", moto: "TCP 80 tg, TCP 82 udp", want: "TCP 80 tg", do: func(w *world) string { return w.ports("lb") }},
	{name: "listeners of nothing", want: "ValidationError", do: func(w *world) string {
		_, err := w.elb.DescribeListeners(w.ctx, &elb.DescribeListenersInput{})
		return ok(err)
	}},
	{name: "the balancer deleted", want: "ok", do: func(w *world) string { return w.unbalance("lb") }},
	{name: "its listeners then", want: "LoadBalancerNotFound", do: func(w *world) string { return w.ports("lb") }},
}}
