package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// recorder keeps the events of a watch.
type recorder struct {
	mu     sync.Mutex
	events []netstate.Event
}

func (r *recorder) add(e netstate.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) take() []netstate.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// expect waits for an event that matches.
func (r *recorder) expect(t *testing.T, what string, match func(netstate.Event) bool) {
	t.Helper()
	var seen []netstate.Event
	kerneltest.Eventually(t, 5*time.Second, func() error {
		for _, e := range r.take() {
			seen = append(seen, e)
			if match(e) {
				return nil
			}
		}
		return &missing{what, seen}
	})
}

type missing struct {
	what string
	seen []netstate.Event
}

func (m *missing) Error() string {
	text := "no event of " + m.what + " among"
	for _, e := range m.seen {
		if e.Object == nil {
			text += "\n  lost"
		} else if text += "\n  " + e.Object.String(); e.Gone {
			text += " gone"
		}
	}
	return text
}

func watch(t *testing.T, k *Kernel) *recorder {
	t.Helper()
	return record(t, k.Watch)
}

func record(t *testing.T, watch func(context.Context, func(netstate.Event)) error) *recorder {
	t.Helper()
	r := &recorder{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watch(ctx, r.add) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("Watch returned %v", err)
		}
	})
	r.expect(t, "its beginning", func(e netstate.Event) bool { return e.Object == nil })
	return r
}

func TestWatchReportsWhatStrangersDo(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	want := hostState()
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	r := watch(t, k)
	for _, c := range []struct {
		what  string
		do    func()
		match func(netstate.Event) bool
	}{
		{"a route deleted", func() { ns.IP(t, "route del 10.5.35.0/24") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Route)
			return ok && e.Gone && x.Dst.String() == "10.5.35.0/24" && x.Protocol == 0
		}},
		{"a route replaced", func() { ns.IP(t, "route replace 10.5.37.0/24 via 198.18.0.7 dev eth0") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Route)
			return ok && !e.Gone && x.Dst.String() == "10.5.37.0/24" && x.Protocol == netstate.ProtocolBoot
		}},
		{"an IPv6 route deleted", func() { ns.IP(t, "-6 route del fd00:5:0:23::/64") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Route)
			return ok && e.Gone && x == want.Sorted()[0] || ok && e.Gone && x.Dst.String() == "fd00:5:0:23::/64" && x.Metric == 0
		}},
		{"a neighbour deleted", func() { ns.IP(t, "neigh del 10.5.35.0 dev tulle.1") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Neigh)
			return ok && e.Gone && x.IP.String() == "10.5.35.0" && x.Link == "tulle.1"
		}},
		{"a forwarding entry deleted", func() { ns.Bridge(t, "fdb del 3a:09:09:09:09:09 dev tulle.1 dst 198.18.0.2") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.FDB)
			return ok && e.Gone && x.MAC.String() == "3a:09:09:09:09:09" && x.Dst.String() == "198.18.0.2"
		}},
		{"an address deleted", func() { ns.IP(t, "addr del 10.5.34.0/32 dev tulle.1") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Addr)
			return ok && e.Gone && x == netstate.Addr{Link: "tulle.1", Prefix: netip.MustParsePrefix("10.5.34.0/32")}
		}},
		{"forwarding turned off", func() { ns.Sysctl(t, "net/ipv4/conf/all/forwarding", "0") }, func(e netstate.Event) bool {
			return e.Object == netstate.Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "0"}
		}},
		{"IPv6 rp_filter of IPv4", func() { ns.Sysctl(t, "net/ipv4/conf/tulle.1/rp_filter", "1") }, func(e netstate.Event) bool {
			return e.Object == netstate.Sysctl{Path: "net/ipv4/conf/tulle.1/rp_filter", Value: "1"}
		}},
		{"a setting that the kernel does not announce", func() { ns.Sysctl(t, "net/ipv6/conf/tulle6.1/accept_ra", "2") }, func(e netstate.Event) bool {
			return e.Object == netstate.Sysctl{Path: "net/ipv6/conf/tulle6.1/accept_ra", Value: "2"}
		}},
		{"checksum offload turned on", func() { set(t, ns, netstate.TxChecksum("tulle.1", "on")) }, func(e netstate.Event) bool {
			return e.Object == netstate.TxChecksum("tulle.1", "on")
		}},
		{"another's link going down", func() { ns.IP(t, "link set eth0 down") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Link)
			return ok && !e.Gone && x.Name == "eth0" && !x.Up
		}},
		{"a link renamed", func() { ns.IP(t, "link set eth0 name eth9") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Link)
			return ok && e.Gone && x.Name == "eth0"
		}},
		{"our link deleted", func() { ns.IP(t, "link del tulle.1") }, func(e netstate.Event) bool {
			x, ok := e.Object.(netstate.Link)
			return ok && e.Gone && x.Name == "tulle.1"
		}},
	} {
		c.do()
		r.expect(t, c.what, c.match)
	}
}

// TestWatchLeavesOutOurs checks that what Apply does makes no route or neighbour
// event. Otherwise a large change would flood the loop with its own events.
func TestWatchLeavesOutOurs(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	want := hostState()
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	r := watch(t, k)
	for i := range 100 {
		for _, o := range vxlanPeer("tulle.1", i) {
			want.Put(o)
		}
	}
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	ns.IP(t, "addr add 10.9.9.9/32 dev lo") // the last event
	for over := false; !over; {
		for _, e := range r.take() {
			switch o := e.Object.(type) {
			case netstate.Addr:
				over = o.Link == "lo"
			case netstate.Route, netstate.Neigh:
				t.Errorf("an event of our own %v", o)
			}
		}
	}
}

// TestWatchHostHearsOfNoPeers: forwarding entries and settings, of which the kernel
// reports also those that Apply made, wake no watch of the host's interfaces. Such a
// watch takes no setting's change from Watch, either.
func TestWatchHostHearsOfNoPeers(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	want := hostState()
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	r := record(t, k.WatchHost)
	all := watch(t, k)
	for _, o := range vxlanPeer("tulle.1", 1) {
		want.Put(o)
	}
	apply(t, k, netstate.Diff(want, dump(t, k, want)))
	ns.Sysctl(t, "net/ipv4/conf/all/forwarding", "0")
	ns.Sysctl(t, "net/ipv6/conf/tulle6.1/accept_ra", "2")
	all.expect(t, "accept_ra of IPv6", func(e netstate.Event) bool {
		return e.Object == netstate.Sysctl{Path: "net/ipv6/conf/tulle6.1/accept_ra", Value: "2"}
	})
	ns.IP(t, "addr add 10.9.9.9/32 dev lo")
	r.expect(t, "the last change", func(e netstate.Event) bool {
		switch o := e.Object.(type) {
		case netstate.FDB, netstate.Neigh, netstate.Sysctl:
			t.Errorf("an event of %v", o)
		case netstate.Addr:
			return o.Link == "lo"
		}
		return false
	})
}

// TestWatchRoutesHearsOfAllWays: tables other than the main one and rules count, too.
func TestWatchRoutesHearsOfAllWays(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, c := range [][2]string{
		{"route add 203.0.113.0/24 dev eth0 table 7", "route del 203.0.113.0/24 dev eth0 table 7"},
		{"-6 route add 2001:db8::/32 dev eth0 table 7", "-6 route del 2001:db8::/32 dev eth0 table 7"},
		{"rule add from 198.18.0.1 table 7", "rule del from 198.18.0.1 table 7"},
		{"-6 rule add from fd00:18::1 table 7", "-6 rule del from fd00:18::1 table 7"},
		{"addr add 169.254.1.1/32 dev eth0 scope link", "addr del 169.254.1.1/32 dev eth0"},
		{"link set eth0 mtu 1400", "link set eth0 mtu 1500"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		var heard, links atomic.Int32
		ended := make(chan error, 1)
		go func() {
			ended <- k.WatchRoutes(ctx, func(ofLinks bool) {
				heard.Add(1)
				if ofLinks {
					links.Add(1)
				}
			})
		}()
		kerneltest.Eventually(t, time.Minute, func() error { // once it listens
			ns.IP(t, c[0])
			ns.IP(t, c[1])
			if heard.Load() < 2 { // the first call is of its beginning
				return fmt.Errorf("nothing is heard of %s", c[0])
			}
			return nil
		})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if ofLinks := links.Load() > 1; ofLinks != strings.HasPrefix(c[0], "link ") {
			t.Errorf("after %s, links changed: %t", c[0], ofLinks)
		}
	}
}

// TestWatchOverrun floods a watch whose reader is blocked.
func TestWatchOverrun(t *testing.T) {
	ns := host(t)
	k, stranger := open(t, ns), open(t, ns)
	want := netstate.Of(vxlanLink("tulle.1"))
	for i := range 20000 {
		for _, o := range vxlanPeer("tulle.1", i) {
			want.Put(o)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	release, lost, done := make(chan struct{}), make(chan struct{}, 100), make(chan error, 1)
	first := true
	go func() {
		done <- k.Watch(ctx, func(e netstate.Event) {
			if e.Object == nil {
				lost <- struct{}{}
			}
			if first {
				first = false
				<-release
			}
		})
	}()
	<-lost // it has begun
	apply(t, stranger, netstate.Diff(want, nil))
	close(release)
	<-lost // it has noticed
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("Watch returned %v", err)
	}
}
