package e2e

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// mirrorPort is the port at which mirrors listen.
const mirrorPort = 7000

// filtered is two nodes and a host outside the network, each with a mirror, as each
// pod has.
type filtered struct {
	*world
	here, there, outside *clustertest.Host
	pod, peer            *clustertest.Pod
	flags                []string
}

// newFiltered creates a network whose pods reach one another. It calls before for
// each node first.
func newFiltered(t *testing.T, config string, before func(h *clustertest.Host), flags ...string) *filtered {
	t.Helper()
	f := newUnreached(t, config, before, flags...)
	f.Reach(f.pod, f.peer)
	return f
}

// newUnreached is newFiltered for a network whose pods may not reach one another yet.
func newUnreached(t *testing.T, config string, before func(h *clustertest.Host), flags ...string) *filtered {
	t.Helper()
	w := newWorld(t, 3, 1, config)
	f := &filtered{world: w, here: w.Hosts[0], there: w.Hosts[1], outside: w.Hosts[2], flags: append(flags, "--ip-masq")}
	for _, h := range w.Hosts[:2] {
		before(h)
		w.start(h, f.flags...)
	}
	f.pod, f.peer = f.here.AddPod(), f.there.AddPod()
	for _, path := range []string{f.here.NS.Path, f.outside.NS.Path, f.pod.NS.Path, f.peer.NS.Path} {
		mirror(t, path, mirrorPort)
	}
	return f
}

func at(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, mirrorPort) }

// lead routes packets from outside to a pod through a host.
func (f *filtered) lead(p *clustertest.Pod, family subnet.Family, by *clustertest.Host) {
	f.t.Helper()
	f.outside.NS.IP(f.t, fmt.Sprintf("route replace %s via %s dev %s", p.Addr[family], by.Addr[family], clustertest.Uplink))
}

// TestMasqueradeByRuleAndFamily checks the source of a pod's packets as hosts outside,
// other pods and nodes see it, with rules of each kind, in both families.
func TestMasqueradeByRuleAndFamily(t *testing.T) {
	t.Parallel()
	run := func(h *clustertest.Host, command string) {
		if out, err := h.NS.Command(strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	for _, c := range []struct {
		name   string
		flag   string
		before func(h *clustertest.Host)
		shows  string // a command that prints the rules
	}{
		{"nftables", "--filter=auto", func(*clustertest.Host) {}, "nft list table inet tulle"},
		{"iptables", "--filter=iptables", func(*clustertest.Host) {}, "iptables-nft -t nat -S TULLE-POSTRTG"},
		{"legacy iptables", "--filter=iptables", func(h *clustertest.Host) {
			for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} { // tulled keeps to the tables that are in use
				run(h, command+" -A INPUT -j ACCEPT")
				run(h, command+" -P FORWARD DROP")
			}
		}, "iptables-legacy -t nat -S TULLE-POSTRTG"},
		{"nftables where legacy iptables drop", "--filter=nftables", func(h *clustertest.Host) {
			for _, command := range []string{"iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"} {
				run(h, command+" -P FORWARD DROP")
			}
		}, "nft list table inet tulle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exempt := filepath.Join(t.TempDir(), "exempt")
			f := newFiltered(t, dualConfig, c.before, c.flag, "--no-masq-cidrs-file="+exempt)
			run(f.here, c.shows)
			for _, family := range subnet.Families {
				f.whoFrom(family)
			}
			// Exempt hosts see the pods' own addresses as soon as the file lists them.
			for _, family := range subnet.Families {
				f.lead(f.pod, family, f.here)
				for _, step := range []struct {
					text string
					as   netip.Addr
				}{
					{fmt.Sprintf("# the world\n%s/%d\n", f.outside.Addr[family], family.Bits()), f.pod.Addr[family]},
					{"", f.here.Addr[family]},
				} {
					if err := os.WriteFile(exempt, []byte(step.text), 0o644); err != nil {
						t.Fatal(err)
					}
					f.seen(f.pod.NS.Path, at(f.outside.Addr[family]), step.as)
				}
			}
		})
	}
}

// whoFrom checks the source of a family's packets on each path.
func (f *filtered) whoFrom(family subnet.Family) {
	f.t.Helper()
	pod, peer := f.pod.Addr[family], f.peer.Addr[family]
	here, outside := f.here.Addr[family], f.outside.Addr[family]
	subnets, err := subnetsOf(f.here)
	if err != nil {
		f.t.Fatal(err)
	}
	tunnel := subnets[family].Addr() // the host's own address in the network

	f.seen(f.pod.NS.Path, at(outside), here)
	f.seen(f.pod.NS.Path, at(peer), pod)
	f.seen(f.pod.NS.Path, at(here), pod)
	f.seen(f.here.NS.Path, at(peer), tunnel)
	f.seenFrom(f.here.NS.Path, here, at(peer), tunnel) // tulled masquerades this, although the source is the pod's
	f.lead(f.pod, family, f.here)
	f.seen(f.outside.NS.Path, at(pod), outside)
	f.lead(f.peer, family, f.here)
	f.seen(f.outside.NS.Path, at(peer), tunnel) // otherwise the reply would take another path

	// tulled does not masquerade packets that kube-proxy has marked.
	kind := subnet.Pair[string]{"ip", "ip6"}[family]
	table := fmt.Sprintf("table %s kube-proxy { chain marks { type filter hook prerouting priority 0; %s daddr %s meta mark set mark or 0x4000; }; }\n", kind, kind, outside)
	load := f.here.NS.Command("nft", "-f", "-")
	load.Stdin = strings.NewReader(table)
	if out, err := load.CombinedOutput(); err != nil {
		f.t.Fatalf("nft: %v: %s", err, out)
	}
	f.seen(f.pod.NS.Path, at(outside), pod)
	if out, err := f.here.NS.Command("nft", "delete", "table", kind, "kube-proxy").CombinedOutput(); err != nil {
		f.t.Fatalf("nft: %v: %s", err, out)
	}
	f.seen(f.pod.NS.Path, at(outside), here)
}

// seenFrom is seen for a client that binds to an address.
func (f *filtered) seenFrom(path string, from netip.Addr, to netip.AddrPort, as netip.Addr) {
	f.t.Helper()
	f.eventually(func() error {
		var conn net.Conn
		if err := clustertest.Inside(path, func() (err error) {
			d := net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
			conn, err = d.Dial("tcp", to.String())
			return err
		}); err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		text, err := io.ReadAll(conn)
		if seen, _ := netip.ParseAddrPort(string(text)); err != nil || seen.Addr() != as {
			return fmt.Errorf("%s sees %s come from %s, not from %s: %w", to, from, seen, as, err)
		}
		return nil
	})
}

// TestFlowsSurvive keeps connections of a pod open, to a host outside and to another
// pod. Meanwhile the daemon is killed and started, and the rules change, then move to
// the other kind and back.
func TestFlowsSurvive(t *testing.T) {
	t.Parallel()
	f := newFiltered(t, dualConfig, func(h *clustertest.Host) {
		if out, err := h.NS.Command("iptables-nft", "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	var flows []*flow
	for _, family := range subnet.Families {
		flows = append(flows, f.flow(f.pod.NS.Path, f.outside.NS.Path, f.outside.Addr[family], f.here.Addr[family]))
		flows = append(flows, f.flow(f.pod.NS.Path, f.peer.NS.Path, f.peer.Addr[family], f.pod.Addr[family]))
	}
	alive := func(when string) {
		t.Helper()
		for _, flow := range flows {
			if err := flow.echo(); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	alive("at first")
	for _, step := range []struct{ flag, kind string }{
		{"--filter=auto", "nftables"},
		{"--no-masq-cidrs=192.0.2.0/24", "nftables"},
		{"--ip-masq-fully-random-disable", "nftables"},
		{"--filter=iptables", "iptables"},
		{"--filter=nftables", "nftables"},
	} {
		f.daemons[f.here].Kill()
		alive("without a daemon")
		f.restart(f.here, append(f.flags, step.flag)...)
		alive("after the start with " + step.flag)
		f.rules(f.here, step.kind)
		alive("with the rules of " + step.flag)
	}
}

// rules waits until a host's rules are of exactly one kind.
func (f *filtered) rules(h *clustertest.Host, kind string) {
	f.t.Helper()
	f.eventually(func() error {
		has := map[string]bool{}
		for name, command := range map[string]string{"nftables": "nft list table inet tulle", "iptables": "iptables-nft -t nat -S TULLE-POSTRTG"} {
			has[name] = h.NS.Command(strings.Fields(command)...).Run() == nil
		}
		if !has[kind] || has["nftables"] == has["iptables"] {
			return fmt.Errorf("the rules are %v, not %s", has, kind)
		}
		return nil
	})
}

// flow is a connection whose far end sends back what it receives.
type flow struct{ near net.Conn }

// flow opens a connection, and checks the source that its far end sees.
func (f *filtered) flow(from, to string, addr, as netip.Addr) *flow {
	f.t.Helper()
	var l net.Listener
	if err := clustertest.Inside(to, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			seen <- err.Error()
			return
		}
		seen <- conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().String()
		_, _ = io.Copy(conn, conn)
	}()
	flow := &flow{}
	if err := clustertest.Inside(from, func() (err error) {
		flow.near, err = net.DialTimeout("tcp", l.Addr().String(), patience)
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { flow.near.Close() })
	if got := <-seen; got != as.String() {
		f.t.Fatalf("%s sees %s, not %s", addr, got, as)
	}
	return flow
}

func (f *flow) echo() error {
	if err := f.near.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	const text = "are you there?"
	if _, err := io.WriteString(f.near, text); err != nil {
		return err
	}
	b := make([]byte, len(text))
	_, err := io.ReadFull(f.near, b)
	if err == nil && string(b) != text {
		return fmt.Errorf("%q came back", b)
	}
	return err
}

// lookOn checks from outside the source of a pod's packets, in both families, until it
// is stopped. Any source other than the pod's host is an error.
func (f *filtered) lookOn() (end func()) {
	stop := make(chan struct{})
	results := make(chan error, len(subnet.Families))
	for _, family := range subnet.Families {
		f.lead(f.pod, family, f.here) // a packet with its own source also gets an answer
		go func() {
			looks := 0
			for {
				select {
				case <-stop:
					if looks < 10 {
						results <- fmt.Errorf("looked %d times", looks)
					}
					results <- nil
					return
				default:
				}
				from, err := look(f.pod.NS.Path, at(f.outside.Addr[family]))
				if err != nil || from != f.here.Addr[family] {
					results <- fmt.Errorf("the host outside sees %s: %w", from, err)
					return
				}
				looks++
			}
		}()
	}
	return func() {
		f.t.Helper()
		close(stop)
		for range subnet.Families {
			if err := <-results; err != nil {
				f.t.Error(err)
			}
		}
	}
}

// TestTakesOverFromFlannelsRules checks from outside the source of a pod's packets
// while tulle's rules replace flannel's.
func TestTakesOverFromFlannelsRules(t *testing.T) {
	t.Parallel()
	f := newFiltered(t, dualConfig, func(*clustertest.Host) {}, "--filter=none")
	f.daemons[f.here].Kill()
	for _, c := range []struct {
		command, network, multicast string
	}{{"iptables-nft", "10.5.0.0/16", "224.0.0.0/4"}, {"ip6tables-legacy", "fd00:5::/48", "ff00::/8"}} {
		for _, rule := range []string{
			"-t nat -N FLANNEL-POSTRTG",
			"-t nat -A POSTROUTING -j FLANNEL-POSTRTG",
			"-t nat -A FLANNEL-POSTRTG -s " + c.network + " -d " + c.network + " -j RETURN",
			"-t nat -A FLANNEL-POSTRTG -s " + c.network + " ! -d " + c.multicast + " -j MASQUERADE --random-fully",
			"-N FLANNEL-FWD", "-A FORWARD -j FLANNEL-FWD", "-A FLANNEL-FWD -s " + c.network + " -j ACCEPT", "-A FLANNEL-FWD -d " + c.network + " -j ACCEPT",
			"-P FORWARD DROP",
		} {
			if out, err := f.here.NS.Command(strings.Fields(c.command + " " + rule)...).CombinedOutput(); err != nil {
				t.Fatalf("%s %s: %v: %s", c.command, rule, err, out)
			}
		}
	}
	looked := f.lookOn()
	there := f.pings(f.here, f.there)
	there.more(20)
	d := f.start(f.here, "--ip-masq")
	d.WaitLog(`"Removed old firewall rules" owner="flannel"`)
	there.more(100)
	looked()
	there.wantLost(0)
	for _, command := range []string{"iptables-nft-save", "ip6tables-legacy-save", "nft list ruleset"} {
		if out, err := f.here.NS.Command(strings.Fields(command)...).CombinedOutput(); err != nil || strings.Contains(string(out), "FLANNEL") {
			t.Errorf("%s: %v:\n%s", command, err, out)
		}
	}
}

// TestConfigsNFTables changes the config's EnableNFTables while the daemons run. The
// rules move accordingly, unless a flag decides. No packet is lost or leaves without
// masquerading, and no connection ends.
func TestConfigsNFTables(t *testing.T) {
	t.Parallel()
	f := newFiltered(t, dualConfig, func(h *clustertest.Host) {
		for _, command := range []string{"iptables-nft", "ip6tables-nft"} {
			if out, err := h.NS.Command(command, "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	})
	f.daemons[f.there].Kill()
	f.restart(f.there, append(f.flags, "--filter=nftables")...)
	f.rules(f.here, "nftables")
	var flows []*flow
	for _, family := range subnet.Families {
		flows = append(flows, f.flow(f.pod.NS.Path, f.outside.NS.Path, f.outside.Addr[family], f.here.Addr[family]))
		flows = append(flows, f.flow(f.pod.NS.Path, f.peer.NS.Path, f.peer.Addr[family], f.pod.Addr[family]))
	}
	looked := f.lookOn()
	there := f.pings(f.here, f.there)
	const says = "--filter=nftables overrides EnableNFTables, which is false"
	said := 0
	for _, step := range []struct{ key, kind string }{
		{`"EnableNFTables": false,`, "iptables"},
		{`"EnableNFTables": true,`, "nftables"},
		{`"EnableNFTables": false,`, "iptables"},
		{"", "nftables"},
	} {
		f.put(configKey, strings.Replace(dualConfig, "{", "{"+step.key, 1))
		f.rules(f.here, step.kind)
		if step.kind == "iptables" {
			said++
		}
		// Without this wait, two quick changes may be read as one.
		f.eventually(func() error {
			if n := strings.Count(f.daemons[f.there].Log(), says); n != said {
				return fmt.Errorf("logged %d times, not %d: %s", n, said, says)
			}
			return nil
		})
		there.more(50)
		for _, flow := range flows {
			if err := flow.echo(); err != nil {
				t.Fatalf("with {%s …}: %v", step.key, err)
			}
		}
	}
	looked()
	there.wantLost(0)
	f.rules(f.there, "nftables")
	if log := f.daemons[f.here].Log(); strings.Contains(log, "restart needed") || strings.Contains(log, "Failed to write") {
		t.Error(log)
	}
}

// TestConfigsNFTablesWithoutIPTables checks that a config that requests iptables gets
// nftables on a host without it.
func TestConfigsNFTablesWithoutIPTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1, strings.Replace(vxlan, "{", `{"EnableNFTables": false, `, 1))
	h := w.Hosts[0]
	w.daemons[h] = h.Start(clustertest.Command{Argv: append([]string{"env", "PATH=/nowhere"}, tulled.Argv...)}, w.flags(h, "--ip-masq")...)
	w.daemons[h].WaitLog("EnableNFTables is false, but iptables cannot be used")
	(&filtered{world: w}).rules(h, "nftables")
}
