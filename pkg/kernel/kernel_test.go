package kernel

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

func open(t testing.TB, ns *kerneltest.NS) *Kernel {
	t.Helper()
	k, err := New(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func vxlanLink(name string) netstate.Link {
	return netstate.Link{
		Name: name, Kind: "vxlan", MAC: netstate.MAC{0x3a, 1, 2, 3, 4, 5}, MTU: 1450, Group: 84, Up: true,
		Local: netip.MustParseAddr("198.18.0.1"), VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
	}
}

// vxlanPeer returns the objects that reach the i-th peer.
func vxlanPeer(link string, i int) []netstate.Object {
	dst := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	mac := netstate.MAC{0x3a, 0xff, 0, byte(i >> 16), byte(i >> 8), byte(i)}
	subnet := netip.PrefixFrom(dst, 32)
	return []netstate.Object{
		netstate.Neigh{Link: link, IP: subnet.Addr(), MAC: mac},
		netstate.FDB{Link: link, MAC: mac, Dst: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})},
		netstate.Route{Dst: subnet, Via: subnet.Addr(), Link: link, OnLink: true, Metric: netstate.SpreadMetric(subnet)},
	}
}

// hostState returns one object of each kind, in both families.
func hostState() *netstate.State {
	p := netip.MustParsePrefix
	mac := netstate.MAC{0x3a, 9, 9, 9, 9, 9}
	link6 := vxlanLink("tulle6.1")
	link6.Local, link6.MTU = netip.MustParseAddr("fd00:18::1"), 1430
	link6.VXLAN.Learning, link6.VXLAN.GBP, link6.VXLAN.VNI = true, true, 2
	return netstate.Of(
		vxlanLink("tulle.1"), link6,
		netstate.Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "1"},
		netstate.Sysctl{Path: "net/ipv4/conf/tulle.1/rp_filter", Value: "2"},
		netstate.Sysctl{Path: "net/ipv6/conf/tulle6.1/accept_ra", Value: "0"},
		netstate.TxChecksum("tulle.1", "off"), netstate.TxChecksum("tulle6.1", "on"),
		netstate.Addr{Link: "tulle.1", Prefix: p("10.5.34.0/32")},
		netstate.Addr{Link: "tulle6.1", Prefix: p("fd00:5:0:22::/128")},
		netstate.Neigh{Link: "tulle.1", IP: netip.MustParseAddr("10.5.35.0"), MAC: mac},
		netstate.Neigh{Link: "tulle6.1", IP: netip.MustParseAddr("fd00:5:0:23::"), MAC: mac},
		netstate.FDB{Link: "tulle.1", MAC: mac, Dst: netip.MustParseAddr("198.18.0.2")},
		netstate.FDB{Link: "tulle6.1", MAC: mac, Dst: netip.MustParseAddr("fd00:18::2")},
		netstate.Route{Dst: p("10.5.35.0/24"), Via: netip.MustParseAddr("10.5.35.0"), Link: "tulle.1", OnLink: true, MTU: 1400},
		netstate.Route{Dst: p("10.5.36.0/24"), Via: netip.MustParseAddr("10.5.36.0"), Link: "tulle.1", OnLink: true, Metric: 17},
		netstate.Route{Dst: p("fd00:5:0:23::/64"), Via: netip.MustParseAddr("fd00:5:0:23::"), Link: "tulle6.1", OnLink: true},
		netstate.Route{Dst: p("10.5.37.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"},
		netstate.Route{Dst: p("fd00:5:0:25::/64"), Via: netip.MustParseAddr("fd00:18::9"), Link: "eth0", MTU: 1300},
		netstate.Route{Dst: p("10.5.34.0/24"), Drop: true, Metric: 1 << 31},
		netstate.Route{Dst: p("fd00:5:0:22::/64"), Drop: true, Metric: 1 << 31},
	)
}

// host returns a namespace with an interface eth0 that leads nowhere.
func host(t testing.TB) *kerneltest.NS {
	ns := kerneltest.NewNS(t, "host")
	ns.IP(t, "link add eth0 type veth peer name eth0peer")
	for _, link := range []string{"eth0", "eth0peer"} {
		setUp(t, ns, link)
	}
	ns.IP(t, "addr add 198.18.0.1/16 dev eth0")
	ns.IP(t, "addr add fd00:18::1/64 dev eth0 nodad")
	return ns
}

// setUp sets a link up without a link-local address, which would appear, and stop
// being tentative, at an unknown time.
func setUp(t testing.TB, ns *kerneltest.NS, link string) {
	t.Helper()
	ns.IP(t, "link set "+link+" addrgenmode none")
	ns.IP(t, "link set "+link+" up")
}

func dump(t testing.TB, k *Kernel, want *netstate.State) []netstate.Object {
	t.Helper()
	scope := netstate.Scope{}
	for o := range want.All() {
		if s, ok := o.(netstate.Sysctl); ok {
			scope.Sysctls = append(scope.Sysctls, s.Path)
		}
	}
	got, err := k.Dump(context.Background(), scope)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func apply(t testing.TB, k *Kernel, p netstate.Plan) {
	t.Helper()
	if err := k.Apply(context.Background(), p); err != nil {
		t.Fatal(err)
	}
}

func TestApplyThenDumpIsInSync(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	want := hostState()
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	actual := dump(t, k, want)
	if p := netstate.Diff(want, actual); len(p) > 0 {
		t.Fatalf("after applying everything a second diff wants\n%shaving\n%s", p, netstate.Of(actual...))
	}
	if len(actual) != want.Len() {
		t.Errorf("dump has %d objects, want %d:\n%s", len(actual), want.Len(), netstate.Of(actual...))
	}
	routes := ns.IP(t, "route show proto 84")
	for _, line := range []string{
		"10.5.35.0/24 via 10.5.35.0 dev tulle.1 onlink mtu 1400",
		"10.5.36.0/24 via 10.5.36.0 dev tulle.1 metric 17 onlink",
		"10.5.37.0/24 via 198.18.0.9 dev eth0",
	} {
		if !strings.Contains(routes, line) {
			t.Errorf("ip route does not show %q:\n%s", line, routes)
		}
	}
	link := ns.IP(t, "-d link show tulle.1")
	for _, part := range []string{"mtu 1450", "group 84", "3a:01:02:03:04:05", "vxlan id 1 local 198.18.0.1", "dstport 8472 nolearning", ",UP"} {
		if !strings.Contains(link, part) {
			t.Errorf("ip link does not show %q:\n%s", part, link)
		}
	}
}

// TestEachChange changes one thing at a time, as another program would, and expects
// exactly that in the diff.
func TestEachChange(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	want := hostState()
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	for _, c := range []struct {
		name  string
		do    func()
		steps []string // beginnings, sorted; nil: not compared
	}{
		{"route", func() { ns.IP(t, "route del 10.5.35.0/24") }, []string{"create route 10.5.35.0/24"}},
		{"route v6", func() { ns.IP(t, "-6 route del fd00:5:0:23::/64") }, []string{"create route fd00:5:0:23::/64"}},
		{"direct route", func() { ns.IP(t, "route del 10.5.37.0/24") }, []string{"create route 10.5.37.0/24"}},
		{"route made direct", func() { ns.IP(t, "route replace 10.5.36.0/24 via 198.18.0.9 dev eth0 metric 17 proto 84") }, []string{"replace route 10.5.36.0/24"}},
		{"route v6 made direct", func() { ns.IP(t, "-6 route replace fd00:5:0:23::/64 via fd00:18::9 dev eth0 proto 84") }, []string{"replace route fd00:5:0:23::/64"}},
		{"neighbour", func() { ns.IP(t, "neigh del 10.5.35.0 dev tulle.1") }, []string{"create neigh 10.5.35.0"}},
		{"neighbour v6", func() { ns.IP(t, "neigh del fd00:5:0:23:: dev tulle6.1") }, []string{"create neigh fd00:5:0:23::"}},
		{"neighbour's MAC", func() { ns.IP(t, "neigh replace 10.5.35.0 lladdr 3a:00:00:00:00:01 dev tulle.1 nud permanent") }, []string{"replace neigh 10.5.35.0"}},
		{"fdb", func() { ns.Bridge(t, "fdb del 3a:09:09:09:09:09 dev tulle.1 dst 198.18.0.2") }, []string{"create fdb 3a:09:09:09:09:09 dst 198.18.0.2"}},
		{"fdb's host", func() { ns.Bridge(t, "fdb replace 3a:09:09:09:09:09 dev tulle.1 dst 198.18.0.77") }, []string{"replace fdb 3a:09:09:09:09:09 dst 198.18.0.2"}},
		{"address", func() { ns.IP(t, "addr del 10.5.34.0/32 dev tulle.1") }, nil},
		{"address v6", func() { ns.IP(t, "addr del fd00:5:0:22::/128 dev tulle6.1") }, nil},
		{"mtu", func() { ns.IP(t, "link set tulle.1 mtu 1300") }, []string{"replace link tulle.1"}},
		{"group", func() { ns.IP(t, "link set tulle.1 group 3") }, []string{"replace link tulle.1"}},
		{"mac", func() { ns.IP(t, "link set tulle.1 address 3a:00:00:00:00:02") }, nil},
		{"down", func() { ns.IP(t, "link set tulle.1 down") }, nil},
		{"down and up", func() { ns.IP(t, "link set tulle6.1 down"); ns.IP(t, "link set tulle6.1 up") }, nil},
		{"device deleted", func() { ns.IP(t, "link del tulle.1") }, nil},
		{"device of another kind", func() {
			ns.IP(t, "link del tulle.1")
			ns.IP(t, "link add tulle.1 type vxlan id 77 dstport 99")
		}, nil},
		{"setting", func() { ns.Sysctl(t, "net/ipv4/conf/all/forwarding", "0") }, []string{"replace sysctl net/ipv4/conf/all/forwarding"}},
		{"checksum offload", func() { set(t, ns, netstate.TxChecksum("tulle.1", "on")) }, []string{"replace sysctl ethtool/tulle.1/tx-checksum=off"}},
		{"no checksum offload", func() { set(t, ns, netstate.TxChecksum("tulle6.1", "off")) }, []string{"replace sysctl ethtool/tulle6.1/tx-checksum=on"}},
		{"device re-created by others", func() {
			ns.IP(t, "link del tulle.1")
			ns.IP(t, "link add tulle.1 address 3a:01:02:03:04:05 mtu 1450 group 84 up type vxlan id 1 dstport 8472 local 198.18.0.1 nolearning")
		}, nil},
		{"stale route", func() { ns.IP(t, "route add 10.5.99.0/24 via 198.18.0.9 dev eth0 proto 84") }, []string{"delete route 10.5.99.0/24"}},
		{"stale route on our device", func() { ns.IP(t, "route add 10.5.99.0/24 via 10.5.99.0 dev tulle.1 onlink") }, []string{"delete route 10.5.99.0/24"}},
		{"stale neighbour", func() { ns.IP(t, "neigh add 10.5.99.0 lladdr 3a:00:00:00:00:01 dev tulle.1 nud permanent") }, []string{"delete neigh 10.5.99.0"}},
		{"stale fdb", func() { ns.Bridge(t, "fdb add 3a:00:00:00:00:01 dev tulle.1 dst 198.18.0.3") }, []string{"delete fdb 3a:00:00:00:00:01"}},
		{"stale address", func() { ns.IP(t, "addr add 10.5.98.0/32 dev tulle.1") }, []string{"delete addr 10.5.98.0/32"}},
		{"stale device", func() { ns.IP(t, "link add tulle.9 type vxlan id 9 dstport 8472") }, []string{"delete link tulle.9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			plan := netstate.Diff(want, dump(t, k, want))
			if len(plan) == 0 {
				t.Fatal("the diff finds nothing")
			}
			if c.steps != nil {
				var got []string
				for _, op := range plan {
					got = append(got, op.String())
				}
				if len(got) != len(c.steps) || !strings.HasPrefix(got[0], c.steps[0]) {
					t.Errorf("got %q, want %q", got, c.steps)
				}
			}
			apply(t, k, plan)
			if p := netstate.Diff(want, dump(t, k, want)); len(p) > 0 {
				t.Fatalf("after applying\n%sit still wants\n%s", plan, p)
			}
		})
	}
}

// TestOthersUntouched adds and removes everything of ours beside a foreign object of
// each kind.
func TestOthersUntouched(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, c := range []string{
		"link add vx9 type vxlan id 9 dstport 4789",
		"link set vx9 addrgenmode none",
		"link set vx9 up",
		"addr add 10.9.0.1/24 dev vx9",
		"neigh add 10.9.0.2 lladdr 3a:00:00:00:00:01 dev vx9 nud permanent",
		"neigh add 198.18.0.44 lladdr 3a:00:00:00:00:01 dev eth0 nud permanent",
		"route add 10.9.1.0/24 via 10.9.0.2 dev vx9",
		"route add 10.5.77.0/24 via 198.18.0.44 dev eth0",
		"route add 10.5.78.0/24 via 198.18.0.44 dev eth0 proto static",
		"route add 10.5.79.0/24 via 198.18.0.44 dev eth0 proto 84 table 100",
		"route add blackhole 10.5.80.0/24",
		"-6 route add fd00:5:0:77::/64 via fd00:18::44 dev eth0 proto static",
		"rule add from 10.9.0.0/24 lookup 100",
	} {
		ns.IP(t, c)
	}
	ns.Bridge(t, "fdb add 3a:00:00:00:00:07 dev vx9 dst 198.18.0.44")
	before := ns.Print(t)
	want := hostState()
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	if p := netstate.Diff(want, dump(t, k, want)); len(p) > 0 {
		t.Fatalf("still wants\n%s", p)
	}
	none := netstate.Of()
	apply(t, k, netstate.Diff(none, dump(t, k, none)))
	if after := ns.Print(t); after != before {
		t.Errorf("what is not ours has changed; before:\n%s\nafter:\n%s", before, after)
	}
}

func TestRouteInTheWayIsNotReplaced(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	ns.IP(t, "route add 10.5.40.0/24 via 198.18.0.44 dev eth0 proto static")
	ns.IP(t, "-6 route add fd00:5:0:40::/64 via fd00:18::44 dev eth0 proto static")
	good := netstate.Route{Dst: netip.MustParsePrefix("10.5.41.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}
	want := netstate.Of(good,
		netstate.Route{Dst: netip.MustParsePrefix("10.5.40.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"},
		netstate.Route{Dst: netip.MustParsePrefix("fd00:5:0:40::/64"), Via: netip.MustParseAddr("fd00:18::9"), Link: "eth0"},
	)
	err := k.Apply(context.Background(), netstate.Diff(want, dump(t, k, want)))
	var failures netstate.Failures
	if !errors.As(err, &failures) || len(failures) != 2 || !errors.Is(failures[0], syscall.EEXIST) || !errors.Is(failures[1], syscall.EEXIST) {
		t.Fatalf("got %v, want two steps that fail because something exists", err)
	}
	if got := netstate.Of(dump(t, k, want)...).String(); got != good.String()+"\n" {
		t.Errorf("ours is now %q", got)
	}
	for _, family := range []string{"-4", "-6"} {
		if got := ns.IP(t, family+" route show proto static"); !strings.Contains(got, "44 dev eth0") {
			t.Errorf("the static route is gone: %q", got)
		}
	}
}

// TestBatchReportsEachFailure mixes good steps and bad ones in batches. It expects
// errors for exactly the bad ones, with the kernel's own messages.
func TestBatchReportsEachFailure(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	want := netstate.Of()
	bad := map[netstate.Key]bool{}
	for i := range 3 * batchSize {
		r := netstate.Route{Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 7, byte(i >> 8), byte(i)}), 32), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}
		switch {
		case i%7 == 3:
			r.Via = netip.MustParseAddr("203.0.113.1") // on no link
			bad[r.Key()] = true
		case i%100 == 50:
			r.Link = "nowhere"
			bad[r.Key()] = true
		}
		want.Put(r)
	}
	err := k.Apply(context.Background(), netstate.Diff(want, nil))
	var failures netstate.Failures
	if !errors.As(err, &failures) {
		t.Fatalf("got %v", err)
	}
	for _, f := range failures {
		if !bad[f.Op.Object.Key()] {
			t.Errorf("%v failed: %v", f.Op, f.Err)
		}
	}
	if len(failures) != len(bad) {
		t.Errorf("%d steps failed, want %d", len(failures), len(bad))
	}
	i := slices.IndexFunc(failures, func(f *netstate.OpError) bool { return errors.Is(f, syscall.ENETUNREACH) })
	if i < 0 || !strings.Contains(failures[i].Error(), "Nexthop has invalid gateway") {
		t.Errorf("the kernel's words are missing: %v", failures[:3])
	}
	if n := len(dump(t, k, want)); n != want.Len()-len(bad) {
		t.Errorf("%d routes are in the kernel, want %d", n, want.Len()-len(bad))
	}
}

// TestDeleteWhatIsNotThere checks that it is no failure to delete a missing object.
func TestDeleteWhatIsNotThere(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	var p netstate.Planner
	for o := range hostState().All() {
		if _, ok := o.(netstate.Sysctl); !ok {
			p.Add(netstate.Delete, o)
		}
	}
	apply(t, k, p.Plan())
	// The same with existing links.
	apply(t, k, netstate.Diff(netstate.Of(vxlanLink("tulle.1")), nil))
	p = netstate.Planner{}
	for o := range hostState().All() {
		switch o.(type) {
		case netstate.Sysctl, netstate.Link:
		default:
			p.Add(netstate.Delete, o)
		}
	}
	apply(t, k, p.Plan())
}

// TestDumpOfManyWhileTheyChange fills many pages and changes routes all the time, so
// that dumps are interrupted. The dump must contain every stable object.
func TestDumpOfManyWhileTheyChange(t *testing.T) {
	ns := host(t)
	k, stranger := open(t, ns), open(t, ns)
	want := netstate.Of(vxlanLink("tulle.1"))
	for i := range 3000 {
		for _, o := range vxlanPeer("tulle.1", i) {
			want.Put(o)
		}
	}
	apply(t, k, netstate.Diff(want, nil))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r := netstate.Route{Dst: netip.MustParsePrefix("10.200.0.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, v := range []netstate.Verb{netstate.Create, netstate.Delete} {
				if err := stranger.Apply(context.Background(), netstate.Plan{{Verb: v, Object: r}}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for range 20 {
		var p netstate.Planner
		for _, op := range netstate.Diff(want, dump(t, k, want)) {
			if op.Object.Key().Prefix().String() != "10.200.0.0/24" {
				p.Add(op.Verb, op.Object)
			}
		}
		if plan := p.Plan(); len(plan) > 0 {
			t.Errorf("a dump missed %v", plan)
		}
	}
	close(stop)
	<-done
}

// TestCancelled checks that Dump and Apply return the error of an ended context.
func TestCancelled(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := k.Dump(ctx, netstate.Scope{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Dump: %v", err)
	}
	err := k.Apply(ctx, netstate.Diff(hostState(), nil))
	var failures netstate.Failures
	if !errors.As(err, &failures) || len(failures) != hostState().Len() || !errors.Is(err, context.Canceled) {
		t.Errorf("Apply: %v", err)
	}
}

func TestUnknownNamespace(t *testing.T) {
	if _, err := New("/run/netns/tulle-no-such"); err == nil || !strings.Contains(err.Error(), "tulle-no-such") {
		t.Errorf("got %v", err)
	}
}
