//go:build vm

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// secret is the preshared key of the peers that have one.
const secret = "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// keys returns the keys of the nodes 1 to n, by their public ones.
func keys(t testing.TB, n int) (r *wgkey.Ring, public []netstate.PublicKey, psk netstate.PSK) {
	t.Helper()
	r = &wgkey.Ring{}
	psk, err := r.AddPSK(secret)
	if err != nil {
		t.Fatal(err)
	}
	public = make([]netstate.PublicKey, n+1)
	for i := 1; i <= n; i++ {
		public[i] = r.Add(wgkey.New())
	}
	return r, public, psk
}

func wgLink(name string, key netstate.PublicKey, port uint16) netstate.Link {
	return netstate.Link{
		Name: name, Kind: netstate.TunnelWireGuard, MTU: 1420, Group: netstate.Mark, Up: true,
		WireGuard: netstate.WireGuard{Key: key, Port: port},
	}
}

func wgHost(t *testing.T, nodes int) (*kerneltest.NS, *Kernel, []netstate.PublicKey, netstate.PSK) {
	ns := host(t)
	k := open(t, ns)
	ring, public, psk := keys(t, nodes)
	k.UseSecrets(ring)
	return ns, k, public, psk
}

// settle applies want to the kernel, and checks that a second dump does not differ from
// it.
func settle(t *testing.T, k *Kernel, want *netstate.State) netstate.Plan {
	t.Helper()
	p := netstate.Diff(want, dump(t, k, want))
	if err := k.Apply(context.Background(), p); err != nil {
		t.Fatalf("%v\nof\n%s", err, p)
	}
	if again := netstate.Diff(want, dump(t, k, want)); len(again) > 0 {
		t.Fatalf("a second diff wants\n%shaving\n%s", again, netstate.Of(dump(t, k, want)...))
	}
	return p
}

func TestWireGuardHoldsWhatIsWanted(t *testing.T) {
	ns, k, key, psk := wgHost(t, 5)
	at, p := netip.MustParseAddrPort, netip.MustParsePrefix
	link, link6 := wgLink("tulle-wg", key[1], 51820), wgLink("tulle6-wg", key[1], 51821)
	two := netstate.WGPeer{Link: link.Name, Peer: key[2], Endpoint: at("198.18.0.2:51820"), Keepalive: 25, PSK: psk}
	three := netstate.WGPeer{Link: link.Name, Peer: key[3], Endpoint: at("[fd00:18::3]:51820")}
	two6 := netstate.WGPeer{Link: link6.Name, Peer: key[2], Endpoint: at("[fd00:18::2]:51821")}
	to2 := netstate.WGAllowed{Link: link.Name, Prefix: p("10.5.2.0/24"), Peer: key[2]}
	also2 := netstate.WGAllowed{Link: link.Name, Prefix: p("fd00:5:0:2::/64"), Peer: key[2]}
	to3 := netstate.WGAllowed{Link: link.Name, Prefix: p("10.5.3.0/24"), Peer: key[3]}
	six := netstate.WGAllowed{Link: link6.Name, Prefix: p("fd00:5:0:2::/64"), Peer: key[2]}
	addr := netstate.Addr{Link: link.Name, Prefix: p("10.5.1.0/32")}
	route := netstate.Route{Dst: to2.Prefix, Link: link.Name}
	all := []netstate.Object{link, link6, addr, two, three, two6, to2, also2, to3, six, route}
	if plan := settle(t, k, netstate.Of(all...)); len(plan) != len(all) {
		t.Errorf("it took %d steps:\n%s", len(plan), plan)
	}
	// A second process finds the same state.
	other := open(t, ns)
	if plan := netstate.Diff(netstate.Of(all...), dump(t, other, netstate.Of(all...))); len(plan) > 0 {
		t.Errorf("another process wants\n%s", plan)
	}

	moved, rekeyed := to2, two
	moved.Peer, rekeyed.Peer = key[3], key[4]
	toRekeyed, alsoRekeyed := to2, also2
	toRekeyed.Peer, alsoRekeyed.Peer = key[4], key[4]
	relinked := wgLink("tulle-wg", key[5], 51999)
	less := three
	less.Endpoint = at("198.18.0.3:7")
	for _, step := range []struct {
		name  string
		want  []netstate.Object
		steps int
	}{
		{"a subnet moves", []netstate.Object{link, link6, addr, two, three, two6, moved, also2, to3, six, route}, 1},
		{"a prefix goes", []netstate.Object{link, link6, addr, two, three, two6, moved, to3, six, route}, 1},
		{"and comes back", all, 2},
		{"a peer has another key", []netstate.Object{link, link6, addr, rekeyed, three, two6, toRekeyed, alsoRekeyed, to3, six, route}, 4},
		{"and its old one", all, 4},
		{"another endpoint of the other family", []netstate.Object{link, link6, addr, two, less, two6, to2, also2, to3, six, route}, 1},
		{"the device has another key and port", []netstate.Object{relinked, link6, addr, two, less, two6, to2, also2, to3, six, route}, 1},
		{"a peer goes with all it has", []netstate.Object{relinked, link6, addr, less, two6, to3, six}, 4},
		{"a device goes", []netstate.Object{relinked, addr, less, to3}, 1},
		{"and all", nil, 1},
	} {
		plan := settle(t, k, netstate.Of(step.want...))
		if len(plan) != step.steps {
			t.Errorf("%s: %d steps:\n%s", step.name, len(plan), plan)
		}
	}
	if out := ns.IP(t, "link show group 84"); out != "" {
		t.Errorf("there is still\n%s", out)
	}
}

// TestWireGuardFailures checks that impossible steps fail one by one.
func TestWireGuardFailures(t *testing.T) {
	ns, k, key, _ := wgHost(t, 3)
	apply := func(verb netstate.Verb, objects ...netstate.Object) (failures netstate.Failures) {
		var p netstate.Plan
		for _, o := range objects {
			p = append(p, netstate.Op{Verb: verb, Object: o})
		}
		if err := k.Apply(context.Background(), p); err != nil && !errors.As(err, &failures) {
			t.Fatal(err)
		}
		return failures
	}
	link := wgLink("tulle-wg", key[1], 51820)
	good := netstate.WGPeer{Link: link.Name, Peer: key[2]}
	bad := netstate.WGPeer{Link: link.Name, Peer: key[3], PSK: 99}
	toGood := netstate.WGAllowed{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.2.0/24"), Peer: key[2]}
	toBad := netstate.WGAllowed{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.3.0/24"), Peer: key[3]}

	for _, f := range apply(netstate.Create, good, toGood) {
		if !errors.Is(f, unix.ENODEV) && !errors.Is(f, errNoPeer) {
			t.Errorf("without a device: %v", f)
		}
	}
	if f := apply(netstate.Delete, toGood, good); len(f) > 0 {
		t.Errorf("deleting from a device that is gone: %v", f)
	}
	if f := apply(netstate.Create, link, good, bad, toGood, toBad); len(f) != 2 || f[0].Op.Object != bad || f[1].Op.Object != toBad {
		t.Errorf("got %v", f)
	}
	want := netstate.Of(link, good, toGood)
	if got := netstate.Of(dump(t, k, want)...); !got.Equal(want) {
		t.Errorf("there is\n%s", got)
	}
	ns.IP(t, "link add d0 type dummy")
	onDummy := good
	onDummy.Link = "d0"
	if f := apply(netstate.Create, onDummy); len(f) != 1 || !errors.Is(f, unix.EOPNOTSUPP) || !strings.Contains(f.Error(), "link d0 is not a wireguard device") {
		t.Errorf("on another kind of device: %v", f)
	}

	// A second device cannot have the port, and a dump does not show it with that port.
	rival := wgLink("tulle6-wg", key[2], 51820)
	for range 2 {
		if f := apply(netstate.Create, rival); len(f) != 1 || !errors.Is(f, unix.EADDRINUSE) || !strings.Contains(f.Error(), "ss -lun sport = 51820") {
			t.Errorf("a second device on the port: %v", f)
		}
		if p := netstate.Diff(netstate.Of(link, good, toGood, rival), dump(t, k, want)); len(p) != 1 {
			t.Errorf("a device that could not have its port needs\n%s", p)
		}
	}
	rival.WireGuard.Port = 51821
	settle(t, k, netstate.Of(link, good, toGood, rival))
	rival.WireGuard.Port = 51820
	if f := apply(netstate.Replace, rival); len(f) != 1 || !errors.Is(f, unix.EADDRINUSE) {
		t.Errorf("a living device that changes to the port: %v", f)
	}
	if p := netstate.Diff(netstate.Of(link, good, toGood, rival), dump(t, k, want)); len(p) != 1 {
		t.Errorf("it then needs\n%s", p)
	}
	rival.WireGuard.Port = 51822
	settle(t, k, netstate.Of(link, good, toGood, rival))
}

// TestWireGuardCarriesAndRoams connects two hosts, one of which gets another address.
func TestWireGuardCarriesAndRoams(t *testing.T) {
	a, b := kerneltest.NewNS(t, "a"), kerneltest.NewNS(t, "b")
	a.IP(t, "link add eth0 type veth peer name eth0 netns "+b.Name)
	for i, ns := range []*kerneltest.NS{a, b} {
		ns.IP(t, fmt.Sprintf("addr add 198.18.0.%d/24 dev eth0", i+1))
		ns.IP(t, "link set eth0 up")
	}
	ka, kb := open(t, a), open(t, b)
	ring, key, psk := keys(t, 2)
	ka.UseSecrets(ring)
	kb.UseSecrets(ring)
	side := func(own, peer int, at string, psk netstate.PSK) *netstate.State {
		to := netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", peer))
		return netstate.Of(
			wgLink("tulle-wg", key[own], 51820),
			netstate.Addr{Link: "tulle-wg", Prefix: netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/32", own))},
			netstate.WGPeer{Link: "tulle-wg", Peer: key[peer], Endpoint: netip.MustParseAddrPort(at), PSK: psk},
			netstate.WGAllowed{Link: "tulle-wg", Prefix: to, Peer: key[peer]},
			netstate.Route{Dst: to, Link: "tulle-wg"},
		)
	}
	wantA, wantB := side(1, 2, "198.18.0.2:51820", psk), side(2, 1, "198.18.0.1:51820", psk)
	settle(t, ka, wantA)
	settle(t, kb, side(2, 1, "198.18.0.1:51820", 0))
	ping := func(ns *kerneltest.NS, to string, seconds int) bool {
		return ns.Command("ping", "-c", "1", "-w", fmt.Sprint(seconds), to).Run() == nil
	}
	if ping(a, "10.5.2.0", 3) {
		t.Error("a peer without the preshared key answers")
	}
	settle(t, kb, wantB)
	if !ping(a, "10.5.2.0", 60) {
		t.Fatal("no answer through the tunnel")
	}

	s, err := ka.Sessions(context.Background(), []string{"tulle-wg", "eth0", "missing"})
	if err != nil || len(s.Peers) != 1 {
		t.Fatalf("A has %+v, %v", s, err)
	}
	if p := s.Peers[0]; p.Peer != key[2] || p.Endpoint != netip.MustParseAddrPort("198.18.0.2:51820") || time.Since(p.Handshake).Abs() > time.Minute || p.Received < 200 || p.Sent < 200 || len(s.Links) != 1 || s.Links[0].Received < 100 || s.Links[0].Sent < 100 {
		t.Errorf("A has %+v", s)
	}
	dropped := s.Links[0].Dropped.NoPeer
	a.IP(t, "route add 10.5.9.0/24 dev tulle-wg")
	if ping(a, "10.5.9.1", 1) {
		t.Error("no peer answers")
	}
	if s, err = ka.Sessions(context.Background(), []string{"tulle-wg"}); err != nil || len(s.Links) != 1 || s.Links[0].Dropped.NoPeer <= dropped {
		t.Errorf("without a peer A dropped %+v, %v", s.Links, err)
	}
	a.IP(t, "route del 10.5.9.0/24 dev tulle-wg")

	// B gets another address, and A learns it from B's packets.
	b.IP(t, "addr del 198.18.0.2/24 dev eth0")
	b.IP(t, "addr add 198.18.0.9/24 dev eth0")
	if !ping(b, "10.5.1.0", 60) {
		t.Fatal("no answer from another address")
	}
	at := func(k *Kernel) (p netstate.WGPeer) {
		for _, o := range dump(t, k, wantA) {
			if o, ok := o.(netstate.WGPeer); ok {
				p = o
			}
		}
		return p
	}
	learned := netip.MustParseAddrPort("198.18.0.9:51820")
	if p := at(ka); p.Endpoint != learned || !p.Roamed {
		t.Errorf("A has %s", p)
	}
	if plan := settle(t, ka, wantA); len(plan) > 0 {
		t.Errorf("A would undo it:\n%s", plan)
	}
	// Neither another difference nor a restart restores the old endpoint.
	peer := netstate.WGPeer{Link: "tulle-wg", Peer: key[2], Endpoint: netip.MustParseAddrPort("198.18.0.2:51820"), PSK: psk, Keepalive: 25}
	wantA.Put(peer)
	settle(t, ka, wantA)
	if p := at(ka); p.Endpoint != learned || p.Keepalive != 25 {
		t.Errorf("A has %s", p)
	}
	restarted := open(t, a)
	restarted.UseSecrets(ring)
	if plan := settle(t, restarted, wantA); len(plan) > 0 {
		t.Errorf("after a restart A would undo it:\n%s", plan)
	}
	// A changed lease sets a new one.
	peer.Endpoint = netip.MustParseAddrPort("198.18.0.7:51820")
	apply(t, ka, netstate.Plan{{Verb: netstate.Replace, Object: peer}})
	if p := at(ka); p != peer {
		t.Errorf("A has %s", p)
	}
}

// TestWireGuardOfManyPeers checks that batches, and dumps of many messages, are
// complete. Its times mean little, because the machine is emulated.
func TestWireGuardOfManyPeers(t *testing.T) {
	const n = 1500
	_, k, key, _ := wgHost(t, n)
	want := netstate.Of(wgLink("tulle-wg", key[1], 51820))
	for i := 2; i <= n; i++ {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 51820)
		want.Put(netstate.WGPeer{Link: "tulle-wg", Peer: key[i], Endpoint: at})
		for j := range 2 + 200/(1+i%200)/20 { // some need more than one message
			want.Put(netstate.WGAllowed{Link: "tulle-wg", Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(j), byte(i >> 8), byte(i)}), 32), Peer: key[i]})
		}
	}
	began := time.Now()
	settle(t, k, want)
	applied := time.Since(began)
	began = time.Now()
	if got := len(dump(t, k, want)); got != want.Len() {
		t.Errorf("dumped %d objects of %d", got, want.Len())
	}
	t.Logf("%d objects applied in %s, dumped in %s", want.Len(), applied, time.Since(began))
	settle(t, k, netstate.Of(wgLink("tulle-wg", key[1], 51820)))
}

// TestWireGuardPredecessorsRoutesGo checks that flannel's route to the whole network is
// removed. It has no gateway, and therefore the scope link. A route with a protocol
// stays.
func TestWireGuardPredecessorsRoutesGo(t *testing.T) {
	ns, k, key, _ := wgHost(t, 1)
	link := wgLink("tulle-wg", key[1], 51820)
	route := netstate.Route{Dst: netip.MustParsePrefix("10.5.2.0/24"), Link: link.Name}
	want := netstate.Of(link, route)
	settle(t, k, want)
	ns.IP(t, "route add 10.5.0.0/16 dev tulle-wg scope link")
	ns.IP(t, "route add 10.6.0.0/16 dev tulle-wg scope global")
	ns.IP(t, "-6 route add fd00:5::/48 dev tulle-wg")
	ns.IP(t, "route add 10.7.0.0/16 dev tulle-wg proto static scope link")
	if plan := settle(t, k, want); len(plan) != 3 {
		t.Errorf("it took the steps\n%s", plan)
	}
	ns.IP(t, "route del 10.7.0.0/16 dev tulle-wg") // the route must exist
	if out := ns.IP(t, "route show dev tulle-wg") + ns.IP(t, "-6 route show dev tulle-wg proto boot"); strings.Count(out, "\n") != 1 {
		t.Errorf("there is\n%s", out)
	}
}
