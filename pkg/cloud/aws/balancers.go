package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The actions of Elastic Load Balancing.
const (
	describeBalancers          = "DescribeLoadBalancers"
	describeTargetGroups       = "DescribeTargetGroups"
	describeTags               = "DescribeTags"
	describeListeners          = "DescribeListeners"
	describeBalancerAttributes = "DescribeLoadBalancerAttributes"
	describeGroupAttributes    = "DescribeTargetGroupAttributes"
	describeHealth             = "DescribeTargetHealth"
	describeLimits             = "DescribeAccountLimits"
)

// largestELBPage is the maximum number of load balancers or target groups in a page.
const largestELBPage = 400

// balancing are the actions of Elastic Load Balancing that the client requests.
var balancing = map[string]bool{
	describeBalancers: true, describeTargetGroups: true, describeTags: true, describeListeners: true, describeBalancerAttributes: true,
	describeGroupAttributes: true, describeHealth: true, describeLimits: true,
	createBalancer: true, setBalancerAttributes: true, setSubnets: true, setFamilies: true, setSecurity: true, deleteBalancer: true,
	createTargetGroup: true, modifyTargetGroup: true, setGroupAttributes: true, deleteTargetGroup: true, registerTargets: true, deregisterTargets: true,
	createListener: true, modifyListener: true, deleteListener: true, addTags: true,
}

// The ARNs do not tell network load balancers from others, because some APIs that are
// compatible with AWS do not have the type in the ARN. Answers have it in a field.
var (
	balancerARN = regexp.MustCompile(`^arn:[a-z0-9-]+:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:loadbalancer/[a-z]+/[A-Za-z0-9-]{1,32}/[0-9a-f]{1,40}$`)
	groupARN    = regexp.MustCompile(`^arn:[a-z0-9-]+:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:targetgroup/[A-Za-z0-9-]{1,32}/[0-9a-f]{1,40}$`)
	listenerARN = regexp.MustCompile(`^arn:[a-z0-9-]+:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:listener/[a-z]+/[A-Za-z0-9-]{1,32}/[0-9a-f]{1,40}/[0-9a-f]{1,40}$`)
	// serviceBalancer matches the name of a Service's balancer, which is derived from the
	// Service's UID.
	serviceBalancer = regexp.MustCompile(`^a[0-9a-f]{31}$`)
	// balancerHost matches a DNS name. The one of a balancer has the case of the
	// balancer's name.
	balancerHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// quoted quotes a value for an error, and limits its length.
func quoted(text string) string { return fmt.Sprintf("%.120q", text) }

// Balancing returns the network load balancers of Services, target groups and security
// groups with the cluster's tag, without their details. It omits target groups that only
// load balancers of no Service use.
func (c *Client) Balancing(ctx context.Context) (cloud.Balancing, error) {
	var b cloud.Balancing
	balancers, err := c.describeBalancers(ctx)
	if err != nil {
		return b, err
	}
	groups, err := c.describeTargetGroups(ctx)
	if err != nil {
		return b, err
	}
	// Names and listeners identify most foreign objects. This saves the reads of their tags,
	// which are most of the requests.
	balancers = slices.DeleteFunc(balancers, func(v cloud.Balancer) bool { return !serviceBalancer.MatchString(v.Name) })
	candidates := make(map[string]bool, len(balancers))
	for _, v := range balancers {
		candidates[v.ID] = true
	}
	groups = slices.DeleteFunc(groups, func(g cloud.TargetGroup) bool {
		return len(g.Balancers) > 0 && !slices.ContainsFunc(g.Balancers, func(id string) bool { return candidates[id] })
	})
	ids := slices.Collect(maps.Keys(candidates))
	for _, g := range groups {
		ids = append(ids, g.ID)
	}
	tags, err := c.tagsOf(ctx, ids)
	if err != nil {
		return b, err
	}
	for _, v := range balancers {
		if v.Tags = tags[v.ID]; c.config.marks(v.Tags) {
			b.Balancers = append(b.Balancers, v)
		}
	}
	for _, g := range groups {
		if g.Tags = tags[g.ID]; c.config.marks(g.Tags) {
			b.Groups = append(b.Groups, g)
		}
	}
	slices.SortFunc(b.Balancers, func(a, b cloud.Balancer) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(b.Groups, func(a, b cloud.TargetGroup) int { return cmp.Compare(a.ID, b.ID) })
	if b.Security, err = c.describeGroups(ctx, c.config.ours()...); err != nil {
		return cloud.Balancing{}, err
	}
	return b, nil
}

// marks reports whether an object with these tags is the cluster's.
func (c Config) marks(tags map[string]string) bool {
	if c.Legacy {
		return tags["KubernetesCluster"] == c.Cluster
	}
	_, marked := tags[c.tag()]
	return marked
}

// describeBalancers returns all network load balancers of the account, in the VPC of the
// cloud config if it names one.
func (c *Client) describeBalancers(ctx context.Context) ([]cloud.Balancer, error) {
	byID := make(map[string]cloud.Balancer)
	err := eachPage(ctx, c, describeBalancers, func(ctx context.Context, marker *string) (*elb.DescribeLoadBalancersOutput, error) {
		return c.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(largestELBPage), Marker: marker})
	}, func(out *elb.DescribeLoadBalancersOutput) (*string, error) {
		for _, l := range out.LoadBalancers {
			if l.Type != types.LoadBalancerTypeEnumNetwork || c.config.VPC != "" && value(l.VpcId) != c.config.VPC {
				continue
			}
			v, err := balancer(describeBalancers, l)
			if err != nil {
				return nil, err
			}
			byID[v.ID] = v
		}
		return out.NextMarker, nil
	})
	return slices.Collect(maps.Values(byID)), err
}

// balancer converts a load balancer of an answer.
func balancer(action string, l types.LoadBalancer) (cloud.Balancer, error) {
	v := cloud.Balancer{
		ID: value(l.LoadBalancerArn), Name: value(l.LoadBalancerName), Network: value(l.VpcId), Scheme: cloud.Scheme(l.Scheme), Families: cloud.AddressFamilies(l.IpAddressType),
		Host: value(l.DNSName), Security: slices.Sorted(slices.Values(l.SecurityGroups)),
	}
	switch {
	case !balancerARN.MatchString(v.ID):
		return v, strange(action, "load balancer", v.ID)
	case v.Host != "" && !balancerHost.MatchString(v.Host):
		return v, strange(action, "DNS name", v.Host)
	}
	if l.State != nil {
		v.State, v.Why = clip(string(l.State.Code)), clip(value(l.State.Reason))
	}
	for _, z := range l.AvailabilityZones {
		p := cloud.SubnetMapping{Subnet: value(z.SubnetId), Zone: value(z.ZoneName)}
		if !resourceID.MatchString(p.Subnet) {
			return v, strange(action, "subnet", p.Subnet)
		}
		for _, a := range z.LoadBalancerAddresses {
			p.Allocation, p.IPv4, p.IPv6 = cmp.Or(p.Allocation, value(a.AllocationId)), cmp.Or(p.IPv4, value(a.PrivateIPv4Address)), cmp.Or(p.IPv6, value(a.IPv6Address))
		}
		v.Mappings = append(v.Mappings, p)
	}
	cloud.SortMappings(v.Mappings)
	for _, id := range v.Security {
		if !isGroup(id) {
			return v, strange(action, "security group", id)
		}
	}
	return v, nil
}

// describeTargetGroups returns all target groups of the account, in the VPC of the cloud
// config if it names one.
func (c *Client) describeTargetGroups(ctx context.Context) ([]cloud.TargetGroup, error) {
	byID := make(map[string]cloud.TargetGroup)
	err := eachPage(ctx, c, describeTargetGroups, func(ctx context.Context, marker *string) (*elb.DescribeTargetGroupsOutput, error) {
		return c.elb.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{PageSize: aws.Int32(largestELBPage), Marker: marker})
	}, func(out *elb.DescribeTargetGroupsOutput) (*string, error) {
		for _, g := range out.TargetGroups {
			if c.config.VPC != "" && value(g.VpcId) != c.config.VPC {
				continue
			}
			v, err := targetGroup(describeTargetGroups, g)
			if err != nil {
				return nil, err
			}
			byID[v.ID] = v
		}
		return out.NextMarker, nil
	})
	return slices.Collect(maps.Values(byID)), err
}

// targetGroup converts a target group of an answer.
func targetGroup(action string, g types.TargetGroup) (cloud.TargetGroup, error) {
	v := cloud.TargetGroup{
		ID: value(g.TargetGroupArn), Name: value(g.TargetGroupName), Network: value(g.VpcId), Protocol: cloud.Protocol(g.Protocol), Port: int(value(g.Port)),
		Kind: string(g.TargetType), Family: cmp.Or(string(g.IpAddressType), string(cloud.IPv4Only)), Balancers: slices.Sorted(slices.Values(g.LoadBalancerArns)),
		Health: cloud.HealthCheck{
			Protocol: cloud.Protocol(g.HealthCheckProtocol), Port: value(g.HealthCheckPort), Interval: int(value(g.HealthCheckIntervalSeconds)), Timeout: int(value(g.HealthCheckTimeoutSeconds)),
			Healthy: int(value(g.HealthyThresholdCount)), Unhealthy: int(value(g.UnhealthyThresholdCount)),
		},
	}
	if !groupARN.MatchString(v.ID) {
		return v, strange(action, "target group", v.ID)
	}
	if strings.HasPrefix(string(v.Health.Protocol), "HTTP") {
		v.Health.Path = value(g.HealthCheckPath)
		if g.Matcher != nil {
			v.Health.Codes = value(g.Matcher.HttpCode)
		}
	}
	return v, nil
}
