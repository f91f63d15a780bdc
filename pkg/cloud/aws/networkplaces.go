package aws

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
)

// zonesAge is how long an answer about the region's zones counts.
const zonesAge = 10 * time.Minute

// networkZones caches the zones of the region.
type networkZones struct {
	mu   sync.Mutex
	all  []awsnet.Zone
	read time.Time
}

// NetworkZones returns the zones of the region, sorted by name. AWS does not name those that the
// account has not opted in to.
func (c *Client) NetworkZones(ctx context.Context) ([]awsnet.Zone, error) {
	z := &c.places
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.all != nil && time.Since(z.read) < zonesAge {
		return slices.Clone(z.all), nil
	}
	out, err := query(ctx, c, describeZones, func(ctx context.Context) (*ec2.DescribeAvailabilityZonesOutput, error) {
		return c.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	})
	if err != nil {
		return nil, err
	}
	all := []awsnet.Zone{}
	for _, a := range out.AvailabilityZones {
		one := awsnet.Zone{Name: value(a.ZoneName), Type: value(a.ZoneType), Parent: value(a.ParentZoneName)}
		if !zoneName.MatchString(one.Name) || one.Parent != "" && !zoneName.MatchString(one.Parent) {
			return nil, strange(describeZones, "zone", one.Name+" "+one.Parent)
		}
		switch one.Type {
		case awsnet.RegularZone, awsnet.LocalZone, awsnet.WavelengthZone:
		case "": // answers of older API versions
			one.Type = awsnet.RegularZone
		default:
			continue // a type that this program does not know
		}
		one.Usable = a.State == types.AvailabilityZoneStateAvailable && a.OptInStatus != types.AvailabilityZoneOptInStatusNotOptedIn
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b awsnet.Zone) int { return strings.Compare(a.Name, b.Name) })
	z.all, z.read = all, time.Now()
	return slices.Clone(all), nil
}

// ScopeOf returns what a reading of a network covers.
func ScopeOf(n awsnet.Network) NetworkScope {
	return NetworkScope{Owner: n.Owner, VPC: n.VPCID, Balancers: true, Bastion: true, Carrier: hasCarrier(n)}
}

func hasCarrier(n awsnet.Network) bool {
	return slices.ContainsFunc(n.Subnets, func(s awsnet.Net) bool { return s.ZoneType == awsnet.WavelengthZone })
}

// ScopeOfEnd returns what a reading covers before a deletion. vpc is the VPC of the spec if it is
// not the cluster's own, or "".
func ScopeOfEnd(o awsnet.Owner, vpc string) NetworkScope {
	return NetworkScope{Owner: o, VPC: vpc, Balancers: true, Bastion: true, Carrier: true, Holders: true}
}

// NetworkChanger makes the calls of plans for one owner. It is an apply.Client.
type NetworkChanger struct {
	c     *Client
	owner awsnet.Owner
}

var _ apply.Client = NetworkChanger{}

// NetworkChanger returns what carries out the plans of an owner.
func (c *Client) NetworkChanger(o awsnet.Owner) NetworkChanger { return NetworkChanger{c, o} }

// Change makes one call: see Client.ChangeNetwork.
func (n NetworkChanger) Change(ctx context.Context, call awsnet.Call, all []apply.Change) ([]apply.Made, error) {
	return n.c.ChangeNetwork(ctx, n.owner, call, all...)
}

// Now returns the state of what steps wait for: see Client.NetworkNow.
func (n NetworkChanger) Now(ctx context.Context, ids []string) (map[string]awsnet.Found, error) {
	return n.c.NetworkNow(ctx, ids...)
}
