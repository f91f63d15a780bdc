package aws

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// states maps the states of EC2 to ours.
var states = map[types.InstanceStateName]cloud.State{
	types.InstanceStateNamePending: cloud.Starting, types.InstanceStateNameRunning: cloud.Running,
	types.InstanceStateNameStopping: cloud.Stopping, types.InstanceStateNameStopped: cloud.Stopped,
	types.InstanceStateNameShuttingDown: cloud.Terminating, types.InstanceStateNameTerminated: cloud.Terminated,
}

// instance converts an instance of an answer. It fails if the answer holds a value that the
// API cannot have sent, so that the answer cannot be trusted.
func (c *Client) instance(i types.Instance, account string) (cloud.Instance, error) {
	bad := func(what, value string) (cloud.Instance, error) {
		return cloud.Instance{}, strange(describeInstances, what, value)
	}
	v := cloud.Instance{ID: value(i.InstanceId), Account: account, Region: c.region, Network: value(i.VpcId), Launched: value(i.LaunchTime)}
	if !instanceID.MatchString(v.ID) {
		return bad("instance ID", v.ID)
	}
	v.Name = v.ID
	v.Type = c.labels.Check("type", string(i.InstanceType), v.ID, labelValue)
	if i.State != nil {
		v.State = states[i.State.Name]
	}
	if v.State == "" {
		return bad("state", string(value(i.State).Name))
	}
	if i.Placement != nil {
		v.Zone = c.labels.Check("zone", value(i.Placement.AvailabilityZone), v.ID, zoneName)
		v.ZoneID = c.labels.Check("zone ID", value(i.Placement.AvailabilityZoneId), v.ID, labelValue)
	}
	v.ProviderID = providerID(v.Zone, v.ID)
	interfaces := sorted(i.NetworkInterfaces)
	if len(interfaces) > 0 {
		first := interfaces[0]
		if v.Interface = value(first.NetworkInterfaceId); v.Interface != "" && !resourceID.MatchString(v.Interface) {
			return bad("network interface", v.Interface)
		}
		for _, g := range first.Groups {
			if id := value(g.GroupId); resourceID.MatchString(id) {
				v.Groups = append(v.Groups, id)
			} else {
				return bad("security group", id)
			}
		}
		slices.Sort(v.Groups)
		v.Forwards = first.SourceDestCheck != nil && !*first.SourceDestCheck
		v.Network = cmp.Or(v.Network, value(first.VpcId))
	}
	for _, family := range c.config.Families {
		switch family {
		case "ipv6":
			v.Addresses = append(v.Addresses, addresses6(interfaces)...)
		default:
			v.Addresses = append(v.Addresses, addresses4(i, interfaces)...)
		}
	}
	return v, nil
}

// sorted returns the interfaces in the order of their devices. The first one is the primary
// interface.
func sorted(all []types.InstanceNetworkInterface) []types.InstanceNetworkInterface {
	place := func(n types.InstanceNetworkInterface) int32 {
		if n.Attachment == nil || n.Attachment.DeviceIndex == nil {
			return 1 << 30
		}
		return value(n.Attachment.NetworkCardIndex)<<16 + *n.Attachment.DeviceIndex
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b types.InstanceNetworkInterface) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// addresses4 returns the IPv4 addresses, and the names, in the order of AWS's own controller.
// The order matters: a kubelet takes the first address of a type.
func addresses4(i types.Instance, interfaces []types.InstanceNetworkInterface) (all []cloud.Address) {
	for _, n := range interfaces {
		if n.Status != types.NetworkInterfaceStatusInUse {
			continue
		}
		for _, p := range n.PrivateIpAddresses {
			all = appendIP(all, cloud.InternalIP, value(p.PrivateIpAddress))
		}
	}
	all = appendIP(all, cloud.ExternalIP, value(i.PublicIpAddress))
	if name := value(i.PrivateDnsName); hostName.MatchString(name) {
		all = append(all, cloud.Address{Type: cloud.InternalDNS, Value: name}, cloud.Address{Type: cloud.Hostname, Value: name})
	}
	if name := value(i.PublicDnsName); hostName.MatchString(name) {
		all = append(all, cloud.Address{Type: cloud.ExternalDNS, Value: name})
	}
	return all
}

// addresses6 returns the first IPv6 address of each interface, as InternalIP.
func addresses6(interfaces []types.InstanceNetworkInterface) (all []cloud.Address) {
	for _, n := range interfaces {
		if n.Status == types.NetworkInterfaceStatusInUse && len(n.Ipv6Addresses) > 0 {
			all = appendIP(all, cloud.InternalIP, value(n.Ipv6Addresses[0].Ipv6Address))
		}
	}
	return all
}

// appendIP appends an address. It skips an invalid one.
func appendIP(all []cloud.Address, t cloud.AddressType, text string) []cloud.Address {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() != "" {
		return all
	}
	return append(all, cloud.Address{Type: t, Value: ip.String()})
}
