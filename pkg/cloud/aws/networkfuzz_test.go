package aws

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// FuzzNetworkAnswers converts objects of answers with hostile fields. Each must be
// refused, or have only valid IDs, because IDs become filters and parameters of later
// requests.
func FuzzNetworkAnswers(f *testing.F) {
	f.Add("vpc-0a", "subnet-0b", "10.0.0.0/16", "2001:db8::/56", "eu-central-1a", int32(443))
	f.Add("sgr-0a", "sg-0b", "10.0.0.1/16", "::1", "deleted", int32(-1))
	f.Add("nat-0a", "eipalloc-0b", "198.51.100.1", "", "failed", int32(0))
	f.Add("*", "rtb-0a,*", "0.0.0.0/0", "fe80::1%eth0", "\x00", int32(1<<31-1))
	f.Fuzz(func(t *testing.T, id, other, v4, v6, word string, n int32) {
		check := func(err error, all ...awsnet.Found) {
			if err != nil {
				return
			}
			for _, x := range all {
				if x.ID != "" && !isObject(x.ID) {
					t.Errorf("the ID %q", x.ID)
				}
				if x.Object == nil {
					continue
				}
				for _, r := range awsnet.Named(x.Object) {
					if _, route := x.Object.(awsnet.Route); !route && r.ID != "" && !isObject(r.ID) {
						t.Errorf("%T has the Ref %q", x.Object, r.ID)
					}
				}
			}
		}
		p := aws.String
		v, err := vpcOf(types.Vpc{
			VpcId: p(id), CidrBlock: p(v4), State: types.VpcState(word), CidrBlockAssociationSet: []types.VpcCidrBlockAssociation{{AssociationId: p(other), CidrBlock: p(v6)}},
			Ipv6CidrBlockAssociationSet: []types.VpcIpv6CidrBlockAssociation{{AssociationId: p(other), Ipv6CidrBlock: p(v6), Ipv6Pool: p(word)}},
		})
		if err == nil {
			check(nil, facts{}.vpc(v)...)
		}
		nat, err := natOf(types.NatGateway{NatGatewayId: p(id), SubnetId: p(other), State: types.NatGatewayState(word), NatGatewayAddresses: []types.NatGatewayAddress{{AllocationId: p(other), PublicIp: p(v4)}}})
		check(err, nat)
		endpoint, there, err := endpointOf(types.VpcEndpoint{VpcEndpointId: p(id), VpcId: p(other), ServiceName: p(word), VpcEndpointType: types.VpcEndpointTypeGateway, State: types.State(word), RouteTableIds: []string{other}})
		if there {
			check(err, endpoint)
		}
		rule, err := ruleOf(describeRules, types.SecurityGroupRule{SecurityGroupRuleId: p(id), GroupId: p(other), IpProtocol: p(word), FromPort: &n, ToPort: &n, CidrIpv4: p(v4), PrefixListId: p(v6)})
		check(err, rule)
		bastion, there, err := bastionOf(types.Instance{InstanceId: p(id), SubnetId: p(other), PublicIpAddress: p(v4), State: &types.InstanceState{Name: types.InstanceStateName(word)}, SecurityGroups: []types.GroupIdentifier{{GroupId: p(other)}}})
		if there {
			check(err, bastion)
		}
		var tables tableList
		err = tables.add(types.RouteTable{
			RouteTableId: p(id), VpcId: p(other), Associations: []types.RouteTableAssociation{{RouteTableAssociationId: p(v6), SubnetId: p(other)}},
			Routes: []types.Route{{DestinationCidrBlock: p(v4), GatewayId: p(word)}, {DestinationIpv6CidrBlock: p(v6), NatGatewayId: p(other)}, {}},
		})
		check(err, tables.found...)
		groups := groupList{rules: make(map[string][]string), names: make(map[string][]string)}
		err = groups.add(types.SecurityGroup{GroupId: p(id), VpcId: p(other), GroupName: p(word), IpPermissions: []types.IpPermission{{FromPort: &n, IpRanges: []types.IpRange{{CidrIp: p(v4)}}}, {}}})
		check(err, groups.found...)
		if h, err := holderOf(types.NetworkInterface{NetworkInterfaceId: p(id), VpcId: p(other), SubnetId: p(other), Description: p(word)}); err == nil && (!isID("eni", h.ID) || strings.ContainsRune(h.Description, 0)) {
			t.Errorf("%+v", h)
		}
		if b, err := networkBalancer(elb.LoadBalancer{LoadBalancerArn: p(id), DNSName: p(word), SecurityGroups: []string{other}, AvailabilityZones: []elb.AvailabilityZone{{SubnetId: p(other)}}}); err == nil {
			check(nil, facts{}.balancers(balancerList{b})...)
		}
	})
}
