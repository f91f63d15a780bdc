package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// others are rules as a host has them.
const others = `
	-N DOCKER-USER
	-A DOCKER-USER -s 10.99.0.0/16 -m comment --comment "say \"no\" to them" -j DROP
	-A FORWARD -j DOCKER-USER
	-A FORWARD -i docker0 ! -o docker0 -m conntrack --ctstate NEW -j ACCEPT
	-t nat -N KUBE-POSTROUTING
	-t nat -A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
	-t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
	-t mangle -A PREROUTING -j MARK --set-xmark 0x1/0x1
`

func TestSyncWritesOnlyWhatDiffers(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		h.sh(t, k, others)
		before := h.save(t, k)
		tables := h.tables(t, k)
		sync(t, h, tables, everything(), true)
		after := h.save(t, k)
		for _, f := range subnet.Families {
			wants, _, _ := allWants(everything())
			for _, p := range parts {
				var want []string
				for _, r := range wants[f][p].rules {
					want = append(want, write(r))
				}
				if got := rulesOf(after, f, p.table, p.chain); !slices.Equal(got, want) {
					t.Errorf("%s %s:\n%s", f, p.chain, strings.Join(got, "\n"))
				}
			}
			if got := rulesOf(after, f, "nat", "POSTROUTING"); got[0] != "-m comment --comment tulle -j TULLE-POSTRTG" {
				t.Errorf("%s POSTROUTING: %q", f, got)
			}
			if got := rulesOf(after, f, "filter", "FORWARD"); !slices.Contains(got, "-m comment --comment tulle -j TULLE-FWD") {
				t.Errorf("%s FORWARD: %q", f, got)
			}
		}
		sync(t, h, tables, firewall.Rules{}, true)
		if got := h.save(t, k); rulesOnly(got) != rulesOnly(before) {
			t.Errorf("before:\n%s\nand when all was removed:\n%s", before, got)
		}
		sync(t, h, tables, firewall.Rules{}, false)
	})
}

// rulesOnly returns text without empty tables.
func rulesOnly(saved string) string {
	var b strings.Builder
	for line := range strings.Lines(saved) {
		if strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":") && !strings.HasSuffix(line, " ACCEPT [0:0]\n") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestEveryChangeLeavesWhatIsWanted checks that every change of what is wanted
// results in exactly that.
func TestEveryChangeLeavesWhatIsWanted(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		tables := h.tables(t, k)
		all := everyRules()
		h.sh(t, k, "-P FORWARD DROP\n ip6tables-"+string(k)+" -P FORWARD DROP")
		for _, i := range []int{47, 8, 1, 46, 17, 33, 15, 24, 39, 0, 32, 44} {
			if _, err := tables.Sync(t.Context(), all[i].Rules); err != nil {
				t.Fatal(err)
			}
			saved := h.save(t, k)
			wants, _, _ := allWants(all[i].Rules)
			for _, f := range subnet.Families {
				for _, p := range parts {
					var want []string
					for _, r := range wants[f][p].rules {
						want = append(want, write(r))
					}
					if got := rulesOf(saved, f, p.table, p.chain); !slices.Equal(got, want) {
						t.Errorf("%s, %s %s %s:\n%s", all[i].families, all[i].name, f, p.chain, strings.Join(got, "\n"))
					}
					if jumps := strings.Count(strings.Join(rulesOf(saved, f, p.table, p.from), "\n"), p.chain); jumps > 1 || (jumps > 0) != (len(want) > 0) {
						t.Errorf("%s, %s: %d jumps to %s %s", all[i].families, all[i].name, jumps, f, p.chain)
					}
				}
			}
		}
	})
}

func TestRestoresWhatOthersChange(t *testing.T) {
	for _, c := range []struct{ name, do string }{
		{"a rule deleted", "-D TULLE-FWD 1"},
		{"a rule added", "-t nat -A TULLE-POSTRTG -j ACCEPT"},
		{"a rule on a condition", "-t nat -R TULLE-POSTRTG 2 -s 10.244.0.0/16 -d 10.244.0.0/16 -p tcp -j RETURN"},
		{"another order", "-t nat -D TULLE-POSTRTG 1\n -t nat -A TULLE-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN"},
		{"chains emptied", "-F TULLE-FWD\n -t nat -F TULLE-POSTRTG"},
		{"FORWARD emptied", "-F FORWARD"},
		{"all emptied", "-F\n -X\n -t nat -F\n -t nat -X"},
		{"a jump deleted", "-t nat -D POSTROUTING -m comment --comment tulle -j TULLE-POSTRTG"},
		{"a jump twice", "-A FORWARD -m comment --comment tulle -j TULLE-FWD\n -t nat -A POSTROUTING -m comment --comment tulle -j TULLE-POSTRTG"},
		{"a jump on a condition", "-D FORWARD -m comment --comment tulle -j TULLE-FWD\n -I FORWARD -i eth0 -j TULLE-FWD"},
		{"another masquerades first", "-t nat -I POSTROUTING -s 10.244.0.0/16 -j MASQUERADE"},
		{"Docker starts again", "-P FORWARD DROP\n -N DOCKER-FORWARD\n -A DOCKER-FORWARD -i docker0 -j ACCEPT\n -I FORWARD -j DOCKER-FORWARD\n -D FORWARD -j DOCKER-USER\n -I FORWARD -j DOCKER-USER\n -I FORWARD -j REJECT"},
		{"RHEL's REJECT before it", "-D FORWARD -m comment --comment tulle -j TULLE-FWD\n -A FORWARD -j REJECT --reject-with icmp-host-prohibited\n -A FORWARD -m comment --comment tulle -j TULLE-FWD"},
		{"a chain that drops before it", "-N DENY\n -A DENY -j DROP\n -I FORWARD -j DENY"},
		{"loaded again", `printf '*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n-A FORWARD -p tcp -j ACCEPT\nCOMMIT\n*nat\n:POSTROUTING ACCEPT\nCOMMIT\n' | iptables-$KIND-restore`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, h *host, k Kind) {
				h.sh(t, k, others)
				tables := h.tables(t, k)
				sync(t, h, tables, everything(), true)
				h.sh(t, k, strings.ReplaceAll(c.do, "$KIND", string(k)))
				before := h.save(t, k)
				sync(t, h, tables, everything(), true)
				after := h.save(t, k)
				if foreign(before) != foreign(after) {
					t.Errorf("others' before:\n%s\nand after:\n%s", foreign(before), foreign(after))
				}
				right(t, after)
			})
		})
	}
}

// right fails the test unless the IPv4 jumps are where they must be.
func right(t *testing.T, saved string) {
	t.Helper()
	if got := rulesOf(saved, subnet.IPv4, "nat", "POSTROUTING"); len(got) == 0 || !strings.HasSuffix(got[0], "-j TULLE-POSTRTG") {
		t.Errorf("POSTROUTING: %q", got)
	}
	forward := rulesOf(saved, subnet.IPv4, "filter", "FORWARD")
	jump := slices.Index(forward, "-m comment --comment tulle -j TULLE-FWD")
	drops := slices.IndexFunc(forward, func(r string) bool {
		return strings.HasPrefix(r, "-j REJECT") || strings.HasPrefix(r, "-j DENY")
	})
	if jump < 0 || drops >= 0 && drops < jump {
		t.Errorf("FORWARD: %q", forward)
	}
	if len(rulesOf(saved, subnet.IPv4, "filter", "TULLE-FWD")) != 2 || len(rulesOf(saved, subnet.IPv4, "nat", "TULLE-POSTRTG")) != 8 {
		t.Errorf("the chains are not whole:\n%s", saved)
	}
}

// TestLeavesWhatIsRight checks that foreign rules before ours stay, as long as
// packets reach ours. A program that puts a rule last is not fought.
func TestLeavesWhatIsRight(t *testing.T) {
	for _, do := range []string{
		`-N KUBE-POD-FW
		-A KUBE-POD-FW -m mark ! --mark 0x10000/0x10000 -j REJECT
		-N KUBE-ROUTER-FORWARD
		-A KUBE-ROUTER-FORWARD -d 10.244.3.77/32 -m comment --comment "rule to jump traffic destined to POD name:a" -j KUBE-POD-FW
		-A KUBE-ROUTER-FORWARD -m mark --mark 0x20000/0x20000 -j ACCEPT
		-I FORWARD -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD`,
		"-I FORWARD -s 10.244.7.7/32 -j DROP",
		"-I FORWARD -m conntrack --ctstate INVALID -j DROP",
		"-A FORWARD -j REJECT",
		"-A FORWARD -j LOG --log-prefix \"a b\"",
		"-P FORWARD DROP",
		"-t nat -A POSTROUTING -j MASQUERADE",
		"-t mangle -A FORWARD -j DROP",
	} {
		bothKinds(t, func(t *testing.T, h *host, k Kind) {
			h.sh(t, k, others)
			tables := h.tables(t, k)
			sync(t, h, tables, everything(), true)
			h.sh(t, k, do)
			sync(t, h, tables, everything(), false)
		})
	}
}

// TestLegacyIsNotMade checks that only drops in a legacy table matter beside
// nf_tables' own rules. A table that is not in use drops nothing, and a check does
// not create it.
func TestLegacyIsNotMade(t *testing.T) {
	h := newHost(t)
	tables := h.tables(t, Legacy)
	used := func(want ...string) {
		t.Helper()
		got, err := h.legacy(subnet.IPv4)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the tables %q are in use", got)
		}
	}
	forward := everything()
	forward.Masquerade = subnet.Pair[bool]{}
	for range 2 {
		sync(t, h, tables, forward, false)
		sync(t, h, tables, firewall.Rules{}, false)
		if removed, err := tables.RemoveFlannel(t.Context()); err != nil || len(removed) > 0 {
			t.Errorf("removed %q, %v", removed, err)
		}
		if len(h.ran) > 0 {
			t.Errorf("ran %q", h.ran)
		}
	}
	used()

	h.sh(t, Legacy, "-P FORWARD DROP")
	sync(t, h, tables, forward, true)
	used("filter")
	if got := rulesOf(h.save(t, Legacy), subnet.IPv6, "filter", "FORWARD"); len(got) > 0 {
		t.Errorf("IPv6: %q", got)
	}
	h.ran = nil
	if _, err := tables.Sync(t.Context(), forward); err != nil {
		t.Fatal(err)
	}
	if want := []string{"iptables-legacy-save -t filter"}; !slices.Equal(h.ran, want) {
		t.Errorf("ran %q", h.ran)
	}

	sync(t, h, tables, everything(), true)
	used("filter", "nat")
	// What is no longer wanted is removed, and then not checked any more.
	sync(t, h, tables, forward, true)
	h.ran = nil
	if _, err := tables.Sync(t.Context(), forward); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.Join(h.ran, "\n"), "nat") || strings.Contains(h.save(t, Legacy), "TULLE-POSTRTG") {
		t.Errorf("ran %q", h.ran)
	}
}

// TestRemovalThatFails checks that a failed removal is retried.
func TestRemovalThatFails(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		tables := h.tables(t, k)
		sync(t, h, tables, everything(), true)
		forward := everything()
		forward.Masquerade = subnet.Pair[bool]{}
		h.refuse = true
		for range 2 {
			if changed, err := tables.Sync(t.Context(), forward); changed || err == nil {
				t.Fatal(changed, err)
			}
		}
		h.refuse = false
		sync(t, h, tables, forward, true)
		if saved := h.save(t, k); strings.Contains(saved, "TULLE-POSTRTG") {
			t.Error(saved)
		}
	})
}

// TestBareTable checks that a table of nf_tables that drops nothing, and may not
// exist, is not written.
func TestBareTable(t *testing.T) {
	h := newHost(t)
	tables := h.tables(t, NFT)
	forward := everything()
	forward.Masquerade = subnet.Pair[bool]{}
	ruleset := func() string {
		out, err := h.command("nft", "list", "ruleset").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	sync(t, h, tables, forward, false)
	if got := ruleset(); got != "" {
		t.Error(got)
	}
	for _, use := range []string{"-P FORWARD DROP", "-P FORWARD ACCEPT\n -A FORWARD -j REJECT"} {
		h.sh(t, NFT, use)
		sync(t, h, tables, forward, true)
		h.sh(t, NFT, "-F\n -X TULLE-FWD")
	}
	sync(t, h, tables, forward, false)
	sync(t, h, tables, everything(), true)
	// It stays when the foreign rules go.
	sync(t, h, tables, forward, true)
	if got := ruleset(); !strings.Contains(got, "TULLE-FWD") || strings.Contains(got, "TULLE-POSTRTG") {
		t.Error(got)
	}
}

// TestReplansAfterForeignChange changes the tables between the read and the write.
func TestReplansAfterForeignChange(t *testing.T) {
	for name, meanwhile := range map[string]string{
		"the jump was deleted": "-D FORWARD -i eth0 -j TULLE-FWD",
		"another was inserted": "-I FORWARD 1 -s 10.1.0.0/16 -j ACCEPT",
		"all was emptied":      "-F FORWARD",
	} {
		t.Run(name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, h *host, k Kind) {
				h.sh(t, k, others)
				tables := h.tables(t, k)
				sync(t, h, tables, everything(), true)
				h.sh(t, k, "-D FORWARD -m comment --comment tulle -j TULLE-FWD\n -A FORWARD -i eth0 -j TULLE-FWD")
				done := false
				h.before = func(command string, _ []string) {
					if strings.Contains(command, "-restore") && !done {
						done = true
						h.sh(t, k, meanwhile)
					}
				}
				if changed, err := tables.Sync(t.Context(), everything()); !changed || err != nil || !done {
					t.Fatal(changed, err, done)
				}
				if _, err := tables.Sync(t.Context(), everything()); err != nil {
					t.Fatal(err)
				}
				right(t, h.save(t, k))
			})
		})
	}
}

// TestForeignTable checks tables of iptables with rules of nft, which iptables cannot
// show: ours would be written again and again.
func TestForeignTable(t *testing.T) {
	h := newHost(t)
	tables := h.tables(t, NFT)
	h.sh(t, NFT, `-P FORWARD DROP
		nft 'add rule ip filter FORWARD ct state established accept'`)
	_, err := tables.Sync(t.Context(), everything())
	if err == nil || !strings.Contains(err.Error(), "with nft") {
		t.Error(err)
	}
	if _, err := tables.Sync(t.Context(), firewall.Rules{}); err != nil {
		t.Error(err)
	}
	// Some others end iptables.
	h.sh(t, NFT, "nft flush ruleset\n -P FORWARD DROP\n nft 'add rule ip filter FORWARD ip length 100 accept'")
	for _, r := range []firewall.Rules{everything(), {}} {
		if _, err := tables.Sync(t.Context(), r); err == nil || !strings.Contains(err.Error(), "with nft") {
			t.Error(err)
		}
	}
}

// TestPacketsPassAndAreMasqueraded checks that a container's packets pass a firewall
// that drops everything, and leave with the host's address: no host behind it knows
// the container's.
func TestPacketsPassAndAreMasqueraded(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		inside, outside := kerneltest.NewNS(t, "ipt"), kerneltest.NewNS(t, "ipt")
		kerneltest.Join(t, h.NS, "cni0", inside, "eth0")
		kerneltest.Join(t, h.NS, "eth0", outside, "eth0")
		h.IP(t, "addr add 10.244.3.1/24 dev cni0")
		h.IP(t, "addr add fd00:244:0:3::1/64 dev cni0 nodad")
		h.IP(t, "addr add 198.18.0.1/24 dev eth0")
		h.IP(t, "addr add fd00:1::1/64 dev eth0 nodad")
		inside.IP(t, "addr add 10.244.3.2/24 dev eth0")
		inside.IP(t, "addr add fd00:244:0:3::2/64 dev eth0 nodad")
		inside.IP(t, "route add default via 10.244.3.1")
		inside.IP(t, "route add default via fd00:244:0:3::1")
		outside.IP(t, "addr add 198.18.0.2/24 dev eth0")
		outside.IP(t, "addr add fd00:1::2/64 dev eth0 nodad")
		h.Sysctl(t, "net/ipv4/ip_forward", "1")
		h.Sysctl(t, "net/ipv6/conf/all/forwarding", "1")
		for _, f := range subnet.Families {
			h.sh(t, k, fmt.Sprintf("%[1]s-%[2]s -P FORWARD DROP\n %[1]s-%[2]s -A FORWARD -j REJECT", bases[f], k))
		}
		if out, err := inside.Command("ping", "-n", "-c1", "-W1", "198.18.0.2").CombinedOutput(); err == nil {
			t.Fatalf("it comes through already: %s", out)
		}
		r := everything()
		r.Exempt = nil
		sync(t, h, h.tables(t, k), r, true)
		inside.Ping(t, "", "198.18.0.2", 56)
		inside.Ping(t, "", "fd00:1::2", 56)
	})
}

func TestUnmaskedExempt(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		r := everything()
		r.Exempt = []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("::ffff:1.2.3.4/128")}
		sync(t, h, h.tables(t, k), r, true)
	})
}

// TestCommentOfManyLines checks a comment with line breaks, and everything that
// iptables-save writes after them.
func TestCommentOfManyLines(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		for f, base := range bases {
			h.sh(t, k, "-P FORWARD DROP")
			comment := "\"\n-A FORWARD -j TULLE-FWD\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n:TULLE-FWD - [0:0]\n-A FORWARD -j TULLE-FWD\n"
			cmd := h.command(base+"-"+string(k), "-A", "FORWARD", "-p", "udp", "-m", "comment", "--comment", comment, "-j", "DROP")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", subnet.Families[f], err, out)
			}
		}
		before := h.save(t, k)
		tables := h.tables(t, k)
		sync(t, h, tables, everything(), true)
		h.sh(t, k, "-C FORWARD -m comment --comment tulle -j TULLE-FWD")
		sync(t, h, tables, everything(), false)
		sync(t, h, tables, firewall.Rules{}, true)
		if got := h.save(t, k); rulesOnly(got) != rulesOnly(before) {
			t.Errorf("before:\n%s\nand when all was removed:\n%s", before, got)
		}
	})
}
