package wireguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// secret is the preshared key of the peers that have one.
const secret = "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// lab is an engine with keys, and what it reports.
type lab struct {
	*Engine
	t       *testing.T
	dir     string
	host    *host
	ring    *wgkey.Ring
	keys    []netstate.PublicKey
	psk     netstate.PSK
	stopped chan string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), host: newHost(t), ring: &wgkey.Ring{}}
	for range 4 {
		l.keys = append(l.keys, l.ring.Add(wgkey.New()))
	}
	var err error
	if l.psk, err = l.ring.AddPSK(secret); err != nil {
		t.Fatal(err)
	}
	l.start()
	return l
}

// start makes another engine, as in a restart of the daemon.
func (l *lab) start() {
	if l.Engine != nil {
		l.Leave()
	}
	l.stopped = make(chan string, 100)
	l.Engine = New(Options{Dir: l.dir, Secrets: l.ring, Keep: l.host.keep, By: "--own"})
	stopped := l.stopped
	l.OnStop(func(link string) { stopped <- link })
	l.t.Cleanup(l.Leave)
}

// freePort returns a UDP port that no program uses.
func freePort(t *testing.T) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return uint16(c.LocalAddr().(*net.UDPAddr).Port)
}

func (l *lab) link(name string) netstate.Link {
	return netstate.Link{
		Name: name, Kind: netstate.TunnelWireGuardTUN, MTU: 1420, Group: netstate.Mark, Up: true,
		WireGuard: netstate.WireGuard{Key: l.keys[0], Port: freePort(l.t)},
	}
}

// settle brings the program to what is wanted, as the loop does. It returns the plan.
func (l *lab) settle(link netstate.Link, objects ...netstate.Object) netstate.Plan {
	l.t.Helper()
	plan := l.plan(link, objects...)
	rest := plan
	if len(plan) > 0 && plan[0].Object == netstate.Object(link) {
		if err := l.Open(l.t.Context(), link); err != nil {
			l.t.Fatal(err)
		}
		rest = plan[1:]
	}
	if failed := l.Apply(l.t.Context(), rest); len(failed) > 0 {
		l.t.Fatal(failed)
	}
	if left := l.plan(link, objects...); len(left) > 0 {
		l.t.Fatalf("still to do:\n%s", left)
	}
	return plan
}

func (l *lab) plan(link netstate.Link, objects ...netstate.Object) netstate.Plan {
	is, held, err := l.Dump(l.t.Context(), link)
	if err != nil {
		l.t.Fatal(err)
	}
	return netstate.Diff(netstate.Of(append(objects, link)...), append(held, is))
}

// peers returns two peers with their prefixes.
func (l *lab) peers(link netstate.Link) (one, two netstate.WGPeer, to1, to2, also2 netstate.WGAllowed) {
	at, p := netip.MustParseAddrPort, netip.MustParsePrefix
	one = netstate.WGPeer{Link: link.Name, Peer: l.keys[1], Endpoint: at("192.0.2.1:51820"), PSK: l.psk, Keepalive: 25}
	two = netstate.WGPeer{Link: link.Name, Peer: l.keys[2], Endpoint: at("[2001:db8::2]:51821")}
	return one, two, netstate.WGAllowed{Link: link.Name, Prefix: p("10.5.1.0/24"), Peer: one.Peer},
		netstate.WGAllowed{Link: link.Name, Prefix: p("10.5.2.0/24"), Peer: two.Peer}, netstate.WGAllowed{Link: link.Name, Prefix: p("fd00:5:0:2::/64"), Peer: two.Peer}
}

func TestProgramHoldsWhatIsWanted(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-wg")
	one, two, to1, to2, also2 := l.peers(link)
	l.settle(link, one, two, to1, to2, also2)

	moved, rekeyed, quiet := to2, link, one
	moved.Peer = one.Peer
	rekeyed.WireGuard.Key, rekeyed.WireGuard.Port = l.keys[3], freePort(t)
	quiet.Keepalive, quiet.PSK, quiet.Endpoint = 0, 0, netip.MustParseAddrPort("192.0.2.9:1")
	for _, step := range []struct {
		name    string
		link    netstate.Link
		objects []netstate.Object
		steps   int
	}{
		{"a prefix moves", link, []netstate.Object{one, two, to1, moved, also2}, 1},
		{"a prefix goes", link, []netstate.Object{one, two, to1, moved}, 1},
		{"both come back", link, []netstate.Object{one, two, to1, to2, also2}, 2},
		{"a peer changes", link, []netstate.Object{quiet, two, to1, to2, also2}, 1},
		{"the device has another key and port", rekeyed, []netstate.Object{quiet, two, to1, to2, also2}, 1},
		{"a peer goes", rekeyed, []netstate.Object{quiet, to1}, 3},
		{"all go", rekeyed, nil, 2},
	} {
		if plan := l.settle(step.link, step.objects...); len(plan) != step.steps {
			t.Errorf("%s: %d steps:\n%s", step.name, len(plan), plan)
		}
	}
	select {
	case link := <-l.stopped:
		t.Errorf("%s is reported", link)
	default:
	}
}

// TestManyPeers needs several requests, and a long answer.
func TestManyPeers(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-wg")
	var all []netstate.Object
	for i := range 600 {
		p := netstate.WGPeer{Link: link.Name, Peer: wgkey.New().Public(), PSK: l.psk, Endpoint: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 51820)}
		all = append(all, p, netstate.WGAllowed{Link: link.Name, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24), Peer: p.Peer})
	}
	l.settle(link, all...)
	sessions, err := l.Sessions(l.t.Context(), []string{"tulle-wg", "eth0"})
	if err != nil || len(sessions) != 600 || sessions[0].Link != "tulle-wg" || !sessions[0].Handshake.IsZero() {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}

// TestCrashIsReportedAndHealed ends a program, twice.
func TestCrashIsReportedAndHealed(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-wg")
	one, two, to1, to2, also2 := l.peers(link)
	l.settle(link, one, two, to1, to2, also2)
	for n := range 2 {
		l.host.setFails(errNoProgram)
		p, starts := l.host.program(filepath.Join(l.dir, link.Name))
		if starts != n+1 {
			t.Errorf("%d programs were started", starts)
		}
		p.crash()
		if got := <-l.stopped; got != link.Name {
			t.Errorf("%s is reported", got)
		}
		if is, held, err := l.Dump(t.Context(), link); err != nil || is.WireGuard != (netstate.WireGuard{}) || len(held) > 0 {
			t.Errorf("without a program there is %s, %v, %v", is, held, err)
		}
		if failed := l.Apply(l.t.Context(), netstate.Plan{{Verb: netstate.Replace, Object: one}}); len(failed) != 1 || !strings.Contains(failed.Error(), "reach tulle-wireguard") {
			t.Errorf("without a program a step ends with %v", failed)
		}
		if !l.Serves(one) {
			t.Error("the peer is not the engine's")
		}
		if n == 0 {
			if err := l.Open(l.t.Context(), link); err == nil || err.Error() != errNoProgram.Error() {
				t.Errorf("without a program Open ends with %v", err)
			}
		}
		l.host.setFails(nil)
		if got := <-l.stopped; got != link.Name { // another program runs
			t.Errorf("%s is reported", got)
		}
		if plan := l.settle(link, one, two, to1, to2, also2); len(plan) != 6 {
			t.Errorf("it took\n%s", plan)
		}
	}
}

// TestRestartTakesOver: another engine finds a program that runs, and follows it.
func TestRestartTakesOver(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-wg")
	one, two, to1, to2, also2 := l.peers(link)
	l.settle(link, one, two, to1, to2, also2)
	l.start()
	if plan := l.settle(link, one, two, to1, to2, also2); len(plan) > 0 {
		t.Errorf("after a restart it took\n%s", plan)
	}
	p, starts := l.host.program(filepath.Join(l.dir, link.Name))
	if starts != 1 {
		t.Errorf("%d programs were started", starts)
	}
	kerneltest.Eventually(t, time.Minute, func() error {
		if at := l.Engine.link(link.Name); at == nil || !at.runs() {
			return errors.New("the engine does not follow the program")
		}
		return nil
	})
	p.crash()
	if got := <-l.stopped; got != link.Name {
		t.Errorf("%s is reported", got)
	}
	l.settle(link, one, two, to1, to2, also2)
}

// TestStaleDeviceStartsNothing dumps a device that no program serves.
func TestStaleDeviceStartsNothing(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-old")
	if is, held, err := l.Dump(t.Context(), link); err != nil || is.WireGuard != (netstate.WireGuard{}) || len(held) > 0 {
		t.Errorf("there is %s, %v, %v", is, held, err)
	}
	if _, starts := l.host.program(filepath.Join(l.dir, link.Name)); starts != 0 {
		t.Errorf("%d programs were started", starts)
	}
}

// TestCloseStopsTheProgram also leaves nothing behind in this process.
func TestCloseStopsTheProgram(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l := newLab(t)
	link := l.link("tulle-wg")
	one, _, to1, _, _ := l.peers(link)
	l.settle(link, one, to1)
	l.Close(link.Name)
	l.Close(link.Name)
	p, _ := l.host.program(filepath.Join(l.dir, link.Name))
	<-p.ended
	if l.Serves(one) || !l.Serves(link) {
		t.Error("the peer of a closed link is still the engine's")
	}
	failed := l.Apply(l.t.Context(), netstate.Plan{{Verb: netstate.Delete, Object: to1}, {Verb: netstate.Create, Object: one}})
	if len(failed) != 1 || !errors.Is(failed[0], syscall.ENODEV) {
		t.Errorf("steps on a closed link end with %v", failed)
	}
}

// TestFailuresAreOfTheirSteps checks that one impossible step stops no other.
func TestFailuresAreOfTheirSteps(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-wg")
	one, two, to1, to2, _ := l.peers(link)
	l.settle(link)
	one.PSK = 99
	failed := l.Apply(l.t.Context(), netstate.Plan{
		{Verb: netstate.Create, Object: one}, {Verb: netstate.Create, Object: two}, {Verb: netstate.Create, Object: to1}, {Verb: netstate.Create, Object: to2},
		{Verb: netstate.Create, Object: netstate.Addr{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.0.0/32")}},
	})
	if len(failed) != 3 || failed[0].Op.Object != netstate.Object(one) || !errors.Is(failed[1], errNoPeer) || !errors.Is(failed[2], syscall.EOPNOTSUPP) {
		t.Errorf("got %v", failed)
	}
	l.settle(link, two, to2)

	unknown := link
	unknown.WireGuard.Key = netstate.PublicKeyOf([32]byte{1})
	if err := l.Open(l.t.Context(), unknown); err == nil || !strings.Contains(err.Error(), "no private key for the public key "+unknown.WireGuard.Key.String()) {
		t.Errorf("got %v", err)
	}
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken := link
	taken.WireGuard.Port = uint16(c.LocalAddr().(*net.UDPAddr).Port)
	if err := l.Open(l.t.Context(), taken); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprintf("ss -lun sport = %d", taken.WireGuard.Port)) {
		t.Errorf("got %v", err)
	}
}
