package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The actions that change load balancers and listeners.
const (
	createBalancer        = "CreateLoadBalancer"
	setBalancerAttributes = "ModifyLoadBalancerAttributes"
	setSubnets            = "SetSubnets"
	setFamilies           = "SetIpAddressType"
	setSecurity           = "SetSecurityGroups"
	deleteBalancer        = "DeleteLoadBalancer"
	createListener        = "CreateListener"
	modifyListener        = "ModifyListener"
	deleteListener        = "DeleteListener"
	addTags               = "AddTags"
	createTags            = "CreateTags"
)

// ChangeBalancing makes a change. For a creation, it returns the new object. It succeeds if an
// object to delete does not exist.
func (c *Client) ChangeBalancing(ctx context.Context, b cloud.BalancerChange) (cloud.Balancing, error) {
	if err := checkChange(b); err != nil {
		return cloud.Balancing{}, err
	}
	var made cloud.Balancing
	var err error
	switch b.Verb {
	case cloud.CreateSecurityGroup:
		return c.createSecurityGroup(ctx, b.Security)
	case cloud.CreateGroup:
		return c.createTargetGroup(ctx, b.Group)
	case cloud.CreateBalancer:
		return c.createBalancer(ctx, b.Balancer)
	case cloud.CreateListener:
		return c.createListener(ctx, b.Listener, b.Tags)
	case cloud.DeleteSecurityGroup, cloud.AllowIngress, cloud.RevokeIngress, cloud.DescribeIngress:
		err = c.changeSecurityGroup(ctx, b.Verb, b.Security)
	case cloud.SetHealthCheck, cloud.SetGroupAttributes, cloud.DeleteGroup, cloud.Register, cloud.Deregister:
		err = c.changeTargetGroup(ctx, b.Verb, b.Group)
	case cloud.SetListener, cloud.DeleteListener:
		err = c.changeListener(ctx, b.Verb, b.Listener)
	case cloud.AddTags:
		err = c.addTags(ctx, b.Object, b.Tags)
	default:
		err = c.changeBalancer(ctx, b.Verb, b.Balancer)
	}
	return made, err
}

// objectOf returns the kind and the ID of the object that a change names, and a function that
// reports whether an ID is of that kind.
func objectOf(b cloud.BalancerChange) (kind, id string, is func(string) bool) {
	switch b.Verb {
	case cloud.CreateSecurityGroup, cloud.CreateGroup:
		return "VPC", b.Security.Network + b.Group.Network, func(id string) bool { return strings.HasPrefix(id, "vpc-") && resourceID.MatchString(id) }
	case cloud.DeleteSecurityGroup, cloud.AllowIngress, cloud.RevokeIngress, cloud.DescribeIngress:
		return "security group", b.Security.ID, isGroup
	case cloud.SetHealthCheck, cloud.SetGroupAttributes, cloud.DeleteGroup, cloud.Register, cloud.Deregister:
		return "target group", b.Group.ID, groupARN.MatchString
	case cloud.SetBalancerAttributes, cloud.SetSubnets, cloud.SetFamilies, cloud.SetSecurity, cloud.DeleteBalancer:
		return "network load balancer", b.Balancer.ID, balancerARN.MatchString
	case cloud.CreateListener:
		return "network load balancer", b.Listener.Balancer, balancerARN.MatchString
	case cloud.SetListener, cloud.DeleteListener:
		return "listener", b.Listener.ID, listenerARN.MatchString
	case cloud.AddTags:
		return "object with tags", b.Object, func(id string) bool {
			return isGroup(id) || groupARN.MatchString(id) || balancerARN.MatchString(id) || listenerARN.MatchString(id)
		}
	case cloud.CreateBalancer:
		return "name of a load balancer", b.Balancer.Name, func(name string) bool { return name != "" }
	}
	return "verb", string(b.Verb), func(string) bool { return false }
}

// checkChange validates the IDs in a change, so that no request names another kind of object.
func checkChange(b cloud.BalancerChange) error {
	if kind, id, is := objectOf(b); !is(id) {
		return &cloud.Error{Kind: cloud.Refused, Action: string(b.Verb), Text: quoted(id) + " is no " + kind}
	}
	if n := len(b.Group.Targets); (b.Verb == cloud.Register || b.Verb == cloud.Deregister) && (n == 0 || n > cloud.MostTargets) {
		return &cloud.Error{Kind: cloud.Refused, Action: string(b.Verb), Text: "the change has no targets, or more than one request may have"}
	}
	return nil
}

// pairs converts values by key, in the order of the keys, to the form of a request.
func pairs[P any](values map[string]string, pair func(key, value *string) P) (all []P) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		all = append(all, pair(aws.String(key), aws.String(values[key])))
	}
	return all
}

func elbTags(tags map[string]string) []types.Tag {
	return pairs(tags, func(key, value *string) types.Tag { return types.Tag{Key: key, Value: value} })
}

func ec2Tags(tags map[string]string) []ec2types.Tag {
	return pairs(tags, func(key, value *string) ec2types.Tag { return ec2types.Tag{Key: key, Value: value} })
}

// optional returns a pointer to text, or nil if it is empty.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func mappings(of []cloud.SubnetMapping) (all []types.SubnetMapping) {
	for _, p := range of {
		all = append(all, types.SubnetMapping{SubnetId: aws.String(p.Subnet), AllocationId: optional(p.Allocation), PrivateIPv4Address: optional(p.IPv4), IPv6Address: optional(p.IPv6)})
	}
	return all
}

func (c *Client) createBalancer(ctx context.Context, b cloud.Balancer) (cloud.Balancing, error) {
	out, err := create(ctx, c, createBalancer, func(ctx context.Context) (*elb.CreateLoadBalancerOutput, error) {
		return c.elb.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
			Name: &b.Name, Type: types.LoadBalancerTypeEnumNetwork, Scheme: types.LoadBalancerSchemeEnum(b.Scheme), IpAddressType: types.IpAddressType(b.Families),
			SubnetMappings: mappings(b.Mappings), SecurityGroups: b.Security, Tags: elbTags(b.Tags),
		})
	})
	if err != nil {
		return cloud.Balancing{}, err
	}
	if len(out.LoadBalancers) != 1 {
		return cloud.Balancing{}, strange(createBalancer, "number of load balancers that is not 1 for", b.Name)
	}
	made, err := balancer(createBalancer, out.LoadBalancers[0])
	if err != nil {
		return cloud.Balancing{}, err
	}
	made.Tags = b.Tags
	return cloud.Balancing{Balancers: []cloud.Balancer{made}}, nil
}

// changeBalancer changes or deletes a load balancer.
func (c *Client) changeBalancer(ctx context.Context, verb cloud.BalancerVerb, b cloud.Balancer) error {
	switch verb {
	case cloud.SetBalancerAttributes:
		all := pairs(b.Attributes, func(key, value *string) types.LoadBalancerAttribute {
			return types.LoadBalancerAttribute{Key: key, Value: value}
		})
		return change(ctx, c, setBalancerAttributes, func(ctx context.Context) (*elb.ModifyLoadBalancerAttributesOutput, error) {
			return c.elb.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &b.ID, Attributes: all})
		})
	case cloud.SetSubnets:
		return change(ctx, c, setSubnets, func(ctx context.Context) (*elb.SetSubnetsOutput, error) {
			return c.elb.SetSubnets(ctx, &elb.SetSubnetsInput{LoadBalancerArn: &b.ID, IpAddressType: types.IpAddressType(b.Families), SubnetMappings: mappings(b.Mappings)})
		})
	case cloud.SetFamilies:
		return change(ctx, c, setFamilies, func(ctx context.Context) (*elb.SetIpAddressTypeOutput, error) {
			return c.elb.SetIpAddressType(ctx, &elb.SetIpAddressTypeInput{LoadBalancerArn: &b.ID, IpAddressType: types.IpAddressType(b.Families)})
		})
	case cloud.SetSecurity:
		return change(ctx, c, setSecurity, func(ctx context.Context) (*elb.SetSecurityGroupsOutput, error) {
			return c.elb.SetSecurityGroups(ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: &b.ID, SecurityGroups: b.Security})
		})
	}
	return unlessMissing(change(ctx, c, deleteBalancer, func(ctx context.Context) (*elb.DeleteLoadBalancerOutput, error) {
		return c.elb.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: &b.ID})
	}))
}

// forward returns the action of a listener, and the fields that only a TLS listener has.
func forward(l cloud.Listener) (actions []types.Action, certificates []types.Certificate, policy *string, alpn []string) {
	actions = []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: aws.String(l.Group)}}
	if l.Protocol != cloud.TLS {
		return actions, nil, nil, nil
	}
	if l.Certificate != "" {
		certificates = []types.Certificate{{CertificateArn: aws.String(l.Certificate)}}
	}
	alpn = []string{"None"}
	if l.ALPN != "" {
		alpn = []string{l.ALPN}
	}
	return actions, certificates, optional(l.Policy), alpn
}

func (c *Client) createListener(ctx context.Context, l cloud.Listener, tags map[string]string) (cloud.Balancing, error) {
	actions, certificates, policy, alpn := forward(l)
	out, err := create(ctx, c, createListener, func(ctx context.Context) (*elb.CreateListenerOutput, error) {
		return c.elb.CreateListener(ctx, &elb.CreateListenerInput{
			LoadBalancerArn: &l.Balancer, Protocol: types.ProtocolEnum(l.Protocol), Port: aws.Int32(int32(l.Port)), DefaultActions: actions,
			Certificates: certificates, SslPolicy: policy, AlpnPolicy: alpn, Tags: elbTags(tags),
		})
	})
	if err != nil {
		return cloud.Balancing{}, err
	}
	if len(out.Listeners) != 1 {
		return cloud.Balancing{}, strange(createListener, "number of listeners that is not 1 for", l.Balancer)
	}
	made, err := listener(createListener, out.Listeners[0])
	if err != nil {
		return cloud.Balancing{}, err
	}
	return cloud.Balancing{Balancers: []cloud.Balancer{{ID: l.Balancer, Listeners: []cloud.Listener{made}}}}, nil
}

// changeListener changes or deletes a listener.
func (c *Client) changeListener(ctx context.Context, verb cloud.BalancerVerb, l cloud.Listener) error {
	if verb == cloud.DeleteListener {
		return unlessMissing(change(ctx, c, deleteListener, func(ctx context.Context) (*elb.DeleteListenerOutput, error) {
			return c.elb.DeleteListener(ctx, &elb.DeleteListenerInput{ListenerArn: &l.ID})
		}))
	}
	actions, certificates, policy, alpn := forward(l)
	return change(ctx, c, modifyListener, func(ctx context.Context) (*elb.ModifyListenerOutput, error) {
		return c.elb.ModifyListener(ctx, &elb.ModifyListenerInput{
			ListenerArn: &l.ID, Protocol: types.ProtocolEnum(l.Protocol), Port: aws.Int32(int32(l.Port)), DefaultActions: actions, Certificates: certificates, SslPolicy: policy, AlpnPolicy: alpn,
		})
	})
}

// addTags sets tags on an object.
func (c *Client) addTags(ctx context.Context, id string, tags map[string]string) error {
	if isGroup(id) {
		return change(ctx, c, createTags, func(ctx context.Context) (*ec2.CreateTagsOutput, error) {
			return c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: ec2Tags(tags)})
		})
	}
	return change(ctx, c, addTags, func(ctx context.Context) (*elb.AddTagsOutput, error) {
		return c.elb.AddTags(ctx, &elb.AddTagsInput{ResourceArns: []string{id}, Tags: elbTags(tags)})
	})
}
