package iptables

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

type named struct {
	families, name string
	firewall.Rules
}

// everyRules returns all combinations of what can be wanted. The last wants
// everything.
func everyRules() (all []named) {
	networks := subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/48")}
	own := subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.244.3.0/24"), netip.MustParsePrefix("fd00:244:0:3::/64")}
	exempt := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("198.18.0.7/32"), netip.MustParsePrefix("fd00:96::/112")}
	for _, families := range [][]subnet.Family{{subnet.IPv4}, {subnet.IPv6}, subnet.Families[:]} {
		for n := range 16 {
			r := named{families: "both"}
			if len(families) == 1 {
				r.families = strings.ToLower(families[0].String())
			}
			for _, f := range families {
				r.Networks[f], r.Own[f] = networks[f], own[f]
				r.Masquerade[f] = n&8 != 0
			}
			if r.Random = n&4 != 0; n&2 != 0 {
				r.Exempt = exempt
			}
			r.Forward = n&1 != 0
			r.name = fmt.Sprintf("masquerade=%t random=%t exempt=%t forward=%t", n&8 != 0, n&4 != 0, n&2 != 0, n&1 != 0)
			all = append(all, r)
		}
	}
	return all
}

// empty are tables without a rule.
const empty = "*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*mangle\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n"

func parsed(t testing.TB, text string) map[string]*table {
	t.Helper()
	tables, err := parse(strings.NewReader(text), all)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// TestPayload compares the input of iptables-restore with golden files.
func TestPayload(t *testing.T) {
	texts := map[string]*strings.Builder{}
	for _, r := range everyRules() {
		b := texts[r.families]
		if b == nil {
			b = &strings.Builder{}
			texts[r.families] = b
		}
		fmt.Fprintf(b, "# %s\n", r.name)
		wants, _, _ := allWants(r.Rules)
		for _, f := range subnet.Families {
			text := ""
			for _, p := range parts {
				lines, err := p.plan(parsed(t, empty)[p.table], wants[f][p])
				if err != nil {
					t.Fatal(err)
				}
				text += payload(p.table, lines)
			}
			if text != "" {
				fmt.Fprintf(b, "# %s-restore\n%s", bases[f], text)
			}
		}
	}
	for families, b := range texts {
		path := filepath.Join("testdata", families+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s is not what is planned, which is:\n%s", path, b)
		}
	}
}

// TestPlan checks that the plan keeps or corrects what the tables hold, in any form.
func TestPlan(t *testing.T) {
	r := firewall.Rules{Networks: subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.244.0.0/16")}, Own: subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.244.3.0/24")}, Forward: true}
	wants, _, _ := allWants(r)
	wanted := wants[subnet.IPv4][filter]
	const chain = "-A TULLE-FWD -s 10.244.0.0/16 -j ACCEPT\n-A TULLE-FWD -d 10.244.0.0/16 -j ACCEPT\n"
	const jump = "-A FORWARD -m comment --comment tulle -j TULLE-FWD\n"
	const added = "-I FORWARD 1 -m comment --comment tulle -j TULLE-FWD"
	const gone = "-D FORWARD -m comment --comment tulle -j TULLE-FWD"
	content := []string{":TULLE-FWD - [0:0]", "-A TULLE-FWD -s 10.244.0.0/16 -j ACCEPT", "-A TULLE-FWD -d 10.244.0.0/16 -j ACCEPT"}
	for _, c := range []struct {
		name, has string
		want      []string
	}{
		{"right", chain + jump, nil},
		{"right without its comment", chain + "-A FORWARD -j TULLE-FWD\n", nil},
		{"before it has to be", chain + jump + "-A FORWARD -s 1.2.3.4/32 -j DROP\n-A FORWARD -j REJECT\n", nil},
		{"where it has to be", chain + "-A FORWARD -s 1.2.3.4/32 -j DROP\n" + jump + "-A FORWARD -j REJECT\n", nil},
		{"behind", chain + "-A FORWARD -s 1.2.3.4/32 -j DROP\n-A FORWARD -j REJECT\n" + jump, []string{gone, "-I FORWARD 2 -m comment --comment tulle -j TULLE-FWD"}},
		{"missing before a chain that drops", ":OTHER - [0:0]\n-A OTHER -j DROP\n-A FORWARD -j OTHER\n" + chain, []string{added}},
		{"missing behind others", chain + "-A FORWARD -s 1.2.3.4/32 -j DROP\n-A FORWARD -d 1.2.3.4/32 -j DROP\n", []string{"-I FORWARD 3 -m comment --comment tulle -j TULLE-FWD"}},
		{"twice", chain + jump + jump, []string{gone, gone, added}},
		{"on a condition", chain + "-A FORWARD -i eth0 -j TULLE-FWD\n", []string{"-D FORWARD -i eth0 -j TULLE-FWD", added}},
		{"for good", chain + "-A FORWARD -g TULLE-FWD\n", []string{"-D FORWARD -g TULLE-FWD", added}},
		{"on a condition too", chain + jump + "-A FORWARD -p tcp -j TULLE-FWD\n", []string{gone, "-D FORWARD -p tcp -j TULLE-FWD", added}},
		{"another's jump elsewhere", chain + jump + ":OTHER - [0:0]\n-A OTHER -j TULLE-FWD\n", nil},
		{"another rule", "-A TULLE-FWD -j DROP\n" + chain + jump, content},
		{"another order", "-A TULLE-FWD -d 10.244.0.0/16 -j ACCEPT\n-A TULLE-FWD -s 10.244.0.0/16 -j ACCEPT\n" + jump, content},
		{"a rule less", "-A TULLE-FWD -s 10.244.0.0/16 -j ACCEPT\n" + jump, content},
		{"a condition more", "-A TULLE-FWD -s 10.244.0.0/16 -j ACCEPT\n-A TULLE-FWD -d 10.244.0.0/16 -p tcp -j ACCEPT\n" + jump, content},
		{"empty", jump, content},
	} {
		now := parsed(t, "*filter\n:FORWARD ACCEPT [0:0]\n:TULLE-FWD - [0:0]\n"+c.has+"COMMIT\n")["filter"]
		if got, err := filter.plan(now, wanted); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, strings.Join(got, "\n"))
		}
	}
}

var nothing want

// TestRemove checks that a removal deletes our chain and all jumps to it, and nothing
// else.
func TestRemove(t *testing.T) {
	const has = "*filter\n:FORWARD ACCEPT [0:0]\n:A - [0:0]\n:TULLE-FWD - [0:0]\n-A FORWARD -j A\n-A FORWARD -m comment --comment tulle -j TULLE-FWD\n" +
		"-A A -p tcp -j TULLE-FWD\n-A FORWARD -m comment --comment tulle -j A\n-A TULLE-FWD -j ACCEPT\nCOMMIT\n"
	want := []string{"-D A -p tcp -j TULLE-FWD", "-D FORWARD -m comment --comment tulle -j TULLE-FWD", "-F TULLE-FWD", "-X TULLE-FWD"}
	if got, err := filter.plan(parsed(t, has)["filter"], nothing); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
	if got, err := filter.plan(parsed(t, empty)["filter"], nothing); err != nil || len(got) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
}
