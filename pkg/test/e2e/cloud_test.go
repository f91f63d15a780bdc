//go:build cloud

package e2e

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/subnet"
)

// TestCloudRoutesAndFallsBack runs hosts with the backend cloud, a real tulle-controller
// that knows them from etcd alone, and a VPC whose router carries out the account's route
// tables. Pods reach each other without the tunnel. A table that is full sends one peer
// through the tunnel, and more room brings it back. Pings run all the time, and none is
// lost. It takes half a minute: it builds tulle-controller and starts it three times.
func TestCloudRoutesAndFallsBack(t *testing.T) {
	t.Parallel()
	v := newVPC(t)
	one, two, three := v.hosts[0], v.hosts[1], v.hosts[2]
	pings := []*streams{v.pings(one, three), v.pings(three, two), v.pings(two, one)}
	v.awaitWays(one, "2=tunnel 3=tunnel")
	for _, p := range pings {
		p.more(5)
	}

	v.aws.Tag(v.net.Main, ours())
	v.carryOut(v.net.Main)
	v.control()
	v.awaitWays(one, "2=direct 3=direct")
	v.awaitWays(two, "1=direct 3=direct")
	v.awaitWays(three, "1=direct 2=direct")
	sent, received := v.tunnelled(one)
	for _, p := range pings {
		p.more(20)
	}
	if s, r := v.tunnelled(one); s != sent || r != received {
		t.Errorf("%d packets left through the tunnel, and %d came", s-sent, r-received)
	}

	// The third host moves to a subnet whose table has room for two routes.
	full := v.aws.AddTable(v.net.VPC, ours(), v.net.Subnets[1])
	for _, other := range []string{"10.6.1.0/24", "10.6.2.0/24", "10.6.3.0/24"} {
		v.aws.SetRoute(full, other, v.aws.Instances()[0].ID)
	}
	v.carryOut(v.net.Main, full)
	v.control()
	v.awaitWays(one, "2=direct 3=tunnel")
	v.awaitWays(two, "1=direct 3=tunnel")
	v.awaitWays(three, "1=direct 2=direct")
	v.assign(three, 1)
	sent, _ = v.tunnelled(one)
	_, back := v.tunnelled(three)
	for _, p := range pings {
		p.more(20)
	}
	if s, _ := v.tunnelled(one); s == sent {
		t.Error("nothing leaves through the tunnel")
	}
	if _, r := v.tunnelled(three); r == back {
		t.Error("nothing comes through the tunnel")
	}
	if out, _ := v.command(one, "explain", three.Pods[0].Addr[subnet.IPv4].String()); !strings.Contains(out, "is not routed in all tables of "+v.net.VPC) {
		t.Errorf("explain says\n%s", out)
	}

	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = 500 })
	v.control()
	v.awaitWays(one, "2=direct 3=direct")
	v.awaitWays(two, "1=direct 3=direct")
	v.awaitWays(three, "1=direct 2=direct")
	// Without a controller, all stays as it is.
	v.stopped()
	for _, p := range pings {
		p.more(20)
		p.wantLost(0)
	}
}
