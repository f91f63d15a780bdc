package clustertest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// tellsTime makes the test binary print the time instead of running tests.
const tellsTime = "CLUSTERTEST_TELLS_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(tellsTime) != "" {
		start := time.Now()
		for range time.Tick(time.Millisecond) {
			fmt.Println(time.Now().Unix(), int(time.Since(start).Seconds()))
		}
	}
	goleak.VerifyTestMain(m)
}

// byHand does what daemons would do: it gives every host a subnet of each family, an
// env file, and routes to all other hosts.
func byHand(t testing.TB, c *Cluster) {
	t.Helper()
	for _, h := range c.Hosts {
		text := fmt.Sprintf("FLANNEL_NETWORK=10.0.0.0/8\nFLANNEL_SUBNET=10.5.%d.1/24\nFLANNEL_IPV6_SUBNET=fd00:5:0:%x::1/64\nFLANNEL_MTU=1400\nFLANNEL_IPMASQ=false\n", h.Number, h.Number)
		if err := os.WriteFile(h.SubnetFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, peer := range c.Hosts {
			if peer != h {
				lines = append(lines, fmt.Sprintf("route replace 10.5.%d.0/24 via %s", peer.Number, peer.Addr[subnet.IPv4]),
					fmt.Sprintf("route replace fd00:5:0:%x::/64 via %s", peer.Number, peer.Addr[subnet.IPv6]))
			}
		}
		batch(t, h.NS, lines...)
	}
}

// pair returns two hosts with a pod each, which reach one another.
func pair(t testing.TB) (c *Cluster, a, b *Pod) {
	t.Helper()
	c = New(t, Options{Hosts: 2})
	byHand(t, c)
	a, b = c.Hosts[0].AddPod(), c.Hosts[1].AddPod()
	c.Matrix()
	return c, a, b
}

func TestStreamLosesNothing(t *testing.T) {
	c, a, b := pair(t)
	for _, f := range subnet.Families {
		for name, start := range map[string]func(from, to *Pod, f subnet.Family) *Stream{"steady": c.Ping, "flood": c.Flood} {
			t.Run(fmt.Sprintf("%s %s", f, name), func(t *testing.T) {
				s := start(a, b, f)
				if !s.WaitAnswered(100) {
					t.Error("fewer than 100 answers arrived")
				}
				r := s.Stop()
				if r.Sent < 100 || r.Lost != 0 || r.Duplicates != 0 || r.SendError != nil || len(r.Gaps) != 0 || r.Slowest <= 0 {
					t.Error(r)
				}
			})
		}
	}
}

// losesWhile breaks something for at least 20 requests of a stream. It fails the test
// unless exactly those are lost.
func losesWhile(t *testing.T, s *Stream, hurt, heal func()) {
	t.Helper()
	if !s.WaitAnswered(20) {
		t.Fatal("the stream is not answered")
	}
	before := s.Sent()
	hurt()
	from := s.Sent()
	if !s.WaitSent(20) {
		t.Fatal("the stream sends nothing")
	}
	to := s.Sent()
	heal()
	if !s.WaitAnswered(20) {
		t.Fatal("the stream is not answered any more")
	}
	most := s.Sent() - before
	r := s.Stop()
	// At the end of the cable, some packets may have waited in a queue. One request may
	// have been on its way at the beginning, and one at the end.
	hit := 0
	for _, p := range s.pings {
		if !p.answered || p.took > 5*interval {
			hit++
		}
	}
	if hit < to-from-2 || r.Lost > most {
		t.Errorf("%s; %d were lost or delayed; want %d to %d", r, hit, to-from-2, most)
	}
}

func TestFaultsLoseExactlyTheirPackets(t *testing.T) {
	c, a, b := pair(t)
	ha, hb := c.Hosts[0], c.Hosts[1]
	for name, fault := range map[string]struct {
		f          subnet.Family
		hurt, heal func()
	}{
		"unplug":     {subnet.IPv4, hb.Unplug, hb.Plug},
		"unplug own": {subnet.IPv6, ha.Unplug, ha.Plug},
		"cut":        {subnet.IPv4, func() { ha.Cut(hb.Addr[subnet.IPv4]) }, func() { ha.Heal(hb.Addr[subnet.IPv4]) }},
		"cut IPv6":   {subnet.IPv6, func() { ha.Cut(hb.Addr[subnet.IPv6]) }, func() { ha.Heal(hb.Addr[subnet.IPv6]) }},
		"no route": {subnet.IPv4, func() { ha.NS.IP(t, "route add blackhole 10.5.2.2") },
			func() { ha.NS.IP(t, "route del blackhole 10.5.2.2") }},
		"no route in the pod": {subnet.IPv4, func() { a.NS.IP(t, "route add unreachable 10.5.2.2") },
			func() { a.NS.IP(t, "route del unreachable 10.5.2.2") }},
	} {
		t.Run(name, func(t *testing.T) {
			losesWhile(t, c.Ping(a, b, fault.f), fault.hurt, fault.heal)
			c.Matrix()
		})
	}
}

// TestCutAffectsOneAddress checks that a host that is cut off from one address still
// reaches all others.
func TestCutAffectsOneAddress(t *testing.T) {
	c := New(t, Options{Hosts: 3, StaticNeighbours: true})
	byHand(t, c)
	for _, h := range c.Hosts {
		h.AddPod()
	}
	c.Matrix()
	a, peer := c.Hosts[0], c.Hosts[1].Addr[subnet.IPv4]
	before := a.Kernel()
	s := c.Ping(a.Pods[0], c.Hosts[1].Pods[0], subnet.IPv4)
	other := c.Ping(a.Pods[0], c.Hosts[2].Pods[0], subnet.IPv4)
	losesWhile(t, s, func() { a.Cut(peer) }, func() { a.Heal(peer) })
	if r := other.Stop(); r.Lost != 0 {
		t.Error(r)
	}
	if after := a.Kernel(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// TestReaddressKeepsTheName checks that the host gets the addresses of another number,
// and keeps its name.
func TestReaddressKeepsTheName(t *testing.T) {
	c, _, _ := pair(t)
	h := c.Hosts[1]
	h.Readdress(300)
	if want := netip.MustParseAddr("198.18.1.44"); h.Addr[subnet.IPv4] != want || h.Number != 2 {
		t.Errorf("host %d has %v, want %v", h.Number, h.Addr, want)
	}
	byHand(t, c)
	c.Matrix()
	if out := h.NS.IP(t, "-o addr show dev "+Uplink); strings.Contains(out, "198.18.0.2/") || !strings.Contains(out, "fd00:18::12c/64") {
		t.Errorf("addresses are %s", out)
	}
}

func TestEtcdHostIsOnTheSwitch(t *testing.T) {
	c := New(t, Options{Hosts: 1})
	c.EtcdHost()
	addrs := EtcdAddrs(3)
	if got := fmt.Sprint(addrs); got != "[198.18.255.1 198.18.255.2 198.18.255.3]" {
		t.Error(got)
	}
	for _, a := range append(addrs, c.EtcdHost().Addr[subnet.IPv6]) {
		c.Hosts[0].NS.Ping(t, "", a.String(), 1000)
	}
	if len(c.Hosts) != 1 {
		t.Error("EtcdHost is in Hosts")
	}
}

func TestPodsOfOneHost(t *testing.T) {
	c, a, _ := pair(t)
	second := c.Hosts[0].AddPod()
	if a.Addr[subnet.IPv4].String() != "10.5.1.2" || second.Addr[subnet.IPv4].String() != "10.5.1.3" || second.Addr[subnet.IPv6].String() != "fd00:5:0:1::3" {
		t.Errorf("pods have %v and %v", a.Addr, second.Addr)
	}
	c.Matrix()
	if out := second.NS.IP(t, "-o link show eth0"); !strings.Contains(out, "mtu 1400 ") {
		t.Error(out)
	}
}

func TestReachNamesUnreachedPods(t *testing.T) {
	c, a, b := pair(t)
	c.Hosts[0].NS.IP(t, "link set eth0 mtu 1300") // too small for the pods' packets
	err := a.reach([]*Pod{b}, subnet.IPv4, time.Now())
	if err == nil || !strings.Contains(err.Error(), b.NS.Name+" (10.5.2.2") {
		t.Errorf("got %v", err)
	}
}

func TestKernelShowsChanges(t *testing.T) {
	c, _, _ := pair(t)
	h := c.Hosts[0]
	before := h.Kernel()
	for _, want := range []string{"route unicast 10.5.2.0/24 via 198.18.0.2 dev eth0", "route unicast fd00:5:0:2::/64 via fd00:18::2 dev eth0"} {
		if !strings.Contains(before, want) {
			t.Errorf("%q is not in\n%s", want, before)
		}
	}
	h.NS.IP(t, "link add v1 address 02:00:00:00:00:01 type vxlan id 1 dstport 8472 dev eth0 nolearning")
	h.NS.IP(t, "link set v1 up")
	with := h.Kernel()
	h.NS.Bridge(t, "fdb add 02:00:00:00:00:02 dev v1 dst 198.18.0.2")
	h.NS.IP(t, "neigh add 10.5.3.0 lladdr 02:00:00:00:00:02 dev v1 nud permanent")
	more := h.Kernel()
	for _, want := range []string{"fdb 02:00:00:00:00:02 dev v1 dst 198.18.0.2", "neighbour 10.5.3.0 dev v1 lladdr 02:00:00:00:00:02"} {
		if strings.Contains(with, want) || !strings.Contains(more, want) {
			t.Errorf("%q was not added, but\n%s", want, more)
		}
	}
	if !strings.Contains(with, "link v1:") {
		t.Error(with)
	}
	h.NS.IP(t, "link del v1")
	if after := h.Kernel(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// TestDaemonSeesOnlyItsHost checks what a daemon sees of its host, and how it ends.
func TestDaemonSeesOnlyItsHost(t *testing.T) {
	c := New(t, Options{Hosts: 1})
	h := c.Hosts[0]
	sh := Command{Argv: []string{"sh", "-c"}, Env: []string{"COLOUR=blue"}}

	d := h.Start(sh, `echo "$COLOUR"; hostname; cat /etc/machine-id; ls /sys/class/net; echo up >/run/flannel/up; exec sleep 1000`)
	d.WaitLog("eth0\n")
	kerneltest.Eventually(t, patience, func() error {
		_, err := os.Stat(filepath.Join(h.Dir, "run/flannel/up"))
		return err
	})
	for _, want := range []string{"blue\n", "host1\n", fmt.Sprintf("%032x\n", 1)} {
		if !strings.Contains(d.Log(), want) {
			t.Errorf("%q is not in %q", want, d.Log())
		}
	}
	if !d.Running() {
		t.Error("it has ended")
	}
	if code := d.Stop(); code != 128+15 || d.Running() {
		t.Errorf("exit code is %d, running %v", code, d.Running())
	}
	// The kernel counts pages per processor, and adds them up in batches: it may count
	// only a single page of a process as small as this.
	if rss := d.PeakMemory(); rss <= 0 || rss > 100<<20 {
		t.Errorf("peak memory is %d", rss)
	}

	d = h.Start(sh, `trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done`)
	d.WaitLog("ready\n")
	if code := d.Stop(); code != 7 || !strings.HasSuffix(d.Log(), "bye\n") {
		t.Errorf("exit code is %d, log %q", code, d.Log())
	}

	d = h.Start(Command{Argv: []string{"sleep", "1000"}})
	if cmdline, err := os.ReadFile(d.proc("cmdline")); err != nil || string(cmdline) != "sleep\x001000\x00" {
		// The launcher may be about to run the program, but no longer needs the host's
		// files.
		t.Logf("command line is %q, %v", cmdline, err)
	}
	d.Kill()
	if d.Running() || d.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %s", d.cmd.ProcessState)
	}

	if code := h.Start(sh, "exit 3").Wait(); code != 3 {
		t.Errorf("exit code is %d", code)
	}
}

func TestFrozenDaemonUsesNothing(t *testing.T) {
	c := New(t, Options{Hosts: 1})
	d := c.Hosts[0].Start(Command{Argv: []string{"sh", "-c", "while :; do :; done"}})
	busy := func(than time.Duration) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error {
			if cpu := d.CPU(); cpu < than {
				return fmt.Errorf("CPU time is %v", cpu)
			}
			return nil
		})
	}
	busy(50 * time.Millisecond)
	d.Freeze()
	frozen := d.CPU()
	<-time.After(50 * time.Millisecond)
	if now := d.CPU(); now != frozen {
		t.Errorf("CPU time went from %v to %v", frozen, now)
	}
	d.Thaw()
	busy(frozen + 20*time.Millisecond)
	before := d.CPU()
	d.Kill()
	if after := d.CPU(); after < before || after > before+patience {
		t.Errorf("CPU time was %v, and %v when it had ended", before, after)
	}
}

func TestDiskFills(t *testing.T) {
	c := New(t, Options{Hosts: 2})
	h := c.Hosts[0]
	write := Command{Argv: []string{"sh", "-c", `echo text >"$1/file"`, "sh"}}
	h.FillDisk()
	if code := h.Start(write, h.StateDir).Wait(); code == 0 {
		t.Error("a full disk has room")
	}
	if code := c.Hosts[1].Start(write, c.Hosts[1].StateDir).Wait(); code != 0 {
		t.Error("another host's disk is also full")
	}
	h.FreeDisk()
	if code := h.Start(write, h.StateDir).Wait(); code != 0 {
		t.Error("a disk that was freed has no room")
	}
}

// TestSummaryCountsLostAndLateAnswers checks the result of streams with lost, late and duplicate answers.
func TestSummaryCountsLostAndLateAnswers(t *testing.T) {
	const ms = time.Millisecond
	good := func(at, took time.Duration) ping { return ping{sent: at, left: at, took: took, answered: true} }
	lost := func(at time.Duration) ping { return ping{sent: at} }
	for name, test := range map[string]struct {
		pings   []ping
		want    Result
		longest time.Duration
	}{
		"none":     {},
		"all good": {pings: []ping{good(0, ms), good(10*ms, 7*ms)}, want: Result{Sent: 2, Slowest: 7 * ms}},
		"all lost": {pings: []ping{lost(0), lost(10 * ms)},
			want: Result{Sent: 2, Lost: 2, Gaps: []Gap{{Length: 100 * ms, Lost: 2}}}, longest: 100 * ms},
		"two gaps": {pings: []ping{good(0, ms), lost(10 * ms), good(20*ms, ms), lost(30 * ms), good(40*ms, 1001*ms), good(60*ms, 1000*ms)},
			want: Result{Sent: 6, Lost: 3, Late: 1, Slowest: 1001 * ms,
				Gaps: []Gap{{Start: 10 * ms, Length: 10 * ms, Lost: 1}, {Start: 30 * ms, Length: 30 * ms, Lost: 2}}},
			longest: 30 * ms},
	} {
		got := summarize(test.pings, 100*ms)
		if !reflect.DeepEqual(got, test.want) || got.LongestGap() != test.longest {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
