package nft

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

var update = flag.Bool("update", false, "write the golden files")

func prefixes(v4, v6 string) (p subnet.Pair[netip.Prefix]) {
	for f, s := range []string{v4, v6} {
		if s != "" {
			p[f] = netip.MustParsePrefix(s)
		}
	}
	return p
}

func dual() firewall.Rules {
	return firewall.Rules{
		Networks:   prefixes("10.5.0.0/16", "fd00:5::/48"),
		Own:        prefixes("10.5.3.0/24", "fd00:5:0:3::/64"),
		Masquerade: subnet.Pair[bool]{true, true}, Random: true, Forward: true,
	}
}

// host is a namespace with tables.
type host struct {
	*Tables
	t  testing.TB
	ns *kerneltest.NS
}

func newHost(t *testing.T) *host {
	ns := kerneltest.NewNS(t, "masq")
	return &host{Open(ns.Path), t, ns}
}

// run runs a line of words inside.
func (h *host) run(line string) string {
	h.t.Helper()
	out, err := h.ns.Command(strings.Fields(line)...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// load loads text with nft.
func (h *host) load(text string) {
	h.t.Helper()
	cmd := h.ns.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("nft: %v: %s", err, out)
	}
}

// rules returns all rules of the namespace, without counters, table by table.
func (h *host) rules() string {
	h.t.Helper()
	tables := strings.SplitAfter(h.run("nft --stateless list ruleset"), "\n}\n")
	slices.Sort(tables)
	return strings.Join(tables, "")
}

func (h *host) sync(r firewall.Rules) (changed bool) {
	h.t.Helper()
	for _, e := range []firewall.Engine{NAT{h.Tables}, Forward{h.Tables}} {
		c, err := e.Sync(context.Background(), r)
		if err != nil {
			h.t.Fatal(err)
		}
		changed = changed || c
	}
	return changed
}

// iptables creates the chains of iptables, with FORWARD's policy as Docker sets it.
func (h *host) iptables() {
	h.t.Helper()
	for _, command := range []string{"iptables-nft", "ip6tables-nft"} {
		h.run(command + " -P FORWARD DROP")
		h.run(command + " -P INPUT ACCEPT")
		h.run(command + " -P OUTPUT ACCEPT")
	}
}

// TestEveryCombination compares what nft shows with the recorded output.
func TestEveryCombination(t *testing.T) {
	h := newHost(t)
	h.iptables()
	var all strings.Builder
	both := []bool{false, true}
	for _, families := range []string{"IPv4", "IPv6", "both"} {
		for _, masquerade := range []subnet.Pair[bool]{{}, {true, false}, {false, true}, {true, true}} {
			for _, random := range both {
				for _, forward := range both {
					for _, exempt := range both {
						r := dual()
						r.Masquerade, r.Random, r.Forward = masquerade, random, forward
						for _, f := range subnet.Families {
							if families != "both" && families != f.String() {
								r.Networks[f], r.Own[f] = netip.Prefix{}, netip.Prefix{}
							}
						}
						if exempt {
							r.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("2001:db8::/33"), netip.MustParsePrefix("198.51.100.1/32")}
						}
						h.sync(r)
						if h.sync(r) {
							t.Errorf("%+v was written again", r)
						}
						fmt.Fprintf(&all, "# families %s, masquerade %v, random %t, forward %t, exempt %t\n%s\n", families, masquerade, random, forward, exempt, h.rules())
					}
				}
			}
		}
	}
	const golden = "testdata/combinations.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(all.String(), "\n"), strings.Split(string(want), "\n")
	for i := range got {
		if i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("line %d of %s (go test -update writes it):\n%s", i+1, golden, strings.Join(got[max(0, i-10):min(len(got), i+10)], "\n"))
		}
	}
}

// keep runs a keeper of the tables until the test ends.
func (h *host) keep(r firewall.Rules) *firewall.Keeper {
	k := firewall.NewKeeper(func(context.Context, subnet.Choice) ([]firewall.Part, error) {
		all := func(r firewall.Rules) firewall.Rules { return r }
		return []firewall.Part{
			{Name: "masquerade", Engine: NAT{h.Tables}, Wants: all, Watch: NAT{h.Tables}.Watch},
			{Name: "forward", Engine: Forward{h.Tables}, Wants: all, Watch: Forward{h.Tables}.Watch},
		}, nil
	}, budget.New().Account(budget.FirewallLimit, budget.Elapsed), func() {})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	h.t.Cleanup(func() { cancel(); running.Wait() })
	k.Want(r)
	kerneltest.Eventually(h.t, 10*time.Second, func() error {
		if s := k.Status(); !s.Tried || s.Err != nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return k
}

// back waits until all rules are restored.
func (h *host) back(want string) {
	h.t.Helper()
	kerneltest.Eventually(h.t, 20*time.Second, func() error {
		if got := h.rules(); got != want {
			return fmt.Errorf("there is\n%s\nwhere there was\n%s", got, want)
		}
		return nil
	})
}

// TestRestoresWhatOthersChange checks that the kernel's events alone suffice to undo
// foreign changes of our rules.
func TestRestoresWhatOthersChange(t *testing.T) {
	for name, hurt := range map[string]func(h *host){
		"table deleted":    func(h *host) { h.run("nft delete table inet tulle") },
		"table flushed":    func(h *host) { h.run("nft flush table inet tulle") },
		"chain flushed":    func(h *host) { h.run("nft flush chain inet tulle postrouting") },
		"asleep":           func(h *host) { h.run("nft add table inet tulle { flags dormant; }") },
		"a chain too much": func(h *host) { h.run("nft add chain inet tulle other") },
		"a rule too much":  func(h *host) { h.run("nft insert rule inet tulle postrouting drop") },
		"a stranger's condition": func(h *host) {
			h.load("flush chain inet tulle postrouting\nadd rule inet tulle postrouting fib daddr type local return\n")
		},
		"reordered": func(h *host) {
			h.load("delete rule inet tulle postrouting handle " + h.handle("inet tulle postrouting", "ip daddr 10.5.3.0/24") + "\nadd rule inet tulle postrouting ip daddr 10.5.3.0/24 return\n")
		},
		"changed": func(h *host) {
			h.load("replace rule inet tulle postrouting handle " + h.handle("inet tulle postrouting", "ip daddr 10.5.3.0/24") + " ip daddr 10.5.4.0/24 return\n")
		},
		"another hook": func(h *host) {
			h.load("delete table inet tulle\ntable inet tulle { chain postrouting { type nat hook postrouting priority 50; meta mark 1 return; }; }\n")
		},
		"accepts deleted": func(h *host) { h.run("iptables-nft -D FORWARD 1"); h.run("ip6tables-nft -D FORWARD 1") },
		"accepts flushed": func(h *host) { h.run("iptables-nft -F FORWARD") },
		"all of iptables' written again": func(h *host) {
			cmd := h.ns.Command("iptables-nft-restore")
			cmd.Stdin = strings.NewReader("*filter\n:FORWARD DROP [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				h.t.Fatalf("%v: %s", err, out)
			}
		},
		"accepts twice": func(h *host) { h.run("iptables-nft -A FORWARD -s 10.5.0.0/16 -m comment --comment tulle -j ACCEPT") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.iptables()
			k := h.keep(dual())
			before := h.rules()
			hurt(h)
			h.back(before)
			kerneltest.Eventually(t, 10*time.Second, func() error {
				if s := k.Status(); s.Healed == 0 || s.Err != nil {
					return fmt.Errorf("%+v", s)
				}
				return nil
			})
		})
	}
}

// handle returns the handle of the first rule of a chain that contains text.
func (h *host) handle(chain, text string) string {
	h.t.Helper()
	for line := range strings.Lines(h.run("nft -a list chain " + chain)) {
		if strings.Contains(line, text) {
			_, handle, _ := strings.Cut(strings.TrimSpace(line), "# handle ")
			return handle
		}
	}
	h.t.Fatalf("%s has no %q", chain, text)
	return ""
}

// TestForwardChainAppearsLater adds iptables' chains beside a running keeper, with
// foreign rules before and after ours.
func TestForwardChainAppearsLater(t *testing.T) {
	h := newHost(t)
	h.keep(dual())
	if strings.Contains(h.rules(), "FORWARD") {
		t.Fatal("a chain of iptables was made")
	}
	forward := func(want ...string) {
		t.Helper()
		kerneltest.Eventually(t, 20*time.Second, func() error {
			var got []string
			for line := range strings.Lines(h.run("iptables-nft -S FORWARD")) {
				got = append(got, strings.TrimSpace(line))
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		})
	}
	const from = "-A FORWARD -s 10.5.0.0/16 -m comment --comment tulle -j ACCEPT"
	const to = "-A FORWARD -d 10.5.0.0/16 -m comment --comment tulle -j ACCEPT"
	h.run("iptables-nft -P FORWARD DROP")
	forward("-P FORWARD DROP", from, to)
	h.run("iptables-nft -I FORWARD -j REJECT")
	forward("-P FORWARD DROP", from, to, "-A FORWARD -j REJECT --reject-with icmp-port-unreachable")
	h.run("iptables-nft -N DOCKER-USER")
	h.run("iptables-nft -I FORWARD -j DOCKER-USER")
	h.run("iptables-nft -I FORWARD -s 10.5.0.7 -j DROP")
	const person, docker, reject = "-A FORWARD -s 10.5.0.7/32 -j DROP", "-A FORWARD -j DOCKER-USER", "-A FORWARD -j REJECT --reject-with icmp-port-unreachable"
	forward("-P FORWARD DROP", person, docker, from, to, reject)
	h.run("iptables-nft -A DOCKER-USER -j DROP") // a foreign chain now drops everything
	forward("-P FORWARD DROP", person, from, to, docker, reject)
	h.run("iptables-nft -D DOCKER-USER 1") // their place is still valid
	forward("-P FORWARD DROP", person, from, to, docker, reject)
}

// TestOthersUntouched adds and removes our rules among 5,000 foreign ones.
func TestOthersUntouched(t *testing.T) {
	h := newHost(t)
	h.crowd(5000)
	before := h.rules()
	h.sync(dual())
	if got := strings.ReplaceAll(h.rules(), before, ""); !strings.Contains(got, "table inet tulle") {
		t.Errorf("nothing was written:\n%.2000s", got)
	}
	if h.sync(dual()) {
		t.Error("written again")
	}
	h.sync(firewall.Rules{})
	if h.rules() != before {
		t.Error("others' rules are not what they were")
	}
}

// crowd adds count foreign rules of every kind, half of them in iptables' filter
// table.
func (h *host) crowd(n int) {
	h.t.Helper()
	var b strings.Builder
	b.WriteString("*filter\n:FORWARD DROP [0:0]\n:OTHERS - [0:0]\n-A FORWARD -j OTHERS\n")
	for i := range n / 2 {
		fmt.Fprintf(&b, "-A OTHERS -s 172.20.%d.%d -p tcp -m tcp --dport %d -m comment --comment \"rule %d\" -j ACCEPT\n", i/256, i%256, 1+i%60000, i)
	}
	b.WriteString("COMMIT\n")
	cmd := h.ns.Command("iptables-nft-restore")
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	b.Reset()
	b.WriteString("table ip others {\n set s { type ipv4_addr; elements = { 192.0.2.1 }; }\n chain c {\n")
	for i := range n - n/2 {
		fmt.Fprintf(&b, "ip saddr 172.21.%d.%d ct state new ip daddr != @s counter drop\n", i/256, i%256)
	}
	b.WriteString("}\n chain f { type filter hook forward priority 10; policy accept; jump c; }\n}\n")
	h.load(b.String())
}

func TestCheckLeavesNothing(t *testing.T) {
	h := newHost(t)
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
	if got := h.rules(); got != "" {
		t.Errorf("it leaves\n%s", got)
	}
}

// TestRemoveFlannel removes what flannel wrote, in both of its forms, and nothing
// else.
func TestRemoveFlannel(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct{ command, network, own, multicast string }{
		{"iptables-nft", "10.5.0.0/16", "10.5.3.0/24", "224.0.0.0/4"},
		{"ip6tables-nft", "fd00:5::/48", "fd00:5:0:3::/64", "ff00::/8"},
	} {
		h.run(c.command + " -t nat -A POSTROUTING -m comment --comment ours -j MASQUERADE")
		h.run(c.command + " -A FORWARD -j ACCEPT")
	}
	h.load("table ip flannel { chain c { drop; }; }\n")
	before := h.rules()
	for _, c := range []struct{ command, network, own, multicast string }{
		{"iptables-nft", "10.5.0.0/16", "10.5.3.0/24", "224.0.0.0/4"},
		{"ip6tables-nft", "fd00:5::/48", "fd00:5:0:3::/64", "ff00::/8"},
	} {
		for _, rule := range []string{
			"-t nat -N FLANNEL-POSTRTG",
			"-t nat -A POSTROUTING -m comment --comment flanneld_masq -j FLANNEL-POSTRTG",
			"-t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment flanneld_masq -j RETURN",
			"-t nat -A FLANNEL-POSTRTG -s " + c.own + " -d " + c.network + " -j RETURN",
			"-t nat -A FLANNEL-POSTRTG -s " + c.network + " ! -d " + c.multicast + " -j MASQUERADE --random-fully",
			"-N FLANNEL-FWD",
			"-A FORWARD -j FLANNEL-FWD",
			"-A FLANNEL-FWD -s " + c.network + " -j ACCEPT",
		} {
			h.run(c.command + " " + rule)
		}
	}
	h.load("table ip flannel-ipv4 { chain postrtg { type nat hook postrouting priority srcnat; ip saddr 10.5.0.0/16 masquerade; }; }\ntable ip6 flannel-ipv6 { chain forward { type filter hook forward priority 0; }; }\n")
	removed, err := h.RemoveFlannel(t.Context())
	if err != nil || len(removed) != 10 {
		t.Errorf("removed %q, %v", removed, err)
	}
	if got := h.rules(); got != before {
		t.Errorf("there is\n%s\nwhere there was\n%s", got, before)
	}
	if removed, err := h.RemoveFlannel(t.Context()); err != nil || removed != nil {
		t.Errorf("again it removed %q, %v", removed, err)
	}
}

// TestManyExempt exempts a list as long as a whole registry's.
func TestManyExempt(t *testing.T) {
	h := newHost(t)
	r := dual()
	for i := range 20_000 {
		a := netip.AddrFrom4([4]byte{192, byte(i >> 16), byte(i >> 8), byte(i)})
		r.Exempt = append(r.Exempt, netip.PrefixFrom(a, 32))
	}
	if !h.sync(r) || h.sync(r) {
		t.Error("they are not written once")
	}
	if n := strings.Count(h.run("nft list table inet tulle"), "ip daddr 192."); n != len(r.Exempt) {
		t.Errorf("%d of %d are exempt", n, len(r.Exempt))
	}
	if !h.sync(dual()) {
		t.Error("they stay")
	}
}

// TestOthersRulesWithOurRemark checks that a foreign rule with our comment stays
// foreign.
func TestOthersRulesWithOurRemark(t *testing.T) {
	h := newHost(t)
	h.iptables()
	h.run("iptables-nft -A FORWARD -m comment --comment tulle")
	for _, rule := range []string{
		"-i eth0 -p udp --dport 8472 -j ACCEPT", "-s 192.0.2.7 -j DROP", "-i eth0 -s 10.5.0.0/16 -j ACCEPT", "! -s 10.5.0.0/16 -j ACCEPT",
		"-s 10.5.0.0/16 -d 10.5.0.0/16 -j ACCEPT", "-j ACCEPT",
	} {
		h.run("iptables-nft -A FORWARD -m comment --comment tulle " + rule)
	}
	before := h.rules()
	if !h.sync(dual()) || h.sync(dual()) {
		t.Error("ours are not written once")
	}
	h.sync(firewall.Rules{})
	if after := h.rules(); after != before {
		t.Errorf("others' rules were\n%s\nand are\n%s", before, after)
	}
}

// TestRemoveFlannelAmongOthers keeps foreign rules that lead to flannel's chains, or
// have its comments.
func TestRemoveFlannelAmongOthers(t *testing.T) {
	h := newHost(t)
	h.iptables()
	h.load(`
table ip flannel-ipv4 { chain x { }; }
table ip filter {
	chain FLANNEL-FWD { ip saddr 10.5.0.0/16 accept; }
	chain MINE { jump FLANNEL-FWD; }
	chain FORWARD {
		goto FLANNEL-FWD;
		ip saddr 10.5.0.0/16 accept comment "flanneld forward";
		udp dport 8472 drop comment "flanneld does not need it here";
	}
}
table ip nat { chain FLANNEL-POSTRTG { }; chain POSTROUTING { meta l4proto vmap { 17 : jump FLANNEL-POSTRTG }; }; }`)
	removed, err := h.RemoveFlannel(t.Context())
	want := []string{"table flannel-ipv4", "IPv4 rule in filter FORWARD", "IPv4 rule in filter FORWARD", "IPv4 chain FLANNEL-FWD in filter"}
	if err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if left := h.rules(); !strings.Contains(left, "jump FLANNEL-FWD") || !strings.Contains(left, "does not need") || strings.Contains(left, "10.5.0.0") {
		t.Error(left)
	}
	if removed, err := h.RemoveFlannel(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("then removed %q, %v", removed, err)
	}
}

// TestCheckWithoutCapability checks that the error names the missing capability, and
// not an old kernel.
func TestCheckWithoutCapability(t *testing.T) {
	h := newHost(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its lost capabilities
		header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		err := unix.Capget(&header, &data[0])
		if err == nil {
			data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
			err = unix.Capset(&header, &data[0])
		}
		if err != nil {
			t.Error(err)
		}
		done <- h.Check()
	}()
	if err := <-done; !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("%v", err)
	}
}
