package aws

import (
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// TestSubnetsAreThoseOfTheCluster: if a subnet of a VPC has the tag, all of its subnets are the
// cluster's. They have the facts that decide whether balancers may use them.
func TestSubnetsAreThoseOfTheCluster(t *testing.T) {
	f, c := newAccount(t)
	n := f.AddNetwork("10.7.0.0/16", 20, true)
	_, err := c.Subnets(t.Context())
	wantKind(t, err, cloud.Missing)

	f.Tag(n.Subnets[1], map[string]string{tag: "shared", "Name": "b", "kubernetes.io/role/elb": "1"})
	f.AddTable(n.VPC, nil, n.Subnets[2]) // without a route to the gateway
	f.SetRoute(n.Main, "0.0.0.0/0", "igw-0123456789abcdef0")
	all, err := c.Subnets(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, s := range all {
		if s.Network != n.VPC || !s.Regular || s.Free != 4091 || !s.IPv4.IsValid() || s.IPv6.Bits() != 64 || s.Zone == "" {
			t.Errorf("%+v", s)
		}
		if public := s.ID != n.Subnets[2]; s.Public != public {
			t.Errorf("%s is public: %t", s.ID, s.Public)
		}
		if s.ID == n.Subnets[1] && (s.Name != "b" || s.Tags["kubernetes.io/role/elb"] != "1" || s.IPv4 != netip.MustParsePrefix("10.7.16.0/20")) {
			t.Errorf("%+v", s)
		}
	}
	if _, err := c.Subnets(t.Context()); err != nil || f.Count(describeZones) != 1 {
		t.Errorf("%v, %d reads of zones", err, f.Count(describeZones))
	}
	// VPC in the cloud config overrides the tags.
	c = newClient(t, "[Global]\nVPC = "+f.Default().VPC)
	if all, err = c.Subnets(t.Context()); err != nil || len(all) != 3 || all[0].Network != f.Default().VPC || !all[0].Public || all[0].IPv6.IsValid() {
		t.Errorf("%+v, %v", all, err)
	}
}
