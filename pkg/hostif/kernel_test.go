package hostif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// watched is a kernel that counts the test's requests and records the addresses that
// it has returned.
type watched struct {
	*kernel.Kernel

	mu      sync.Mutex
	surveys int
	seen    map[string]bool // the addresses that were returned
}

func (w *watched) Survey(ctx context.Context) (netstate.Survey, error) {
	w.mu.Lock()
	w.surveys++
	w.mu.Unlock()
	return w.Kernel.Survey(ctx)
}

func (w *watched) WatchHost(ctx context.Context, to func(netstate.Event)) error {
	return w.Kernel.WatchHost(ctx, func(e netstate.Event) {
		to(e)
		if a, ok := e.Object.(netstate.Addr); ok && !e.Gone {
			w.mu.Lock()
			w.seen[a.Prefix.String()] = true
			w.mu.Unlock()
		}
	})
}

func (w *watched) surveyed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.surveys
}

// kernelLab is a follower of a namespace's kernel.
type kernelLab struct {
	*testing.T
	ns     *kerneltest.NS
	source *watched

	mu    sync.Mutex
	calls []string // all calls
}

// followKernel starts a follower of a host that has eth0, eth1 and default routes
// through eth0.
func followKernel(t *testing.T) *kernelLab {
	t.Helper()
	ns := kerneltest.NewNS(t, "host")
	for _, command := range []string{
		"link add eth0 type veth peer name eth0peer",
		"link add eth1 type veth peer name eth1peer",
		"link set eth0peer up",
		"link set eth1peer up",
		"link set eth1 mtu 1400 up",
		"addr add 198.19.0.1/24 dev eth1",
	} {
		ns.IP(t, command)
	}
	configureEth0(t, ns)
	k, err := kernel.New(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	l := &kernelLab{T: t, ns: ns, source: &watched{Kernel: k, seen: map[string]bool{}}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	spec := Spec{Networks: networks("46"), Bridges: []string{"cni0"}}
	go func() { done <- Follow(ctx, l.source, spec, l.record) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
		k.Close()
	})
	l.settle("eth0 198.18.0.1 mtu 1500", "eth0 fd00:18::1 mtu 1500", "direct 198.18.0.0/24 eth0", "direct 198.19.0.0/24 eth1", "direct fd00:18::/64 eth0")
	return l
}

func configureEth0(t *testing.T, ns *kerneltest.NS) {
	t.Helper()
	for _, command := range []string{
		"link set eth0 up",
		"addr add 198.18.0.1/24 dev eth0",
		"addr add fd00:18::1/64 dev eth0 nodad",
		"route add default via 198.18.0.254 dev eth0",
		"-6 route add default via fd00:18::ff dev eth0",
	} {
		ns.IP(t, command)
	}
}

func (l *kernelLab) record(h Interfaces, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, text(h, err))
}

// settle waits until the last report is this, in whatever order the kernel lists it.
func (l *kernelLab) settle(want ...string) {
	l.Helper()
	slices.Sort(want)
	kerneltest.Eventually(l, 10*time.Second, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.calls) == 0 {
			return errors.New("no call yet")
		}
		got := strings.Split(l.calls[len(l.calls)-1], "\n")
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
}

func TestFollowKernel(t *testing.T) {
	l := followKernel(t)
	const v4, v6, net0, net1, net6 = "eth0 198.18.0.1 mtu 1500", "eth0 fd00:18::1 mtu 1500",
		"direct 198.18.0.0/24 eth0", "direct 198.19.0.0/24 eth1", "direct fd00:18::/64 eth0"
	for _, c := range []struct {
		do   []string
		want []string
	}{
		{[]string{"addr del 198.18.0.1/24 dev eth0", "addr add 198.18.0.2/24 dev eth0", "route add default via 198.18.0.254 dev eth0"},
			[]string{"eth0 198.18.0.2 mtu 1500", v6, net0, net1, net6}},
		{[]string{"-6 addr add fd00:18::2/64 dev eth0 nodad", "-6 addr del fd00:18::1/64 dev eth0"},
			[]string{"eth0 198.18.0.2 mtu 1500", "eth0 fd00:18::2 mtu 1500", net0, net1, net6}},
		{[]string{"link set eth0 mtu 1450"},
			[]string{"eth0 198.18.0.2 mtu 1450", "eth0 fd00:18::2 mtu 1450", net0, net1, net6}},
		{[]string{"route replace default via 198.19.0.254 dev eth1"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net0, net1, net6}},
		{[]string{"link add cni0 type bridge", "link set cni0 mtu 1450 up", "addr add 10.5.34.1/24 dev cni0"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net0, net1, net6, "bridge cni0 [10.5.34.1/24]"}},
		{[]string{"addr add 10.5.35.1/24 dev cni0", "addr del 10.5.34.1/24 dev cni0"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net0, net1, net6, "bridge cni0 [10.5.35.1/24]"}},
		{[]string{"link set eth1 down"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net0, net6, "bridge cni0 [10.5.35.1/24]", "no IPv4"}},
		{[]string{"link set eth1 up", "route add default via 198.19.0.254 dev eth1"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net0, net1, net6, "bridge cni0 [10.5.35.1/24]"}},
		{[]string{"link del cni0"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net0, net1, net6}},
		{[]string{"link del eth0"},
			[]string{"eth1 198.19.0.1 mtu 1400", "eth0 fd00:18::2 mtu 1450", net1, "no IPv6"}},
	} {
		for _, command := range c.do {
			l.ns.IP(t, command)
		}
		l.settle(c.want...)
	}
	l.ns.IP(t, "link add eth0 type veth peer name eth0peer")
	l.ns.IP(t, "link set eth0peer up")
	l.ns.IP(t, "route del default")
	configureEth0(t, l.ns)
	l.settle(v4, v6, net0, net1, net6)
}

// TestFollowKernelCables checks that a default route whose cable is unplugged is the
// last choice. The kernel announces the cable by an event of the link alone.
func TestFollowKernelCables(t *testing.T) {
	l := followKernel(t)
	rest := []string{"eth0 fd00:18::1 mtu 1500", "direct 198.18.0.0/24 eth0", "direct 198.19.0.0/24 eth1", "direct fd00:18::/64 eth0"}
	l.ns.IP(t, "route add default via 198.19.0.254 dev eth1 metric 100")
	l.ns.IP(t, "link set eth0peer down")
	l.settle(append(rest, "eth1 198.19.0.1 mtu 1400")...)
	l.ns.IP(t, "link set eth0peer up")
	l.settle(append(rest, "eth0 198.18.0.1 mtu 1500")...)
}

// TestFollowKernelStorm checks that containers that come and go cause no survey. Each
// round has every kind of event and takes longer than the delay of a survey, so its
// surveys are counted in it or in the next. A late event of the beginning may cause
// one.
func TestFollowKernelStorm(t *testing.T) {
	l := followKernel(t)
	pods := kerneltest.NewNS(t, "pods")
	for _, command := range []string{
		"link add cni0 type bridge",
		"link set cni0 mtu 1450 up",
		"addr add 10.5.34.1/24 dev cni0",
		"addr add fd00:5:0:22::1/64 dev cni0 nodad",
	} {
		l.ns.IP(t, command)
	}
	rest := []string{"direct 198.18.0.0/24 eth0", "direct 198.19.0.0/24 eth1", "direct fd00:18::/64 eth0", "bridge cni0 [10.5.34.1/24 fd00:5:0:22::1/64]"}
	l.settle(append(rest, "eth0 198.18.0.1 mtu 1500", "eth0 fd00:18::1 mtu 1500")...)
	quiet, cost := 0, []int{}
	for quiet < 2 && len(cost) < 8 {
		before := l.source.surveyed()
		l.storm(pods)
		l.passed(fmt.Sprintf("10.5.99.%d/32", len(cost)))
		cost = append(cost, l.source.surveyed()-before)
		if quiet++; cost[len(cost)-1] > 0 {
			quiet = 0
		}
	}
	if quiet < 2 {
		t.Errorf("the rounds cost %d surveys", cost)
	}
	l.ns.IP(t, "link set eth0 mtu 1480")
	l.settle(append(rest, "eth0 198.18.0.1 mtu 1480", "eth0 fd00:18::1 mtu 1480")...)
}

// storm starts and ends a dozen containers.
func (l *kernelLab) storm(pods *kerneltest.NS) {
	l.Helper()
	const containers = 12
	for i := range containers {
		veth := fmt.Sprintf("veth%d", i)
		l.ns.IP(l, fmt.Sprintf("link add %s mtu 1450 type veth peer name eth%d mtu 1450 netns %s", veth, i, pods.Name))
		l.ns.IP(l, "link set "+veth+" master cni0")
		l.ns.IP(l, "link set "+veth+" up")
		pods.IP(l, fmt.Sprintf("link set eth%d up", i))
		l.ns.IP(l, "addr add 10.5.34.1/32 dev "+veth)
		l.ns.IP(l, fmt.Sprintf("route add 10.5.34.%d/32 dev %s", 10+i, veth))
	}
	for i := range containers {
		l.ns.IP(l, fmt.Sprintf("link del veth%d", i))
	}
}

// passed waits until all events so far have been handled: the event of a marker, an
// address within the overlay, comes after them.
func (l *kernelLab) passed(marker string) {
	l.Helper()
	l.ns.IP(l, "addr add "+marker+" dev lo")
	kerneltest.Eventually(l, 10*time.Second, func() error {
		l.source.mu.Lock()
		defer l.source.mu.Unlock()
		if !l.source.seen[marker] {
			return fmt.Errorf("no event of %s", marker)
		}
		return nil
	})
}
