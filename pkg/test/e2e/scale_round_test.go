package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// measured is what was measured of a program in one network.
type measured struct {
	program
	backend string
	peers   int

	cold, again start
	more, write sample
}

// start is what was measured of starts.
type start struct {
	there  sample // until the kernel had all peers
	said   sample // until the daemon logged it
	cpu    sample // used until then
	memory []memory
	calls  map[string]int // of etcd, in the last round
}

// memory is the peak of a process's resident memory, and its resident memory now. file
// is the part that is its program's file, which the kernel can drop at any time.
type memory struct{ peak, resident, file int64 }

func v4Prefix(a, b, c, d byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
}

// lease records a lease, and returns how long the write itself took.
func (c *crowd) lease(ctx context.Context, number int) (time.Duration, error) {
	l := c.of(number)
	value, err := subnet.FormatAttrs(l.Attrs)
	if err != nil {
		return 0, err
	}
	r, err := c.client.Grant(ctx, 86400)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = c.client.Put(ctx, leasesKey+l.Key(), string(value), clientv3.WithLease(r.ID))
	return time.Since(began), err
}

// round starts a program on a fresh host, ends it, and starts it again.
func (c *crowd) round(m *measured, more int) {
	c.t.Helper()
	h := c.AddHosts(1)[0]
	k, err := kernel.New(h.NS.Path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer k.Close()
	state := c.t.TempDir() // the host's own disk is too small
	args := []string{"--etcd-endpoints=" + strings.Join(c.etcd.Endpoints(), ","), "--subnet-file=" + h.SubnetFile}
	if m.tulle {
		args = append(args, "--node-id="+h.Name, "--state-dir="+state, "--cni-conf-file="+h.CNIConfFile)
	}

	d := c.run(h, k, m, &m.cold, args)
	if more > 0 {
		c.oneMore(h, k, m, more)
	}
	if m.tulle && *scalePeers != "" {
		// The daemon saves its snapshot some time after the last change.
		c.eventually(func() error {
			if _, err := os.Stat(filepath.Join(state, "snapshot")); err != nil {
				return err
			}
			return nil
		})
		m.cold.memory[len(m.cold.memory)-1] = c.memory(d)
	}
	if m.tulle {
		d.Stop()
		d = c.run(h, k, m, &m.again, args)
	}
	d.Kill()
	c.delete(leasesKey + c.key(h))
	// The kernel removes a namespace's links some time after the namespace, which would
	// slow down the next measurement.
	for _, link := range []string{"tulle.1", "flannel.1", clustertest.Uplink} {
		_ = h.NS.Command("ip", "link", "delete", link).Run() // it may never have existed
	}
}

// run runs a program until the kernel has all peers, and until the program logs that if
// it does so.
func (c *crowd) run(h *clustertest.Host, k *kernel.Kernel, m *measured, s *start, args []string) *clustertest.Daemon {
	c.t.Helper()
	before := c.calls()
	d := h.Start(m.command, args...)
	began := time.Now()
	if s == &m.cold {
		c.awaitRoutes(d)
		s.there = append(s.there, time.Since(began))
	}
	if m.tulle {
		d.WaitLog("Kernel in sync with all peers")
		s.said = append(s.said, time.Since(began))
	}
	s.cpu = append(s.cpu, d.CPU())
	c.wantAll(k)
	s.memory = append(s.memory, c.memory(d))
	s.calls = c.calls()
	for name, n := range before {
		if s.calls[name] -= n; s.calls[name] == 0 {
			delete(s.calls, name)
		}
	}
	return d
}

func (c *crowd) memory(d *clustertest.Daemon) memory {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID))
	if err != nil {
		c.t.Fatal(err)
	}
	m := memory{peak: d.PeakMemory()}
	for field, to := range map[string]*int64{"VmRSS:": &m.resident, "RssFile:": &m.file} {
		_, rest, _ := strings.Cut(string(text), field)
		if _, err := fmt.Sscan(rest, to); err != nil {
			c.t.Fatalf("read the memory of %s: %v", d.Name, err)
		}
		*to <<= 10
	}
	return m
}

// awaitRoutes waits until the host of a daemon that has just started has gained as many
// IPv4 routes as there are peers, plus or minus two, because a tunnel's address is a
// route, too. The route is a peer's last object. awaitRoutes asks the kernel only for
// the number of routes, and rarely enough to be cheap.
func (c *crowd) awaitRoutes(d *clustertest.Daemon) {
	c.t.Helper()
	base := c.countRoutes(d)
	deadline := time.NewTimer(10 * patience)
	defer deadline.Stop()
	tick := time.NewTicker(max(time.Millisecond, time.Duration(c.peers)*time.Microsecond/2))
	defer tick.Stop()
	for c.countRoutes(d) < base+c.peers {
		select {
		case <-deadline.C:
			c.t.Fatalf("the kernel has %d routes of %d", c.countRoutes(d)-base, c.peers)
		case <-tick.C:
		}
		if !d.Running() {
			c.t.Fatalf("%s has ended", d.Name)
		}
	}
}

func (c *crowd) countRoutes(d *clustertest.Daemon) int {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/fib_triestat", d.PID))
	if err != nil {
		c.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Prefixes:")
	var n int
	if _, err := fmt.Sscan(rest, &n); err != nil {
		c.t.Fatalf("read fib_triestat: %v", err)
	}
	return n
}

// wantAll waits until the kernel has exactly what all peers need.
func (c *crowd) wantAll(k *kernel.Kernel) {
	c.t.Helper()
	want := map[netstate.Kind]int{netstate.KindRoute: c.peers}
	if c.backend == "vxlan" {
		want[netstate.KindNeigh], want[netstate.KindFDB] = c.peers, c.peers
	}
	c.eventually(func() error {
		objects, err := k.Dump(c.t.Context(), netstate.Scope{Links: []string{"flannel.1"}})
		if err != nil {
			return err
		}
		have := make(map[netstate.Kind]int)
		for _, o := range objects {
			have[o.Key().Kind]++
		}
		for kind, n := range want {
			if have[kind] != n {
				return fmt.Errorf("of %s the kernel has %d and not %d", kind, have[kind], n)
			}
		}
		return nil
	})
}

// oneMore records one more lease repeatedly, and deletes all of them at the end.
func (c *crowd) oneMore(h *clustertest.Host, k *kernel.Kernel, m *measured, times int) {
	c.t.Helper()
	var fresh []int
	for number := firstFresh; len(fresh) < times; number++ {
		if c.of(number).Key() != c.key(h) {
			fresh = append(fresh, number)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	heard, ended := make(chan routeEvent), make(chan error, 1)
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		ended <- k.Watch(ctx, func(e netstate.Event) {
			n := routeEvent{at: time.Now()}
			if r, ok := e.Object.(netstate.Route); ok && !e.Gone {
				n.route = r.Dst
			}
			select {
			case heard <- n:
			case <-ctx.Done():
			}
		})
	}()
	c.await(heard, netip.Prefix{}) // it has begun
	for _, number := range fresh {
		wrote, err := c.lease(ctx, number)
		if err != nil {
			c.t.Fatal(err)
		}
		answered := time.Now()
		m.write = append(m.write, wrote)
		m.more = append(m.more, wrote+c.await(heard, c.of(number).Subnets[subnet.IPv4]).Sub(answered))
	}
	for _, number := range fresh {
		c.delete(leasesKey + c.of(number).Key())
	}
}

// routeEvent is a route that was created.
type routeEvent struct {
	route netip.Prefix
	at    time.Time
}

// await waits for a route, and returns when it was created.
func (c *crowd) await(heard <-chan routeEvent, route netip.Prefix) time.Time {
	c.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case n := <-heard:
			if n.route == route {
				return n.at
			}
		case <-deadline.C:
			c.t.Fatalf("there is no route to %s", route)
		}
	}
}
