package netstate_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	. "github.com/tulle-net/tulle/pkg/netstate"
)

// A world is small, so that what is desired and what is there often meet: some
// links, and few addresses, neighbours and destinations.
var (
	worldIPs  = []netip.Addr{ip("10.1.2.0"), ip("10.1.3.0"), ip("fd00:2::"), ip("fd00:3::")}
	worldDsts = []netip.Prefix{pfx("10.1.2.0/24"), pfx("10.1.3.0/24"), pfx("10.1.3.0/25"), pfx("fd00:2::/64"), pfx("fd00:3::/64")}
	// worldOwn are links that may be ours: made, or adopted.
	worldOwn = []func(pick) Link{
		func(p pick) Link { return worldVXLAN(p, "tulle.1", 1) },
		func(p pick) Link { return worldVXLAN(p, "tulle-v6.1", 3) },
		func(p pick) Link { return ipip("tulle.ipip") },
		func(p pick) Link {
			l := wg("tulle-wg")
			l.WireGuard.Key, l.WireGuard.Port = peerKey(byte(1+p(2))), uint16(51820+p(2))
			return l
		},
		func(p pick) Link {
			l := udpLink("tulle.udp")
			if p.one(3) {
				l.UDP = UDP{} // no program moves its packets
			}
			return l
		},
		func(p pick) Link { return worldVXLAN(p, "flannel.1", 5) },
	}
	worldHost = []Link{{Name: "eth0", Kind: "device", MTU: 1500, Up: true}, {Name: "eth1", Kind: "device", MTU: 1500, Up: true}}
)

// pick chooses a number below n: at random, or as a fuzzer says.
type pick func(n int) int

func (p pick) one(of int) bool { return p(of) == 0 }

func oneOf[T any](p pick, list []T) T { return list[p(len(list))] }

func worldVXLAN(p pick, name string, vni uint32) Link {
	l := vxlan(name, vni)
	l.MAC = mac(byte(p(2)))
	l.MTU -= p(2)
	if p.one(4) {
		l.VXLAN.VNI++ // cannot be changed in place
	}
	return l
}

// worldPeer is a peer of a WireGuard link with some prefixes.
func worldPeer(p pick) []Object {
	key := peerKey(byte(1 + p(3)))
	objects := []Object{WGPeer{
		Link: "tulle-wg", Peer: key, Keepalive: uint16(p(2)), PSK: PSK(p(2)),
		Endpoint: oneOf(p, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:51820"), netip.MustParseAddrPort("192.0.2.3:51820")}),
	}}
	for range p(3) {
		objects = append(objects, WGAllowed{"tulle-wg", oneOf(p, worldDsts), key})
	}
	return objects
}

// worldPeers are some peers of a link of a kind that has them.
func worldPeers(p pick, l Link) []Object {
	switch l.Kind {
	case TunnelWireGuard, TunnelWireGuardTUN:
		return worldPeer(p)
	case TunnelUDP:
		return []Object{UDPPeer{l.Name, oneOf(p, worldDsts), oneOf(p, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:8285"), netip.MustParseAddrPort("192.0.2.3:8285")})}}
	}
	return nil
}

// onLink is something on a link, of few that there are.
func onLink(p pick, link string) Object {
	switch p(4) {
	case 0:
		if p.one(3) {
			return TxChecksum(link, "off")
		}
		return Sysctl{"net/ipv4/conf/" + link + "/rp_filter", []string{"1", "2"}[p(2)]}
	case 1:
		at := oneOf(p, worldIPs)
		return Addr{link, netip.PrefixFrom(at, at.BitLen())}
	case 2:
		return Neigh{link, oneOf(p, worldIPs), mac(byte(p(3)))}
	default:
		return FDB{link, mac(byte(p(3))), false, oneOf(p, []netip.Addr{ip("192.0.2.2"), ip("192.0.2.3")})}
	}
}

func worldRoute(p pick, link string, spread bool) Route {
	r := Route{Dst: oneOf(p, worldDsts), Link: link, MTU: p(2) * 1400}
	r.Via = oneOf(p, worldIPs[:2])
	if r.Dst.Addr().Is6() {
		r.Via = oneOf(p, worldIPs[2:])
	}
	if r.Dst.Addr().Is4() && spread {
		r.Metric = SpreadMetric(r.Dst)
	}
	return r
}

// desired is what a backend could want: each link with an IPv4 address, and
// things only on links that it wants or that the host has.
func desired(p pick) *State {
	s := &State{}
	links := []string{"eth0"}
	for _, make := range worldOwn {
		if p.one(2) {
			continue
		}
		l := make(p)
		links = append(links, l.Name)
		s.Put(l)
		s.Put(Addr{l.Name, pfx("10.1.0.0/32")})
		for range p(6) {
			s.Put(onLink(p, l.Name))
		}
		for range p(4) {
			for _, o := range worldPeers(p, l) {
				s.Put(o)
			}
		}
	}
	spread := p.one(2) // a network has one kind of metric
	for range p(8) {
		s.Put(worldRoute(p, oneOf(p, links), spread))
	}
	if p.one(2) {
		s.Put(Sysctl{"net/ipv4/conf/all/forwarding", "1"})
	}
	return s
}

// found is what a kernel could hold when a daemon starts, also of others.
func found(p pick) *kerneltest.Fake {
	f := kerneltest.NewFake(worldHost[0], worldHost[1])
	links := []string{"eth0", "eth1"}
	for _, make := range worldOwn {
		if p.one(3) {
			continue
		}
		l := make(p)
		l.Up = !p.one(4)
		f.Put(l)
		links = append(links, l.Name)
		for range p(4) {
			for _, o := range worldPeer(p) {
				f.Put(o) // to no other link
			}
		}
	}
	for range p(24) {
		link := oneOf(p, links)
		if p.one(2) {
			f.Put(onLink(p, link))
			continue
		}
		r := worldRoute(p, link, p.one(2))
		r.Protocol = []uint8{0, 0, ProtocolBoot, ProtocolBoot, 4, 186}[p(6)]
		if p.one(6) {
			r.Metric = uint32(p(3))
		}
		f.Put(r) // down, a link takes none
	}
	f.Put(Sysctl{"net/ipv4/conf/all/forwarding", []string{"0", "1"}[p(2)]})
	return f
}

// checkDiff holds Diff to what it promises for one pair of worlds.
func checkDiff(t *testing.T, want *State, f *kerneltest.Fake) {
	t.Helper()
	before := f.Snapshot()
	actual := dump(t, want, f)
	plan := Diff(want, actual)
	if t.Failed() {
		return
	}
	defer func() {
		if t.Failed() {
			t.Logf("desired:\n%s\nbefore:\n%s\nplan:\n%s\nafter:\n%s", want, before, plan, f.Snapshot())
		}
	}()
	checkOrder(t, plan)
	for _, op := range plan {
		if r, ok := op.Object.(Route); ok && r.Protocol != 0 && (op.Verb != Delete || !before.Equal(with(before, r))) {
			t.Errorf("%s: another's route", op)
		}
	}

	// What others have in the way, and may keep, is all that can be refused.
	blocked := map[Key]bool{}
	var failures Failures
	if err := f.Apply(context.Background(), plan); err != nil && !errors.As(err, &failures) {
		t.Fatal(err)
	}
	for _, e := range failures {
		k := e.Op.Object.Key()
		holder, held := before.Get(k)
		r, isRoute := holder.(Route)
		if !errors.Is(e.Err, fs.ErrExist) || e.Op.Verb != Create || !held || !isRoute || r.Protocol == 0 || mayTake(want, r) {
			t.Errorf("%v; there was %v", e, holder)
		}
		blocked[k] = true
	}
	after := f.Snapshot()
	for o := range want.All() {
		if is, ok := after.Get(o.Key()); !blocked[o.Key()] && (!ok || is != o) {
			t.Errorf("want %s, there is %v", o, is)
		}
	}
	for _, o := range dump(t, want, f) {
		_, wanted := want.Get(o.Key())
		r, isRoute := o.(Route)
		if !wanted && !(isRoute && r.Protocol != 0 && !mayTake(want, r)) {
			t.Errorf("%s is still there", o)
		}
	}
	for _, op := range Diff(want, dump(t, want, f)) {
		if op.Verb != Create || !blocked[op.Object.Key()] {
			t.Errorf("again: %s", op)
		}
	}
	checkOthers(t, want, before, after)
}

func with(s *State, o Object) *State {
	out := Of(o)
	for o := range s.All() {
		out.Put(o)
	}
	return out
}

// checkOthers says that what is another's, and is not on one of our links, is
// as it was, but for what may be taken.
func checkOthers(t *testing.T, want, before, after *State) {
	t.Helper()
	links := func(name string) bool {
		_, wanted := want.Get(Link{Name: name}.Key())
		return wanted || strings.HasPrefix(name, LinkPrefix)
	}
	for o := range before.All() {
		r, isRoute := o.(Route)
		if isRoute && r.Protocol == 0 || links(LinkOf(o)) && (!isRoute || lost(want, before, r.Link)) {
			continue
		}
		if _, wanted := want.Get(o.Key()); wanted && !isRoute {
			continue
		}
		if isRoute && mayTake(want, r) {
			continue
		}
		if is, ok := after.Get(o.Key()); !ok || is != o {
			t.Errorf("another's %s is now %v", o, is)
		}
	}
	for o := range after.All() {
		if _, had := before.Get(o.Key()); had {
			continue
		}
		if is, wanted := want.Get(o.Key()); !wanted || is != o {
			t.Errorf("%s has come from nowhere", o)
		}
	}
}

// lost reports whether a link has to be deleted or re-created.
func lost(want, before *State, name string) bool {
	k := Link{Name: name}.Key()
	is, _ := before.Get(k)
	to, wanted := want.Get(k)
	return !wanted || !is.(Link).CanBecome(to.(Link))
}

// mayTake reports whether another's route may be taken for a predecessor's: it
// has a gateway, no metric and no stated protocol; and it is on a link of ours,
// or leads where we want to go by the link that we want, or by flannel's.
func mayTake(want *State, r Route) bool {
	if r.Protocol != ProtocolBoot || !r.Via.IsValid() || r.Metric != 0 {
		return false
	}
	if _, ours := want.Get(Link{Name: r.Link}.Key()); ours {
		return true
	}
	for _, metric := range []uint32{0, SpreadMetric(r.Dst)} {
		if o, ok := want.Get(Route{Dst: r.Dst, Metric: metric}.Key()); ok &&
			(o.(Route).Link == r.Link || strings.HasPrefix(r.Link, "flannel")) {
			return true
		}
	}
	return false
}

// checkOrder holds a plan to: adds before deletes, each kind in its turn, those
// of deletes reversed, no key twice.
func checkOrder(t *testing.T, p Plan) {
	t.Helper()
	seen := map[Key]bool{}
	last := -1
	for _, op := range p {
		k := op.Object.Key()
		place := int(k.Kind)
		if op.Verb == Delete {
			place = 100 - int(k.Kind)
		}
		if place < last {
			t.Errorf("%s comes too late", op)
		}
		if seen[k] {
			t.Errorf("%s: second op of its key", op)
		}
		last, seen[k] = place, true
	}
}

func dump(t *testing.T, want *State, f *kerneltest.Fake) []Object {
	t.Helper()
	var scope Scope
	for o := range want.All() {
		switch o := o.(type) {
		case Link:
			scope.Links = append(scope.Links, o.Name)
		case Sysctl:
			scope.Sysctls = append(scope.Sysctls, o.Path)
		}
	}
	out, err := f.Dump(context.Background(), scope)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b Object) int { return a.Key().Compare(b.Key()) })
	return out
}

// Whatever a kernel holds, what Diff plans brings it to what is desired.
func TestDiffOfRandomWorlds(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, i))
		want, f := desired(r.IntN), found(r.IntN)
		checkDiff(t, want, f)
		if t.Failed() {
			t.Fatalf("seed %d, world %d", seed, i)
		}
		// From one desired state to the next, too.
		checkDiff(t, desired(r.IntN), f)
		if t.Failed() {
			t.Fatalf("seed %d, world %d, second state", seed, i)
		}
	}
}

// The order in which a kernel lists its objects does not matter.
func TestDiffOfAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		want, f := desired(r.IntN), found(r.IntN)
		actual := dump(t, want, f)
		first := opsOf(Diff(want, actual))
		checkSets(t, want, actual)
		r.Shuffle(len(actual), func(i, j int) { actual[i], actual[j] = actual[j], actual[i] })
		again := opsOf(Diff(want, actual))
		if !slices.Equal(first, again) {
			t.Fatalf("seed %d: got:\n%s\nand:\n%s", seed, strings.Join(first, "\n"), strings.Join(again, "\n"))
		}
	}
}

// checkSets compares DiffSets with Diff.
func checkSets(t *testing.T, want *State, actual []Object) {
	t.Helper()
	sets, deletes := Diff(want, actual).Split()
	got, has := DiffSets(want, actual)
	if !slices.Equal(opsOf(got), opsOf(sets)) || has != (len(deletes) > 0) {
		t.Fatalf("sets, and deletes %t:\n%s\nwant them of:\n%s%s", has, got, sets, deletes)
	}
}

func opsOf(p Plan) []string {
	var out []string
	for _, op := range p {
		out = append(out, op.String())
	}
	slices.Sort(out)
	return out
}

// FuzzDiff checks the properties of plans between arbitrary states.
func FuzzDiff(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		p := func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}
		checkDiff(t, desired(p), found(p))
	})
}
