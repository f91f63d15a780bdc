package aws

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

const describeInterfaces = "DescribeNetworkInterfaces"

// readBastion reads the cluster's bastion. The cluster's machines have the same owner,
// so the tag with the object's key distinguishes the bastion.
func (r *networkReader) readBastion(ctx context.Context, p part) error {
	key := awsnet.Bastion{}.Key()
	all, err := r.c.networkInstances(ctx, r.ourTag(), filter("tag:"+awsnet.PartTag, key.String()))
	if err == nil {
		r.set(p, all)
	}
	return err
}

// networkInstances returns the instances that the filters select, as bastions.
func (c *Client) networkInstances(ctx context.Context, by ...types.Filter) (foundList, error) {
	var all foundList
	err := eachPage(ctx, c, describeInstances, func(ctx context.Context, token *string) (*ec2.DescribeInstancesOutput, error) {
		return c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: by, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeInstancesOutput) (*string, error) {
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				f, there, err := bastionOf(i)
				if err != nil {
					return nil, err
				}
				if there {
					all = append(all, f)
				}
			}
		}
		return out.NextToken, nil
	})
	return sortedFound(all), err
}

// bastionOf converts an instance of an answer. It returns false if the instance is
// terminated.
func bastionOf(i types.Instance) (f awsnet.Found, there bool, err error) {
	f = awsnet.Found{ID: value(i.InstanceId), Tags: tagsOf(i.Tags)}
	if err := ids(describeInstances, f.ID, "i", "instance ID"); err != nil {
		return f, false, err
	}
	o := awsnet.Bastion{Type: clip(string(i.InstanceType)), Image: clip(value(i.ImageId)), SSHKey: clip(value(i.KeyName))}
	if f.Given.Address, err = addressOf(describeInstances, value(i.PublicIpAddress)); err != nil {
		return f, false, err
	}
	if f.Given.Private, err = addressOf(describeInstances, value(i.PrivateIpAddress)); err != nil {
		return f, false, err
	}
	switch value(i.State).Name {
	case types.InstanceStateNameTerminated:
		return f, false, nil
	case types.InstanceStateNameShuttingDown:
		f.State = awsnet.Deleting
	case types.InstanceStateNamePending:
		f.State = awsnet.Pending
	}
	if f.State != awsnet.Deleting || i.SubnetId != nil { // an instance that is being terminated may have lost its interface
		if err := ids(describeInstances, value(i.SubnetId), "subnet", "subnet"); err != nil {
			return f, false, err
		}
	}
	if i.SubnetId != nil {
		o.Subnet = awsnet.Foreign(*i.SubnetId)
	}
	var groups []string
	for _, g := range i.SecurityGroups {
		if err := ids(describeInstances, value(g.GroupId), "sg", "security group"); err != nil {
			return f, false, err
		}
		groups = append(groups, *g.GroupId)
	}
	if len(groups) > 0 {
		o.Group = awsnet.Foreign(slices.Min(groups))
	}
	f.Object = o
	return f, true, nil
}

// holderList is the network interfaces.
type holderList []awsnet.Holder

// readHolders reads all network interfaces in the network's VPCs.
func (r *networkReader) readHolders(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	var all holderList
	err = eachPage(ctx, r.c, describeInterfaces, func(ctx context.Context, token *string) (*ec2.DescribeNetworkInterfacesOutput, error) {
		return r.c.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: by, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeNetworkInterfacesOutput) (*string, error) {
		for _, n := range out.NetworkInterfaces {
			h, err := holderOf(n)
			if err != nil {
				return nil, err
			}
			all = append(all, h)
		}
		return out.NextToken, nil
	})
	if err == nil {
		slices.SortFunc(all, func(a, b awsnet.Holder) int { return strings.Compare(a.ID, b.ID) })
		r.set(p, all)
	}
	return err
}

// holderOf converts a network interface of an answer.
func holderOf(n types.NetworkInterface) (awsnet.Holder, error) {
	h := awsnet.Holder{
		ID: value(n.NetworkInterfaceId), VPC: value(n.VpcId), Subnet: value(n.SubnetId), Tags: tagsOf(n.TagSet),
		Description: clip(value(n.Description)), Requester: clip(value(n.RequesterId)),
		Public: n.Association != nil && value(n.Association.PublicIp) != "",
	}
	if err := ids(describeInterfaces, h.ID, "eni", "network interface", h.VPC, "vpc", "VPC", h.Subnet, "subnet", "subnet"); err != nil {
		return h, err
	}
	for _, g := range n.Groups {
		if err := ids(describeInterfaces, value(g.GroupId), "sg", "security group"); err != nil {
			return h, err
		}
		h.Groups = append(h.Groups, *g.GroupId)
	}
	for _, a := range n.PrivateIpAddresses {
		h.Public = h.Public || a.Association != nil && value(a.Association.PublicIp) != ""
	}
	if n.Attachment != nil {
		h.Instance = clip(value(n.Attachment.InstanceId))
	}
	return h, nil
}
