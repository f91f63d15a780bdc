package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	anARN  = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/a/0123456789abcdef"
	aGroup = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/a/0123456789abcdef"
	aPort  = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:listener/net/a/0123456789abcdef/0123456789abcdef"
)

// TestRefusesStrangeAnswers: the client ignores an answer as a whole if it has a value that the
// real API never sends.
func TestRefusesStrangeAnswers(t *testing.T) {
	good := func() types.LoadBalancer {
		return types.LoadBalancer{
			LoadBalancerArn: aws.String(anARN), DNSName: aws.String("aB-1.elb.eu-central-1.amazonaws.com"), SecurityGroups: []string{"sg-2", "sg-1"},
			AvailabilityZones: []types.AvailabilityZone{{SubnetId: aws.String("subnet-2")}, {SubnetId: aws.String("subnet-1"), LoadBalancerAddresses: []types.LoadBalancerAddress{{}, {AllocationId: aws.String("eipalloc-1")}}}},
		}
	}
	v, err := balancer(describeBalancers, good())
	if err != nil || v.Mappings[0] != (cloud.SubnetMapping{Subnet: "subnet-1", Allocation: "eipalloc-1"}) || v.Security[0] != "sg-1" {
		t.Errorf("%+v, %v", v, err)
	}
	for name, spoil := range map[string]func(*types.LoadBalancer){
		"no ARN":            func(l *types.LoadBalancer) { l.LoadBalancerArn = nil },
		"another kind":      func(l *types.LoadBalancer) { *l.LoadBalancerArn = aGroup },
		"a host with a tag": func(l *types.LoadBalancer) { *l.DNSName = "<b>" },
		"a subnet":          func(l *types.LoadBalancer) { l.AvailabilityZones[0].SubnetId = aws.String("*") },
		"a group":           func(l *types.LoadBalancer) { l.SecurityGroups = []string{"subnet-1"} },
	} {
		l := good()
		spoil(&l)
		if _, err := balancer(describeBalancers, l); err == nil || cloud.KindOf(err) != cloud.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = targetGroup(describeTargetGroups, types.TargetGroup{TargetGroupArn: aws.String(anARN)})
	wantKind(t, err, cloud.Unavailable)
}

func TestListenersAsTheyAre(t *testing.T) {
	forward := func(arns ...string) types.Action {
		a := types.Action{Type: types.ActionTypeEnumForward, ForwardConfig: &types.ForwardActionConfig{}}
		for _, arn := range arns {
			a.ForwardConfig.TargetGroups = append(a.ForwardConfig.TargetGroups, types.TargetGroupTuple{TargetGroupArn: &arn})
		}
		return a
	}
	plain := types.Action{Type: types.ActionTypeEnumForward, TargetGroupArn: aws.String(aGroup)}
	for name, test := range map[string]struct {
		listener types.Listener
		want     cloud.Listener
	}{
		"TCP":                {types.Listener{Protocol: types.ProtocolEnumTcp, DefaultActions: []types.Action{plain}, SslPolicy: aws.String("p")}, cloud.Listener{Protocol: cloud.TCP, Group: aGroup}},
		"one, weighted":      {types.Listener{Protocol: types.ProtocolEnumTcp, DefaultActions: []types.Action{forward(aGroup)}}, cloud.Listener{Protocol: cloud.TCP, Group: aGroup}},
		"two, weighted":      {types.Listener{Protocol: types.ProtocolEnumTcp, DefaultActions: []types.Action{forward(aGroup, aGroup+"0")}}, cloud.Listener{Protocol: cloud.TCP}},
		"nothing to do":      {types.Listener{Protocol: types.ProtocolEnumUdp}, cloud.Listener{Protocol: cloud.UDP}},
		"of other balancers": {types.Listener{Protocol: types.ProtocolEnumTcp, DefaultActions: []types.Action{{Type: types.ActionTypeEnumRedirect}}}, cloud.Listener{Protocol: cloud.TCP}},
		"TLS": {types.Listener{
			Protocol: types.ProtocolEnumTls, DefaultActions: []types.Action{plain}, SslPolicy: aws.String("p"), AlpnPolicy: []string{"None"}, Certificates: []types.Certificate{{CertificateArn: aws.String("c")}},
		}, cloud.Listener{Protocol: cloud.TLS, Group: aGroup, Policy: "p", Certificate: "c"}},
	} {
		test.listener.ListenerArn, test.listener.LoadBalancerArn, test.listener.Port = aws.String(aPort), aws.String(anARN), aws.Int32(80)
		test.want.ID, test.want.Balancer, test.want.Port = aPort, anARN, 80
		if got, err := listener(describeListeners, test.listener); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		test.listener.ListenerArn = aws.String(anARN)
		_, err := listener(describeListeners, test.listener)
		wantKind(t, err, cloud.Unavailable)
	}
	_, err := listener(describeListeners, types.Listener{ListenerArn: aws.String(aPort), LoadBalancerArn: aws.String(anARN), DefaultActions: []types.Action{forward("no")}})
	wantKind(t, err, cloud.Unavailable)
}
