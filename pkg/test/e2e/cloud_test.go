//go:build cloud

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/subnet"
)

const (
	cloudConfig     = `{"Network": "10.5.0.0/16", "Backend": {"Type": "cloud"}}`
	cloudDualConfig = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "cloud"}}`
)

// allDirect describes a network in which no peer needs a tunnel.
var allDirect = []string{"2=direct 3=direct", "1=direct 3=direct", "1=direct 2=direct"}

// TestCloudRoutesAndFallsBack runs the backend cloud in a VPC. A real tulle-controller
// knows the hosts from etcd alone, and the VPC's router carries out the account's route
// tables. Pods reach each other without the tunnel. If a table is full, one peer is
// reached through the tunnel until there is room again. No ping is lost. The test takes
// half a minute: it builds tulle-controller and starts it three times.
func TestCloudRoutesAndFallsBack(t *testing.T) {
	t.Parallel()
	v := newEtcdVPC(t, cloudConfig, subnet.IPv4)
	one, three := v.hosts[0], v.hosts[2]
	pings := v.circle()
	v.awaitPaths(one, "2=tunnel 3=tunnel")
	each(pings, func(p *streams) { p.more(5) })

	v.aws.Tag(v.net.Main, ours())
	v.carryOut(v.net.Main)
	v.control()
	v.awaitAllPaths(allDirect...)
	before := v.tunnelled(one)
	each(pings, func(p *streams) { p.more(20) })
	if now := v.tunnelled(one); now != before {
		t.Errorf("packets took the tunnel: %+v, and before %+v", now, before)
	}

	// The third host moves to a subnet whose table has room for two routes.
	full := v.aws.AddTable(v.net.VPC, ours(), v.net.Subnets[1])
	for _, other := range []string{"10.6.1.0/24", "10.6.2.0/24", "10.6.3.0/24"} {
		v.aws.SetRoute(full, other, v.aws.Instances()[0].ID)
	}
	v.carryOut(v.net.Main, full)
	v.control()
	v.awaitAllPaths("2=direct 3=tunnel", "1=direct 3=tunnel", "1=direct 2=direct")
	v.assign(three, 1)
	before = v.tunnelled(one)
	back := v.tunnelled(three)
	each(pings, func(p *streams) { p.more(20) })
	if v.tunnelled(one)[subnet.IPv4].sent == before[subnet.IPv4].sent {
		t.Error("nothing leaves through the tunnel")
	}
	if v.tunnelled(three)[subnet.IPv4].received == back[subnet.IPv4].received {
		t.Error("nothing comes through the tunnel")
	}
	if out, _ := v.command(one, "explain", three.Pods[0].Addr[subnet.IPv4].String()); !strings.Contains(out, "is not routed in all tables of "+v.net.VPC) {
		t.Errorf("explain says\n%s", out)
	}

	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = 500 })
	v.control()
	v.awaitAllPaths(allDirect...)
	// Without a controller, nothing changes.
	v.stopped()
	each(pings, func(p *streams) {
		p.more(20)
		p.wantLost(0)
	})
}

// TestCloudRoutesBothFamilies does the same with pods of both families. A table's quota
// counts each family separately: if a table is full for IPv6, only IPv6 packets to one
// peer take the tunnel. It takes half a minute, as the test above does.
func TestCloudRoutesBothFamilies(t *testing.T) {
	t.Parallel()
	v := newEtcdVPC(t, cloudDualConfig, subnet.IPv4, subnet.IPv6)
	one, three := v.hosts[0], v.hosts[2]
	pings := v.circle()
	v.awaitPaths(one, "2=tunnel 3=tunnel")
	each(pings, func(p *streams) { p.more(5) })

	v.aws.Tag(v.net.Main, ours())
	v.carryOut(v.net.Main)
	v.control()
	v.awaitAllPaths(allDirect...)
	// takes checks which families of packets go from the first host to the third through
	// the tunnel.
	takes := func(want subnet.Pair[bool]) {
		t.Helper()
		sent, received := v.tunnelled(one), v.tunnelled(three)
		each(pings, func(p *streams) { p.more(20) })
		nowSent, nowReceived := v.tunnelled(one), v.tunnelled(three)
		for _, f := range subnet.Families {
			left, came := nowSent[f].sent > sent[f].sent, nowReceived[f].received > received[f].received
			if left != want[f] || came != want[f] {
				t.Errorf("%s: families whose packets leave through the tunnel: %v, and arrive through it: %v; want %v", f, left, came, want[f])
			}
		}
	}
	takes(subnet.Pair[bool]{})

	// Each of two further tables has room for two hosts, in one family.
	full := subnet.Pair[[]string]{{"10.6.1.0/24", "10.6.2.0/24", "10.6.3.0/24"}, {"fd00:6:1::/64", "fd00:6:2::/64", "fd00:6:3::/64"}}
	tables := []string{v.net.Main}
	fill := func(f subnet.Family) {
		t.Helper()
		table := v.aws.AddTable(v.net.VPC, ours(), v.net.Subnets[len(tables)])
		for _, other := range full[f] {
			v.aws.SetRoute(table, other, v.instance(one).ID)
		}
		tables = append(tables, table)
		v.carryOut(tables...)
		v.control()
	}
	fill(subnet.IPv6)
	v.awaitAllPaths("2=direct 3=tunnel and direct", "1=direct 3=tunnel and direct", "1=direct 2=direct")
	v.assign(three, 1)
	takes(subnet.Pair[bool]{subnet.IPv6: true})
	said := fmt.Sprintf("%s is not routed in all tables of %s", v.subnetOf(three, subnet.IPv6), v.net.VPC)
	if out, _ := v.command(one, "explain", three.Pods[0].Addr[subnet.IPv6].String()); !strings.Contains(out, said) {
		t.Errorf("the output of explain lacks %q:\n%s", said, out)
	}
	fill(subnet.IPv4)
	v.awaitAllPaths("2=direct 3=tunnel", "1=direct 3=tunnel", "1=direct 2=direct")
	v.assign(one, 2)
	takes(subnet.Pair[bool]{true, true})

	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = 500 })
	v.control()
	v.awaitAllPaths(allDirect...)
	takes(subnet.Pair[bool]{})
	each(pings, func(p *streams) { p.wantLost(0) })
}
