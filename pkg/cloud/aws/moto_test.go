//go:build aws

package aws

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/mototest"
)

// launchOnMoto launches tagged instances, and returns their IDs.
func launchOnMoto(t *testing.T, c *Client, n int32) (ids []string) {
	t.Helper()
	out, err := c.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: sdk.String("ami-12c6146b"), MinCount: &n, MaxCount: &n,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: sdk.String("kubernetes.io/cluster/prod"), Value: sdk.String("owned")}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range out.Instances {
		ids = append(ids, *i.InstanceId)
	}
	return ids
}

// TestMotoServesTheClient makes every call of the client against an implementation of
// AWS that is not ours.
func TestMotoServesTheClient(t *testing.T) {
	mototest.Start(t)
	c, err := New(t.Context(), Options{Config: Config{Families: []string{"ipv4"}}, Cluster: "prod", Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	launched := launchOnMoto(t, c, 250)
	gone := "i-0123456789abcdef0"
	found, err := c.Instances(t.Context(), append(slices.Clone(launched), gone))
	if err != nil || len(found) != 251 || found[gone].State != cloud.Absent {
		t.Fatalf("%d instances, %+v, %v", len(found), found[gone], err)
	}
	a, b := found[launched[0]], found[launched[1]]
	if a.State != cloud.Running || a.Zone == "" || a.Interface == "" || a.Forwards || a.Network == "" || len(a.Addresses) < 3 || a.Account == "" {
		t.Errorf("%+v", a)
	}
	name := a.Addresses[slices.IndexFunc(a.Addresses, func(x cloud.Address) bool { return x.Type == cloud.InternalDNS })].Value
	if named, err := c.Named(t.Context(), []string{name, launched[1]}); err != nil || named[name].ID != a.ID || named[launched[1]].ID != b.ID {
		t.Errorf("%+v, %v", named, err)
	}
	table, err := c.ec2.CreateRouteTable(t.Context(), &ec2.CreateRouteTableInput{VpcId: &a.Network, TagSpecifications: []types.TagSpecification{{
		ResourceType: types.ResourceTypeRouteTable, Tags: []types.Tag{{Key: sdk.String("kubernetes.io/cluster/prod"), Value: sdk.String("owned")}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	id := *table.RouteTable.RouteTableId
	testRoutesOnMoto(t, c, id, a, b)
	if err := c.Forward(t.Context(), a); err != nil {
		t.Error(err)
	}
	fresh, err := c.read(t.Context(), []string{a.ProviderID})
	if err != nil || !fresh[a.ProviderID].Forwards {
		t.Errorf("%+v, %v", fresh, err)
	}
	for call, n := range c.Calls() {
		if call.Outcome != "ok" {
			t.Errorf("%d calls of %s: %s", n, call.Action, call.Outcome)
		}
	}
}

// testRoutesOnMoto adds, replaces and removes a route.
func testRoutesOnMoto(t *testing.T, c *Client, table string, a, b cloud.Instance) {
	t.Helper()
	to := netip.MustParsePrefix("10.244.7.0/24")
	now := func() (r cloud.Route, there bool) {
		all, err := c.Tables(t.Context())
		if err != nil || len(all) != 1 || all[0].ID != table || all[0].Quota.Most[0] == 0 {
			t.Fatalf("%+v, %v", all, err)
		}
		i := slices.IndexFunc(all[0].Routes, func(r cloud.Route) bool { return r.Destination == to })
		if i < 0 {
			return r, false
		}
		return all[0].Routes[i], true
	}
	change := func(verb cloud.Verb, i cloud.Instance, was cloud.Route) {
		t.Helper()
		c.tables.reads = nil // forget the cached reads
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.ChangeRoutes(ctx, []cloud.RouteChange{{Table: table, Verb: verb, Destination: to, Instance: i.ID, Interface: i.Interface, Was: was}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	change(cloud.Add, a, cloud.Route{})
	was, there := now()
	if !there || !was.LeadsTo(a) || was.Origin != cloud.Created {
		t.Errorf("%+v", was)
	}
	change(cloud.Replace, b, was)
	if was, there = now(); !there || !was.LeadsTo(b) {
		t.Errorf("%+v", was)
	}
	change(cloud.Remove, cloud.Instance{}, was)
	if was, there = now(); there {
		t.Errorf("%+v", was)
	}
}
