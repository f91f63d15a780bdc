package iptables

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

func net(s string) firewall.Net { return firewall.Net{Prefix: netip.MustParsePrefix(s)} }

func isUser(name string) bool { return name == "USER" || name == "it's" }

// TestRead checks the meaning of rules, and that unknown parts make a rule opaque.
func TestRead(t *testing.T) {
	opaque := firewall.Rule{Opaque: true, Does: firewall.Drop}
	for spec, want := range map[string]firewall.Rule{
		"":          {},
		"-j ACCEPT": {Does: firewall.Accept},
		"-j DROP":   {Does: firewall.Drop},
		"-j REJECT --reject-with icmp-host-prohibited": {Does: firewall.Drop},
		"-j RETURN":   {Does: firewall.Return},
		"-j USER":     {Does: firewall.Jump, Chain: "USER"},
		"-g USER":     {Does: firewall.Goto, Chain: "USER"},
		"--goto USER": {Does: firewall.Goto, Chain: "USER"},
		`-j "it's"`:   {Does: firewall.Jump, Chain: "it's"},
		"-g NOUSER":   {},
		`-j LOG --log-prefix "-j DROP " --log-uid`:   {},
		"-j MARK --set-xmark 0x4000/0x4000":          {},
		"-j NFQUEUE --queue-num 0":                   {},
		"-j DNAT --to-destination 10.0.0.1":          {},
		"-j MASQUERADE":                              {Does: firewall.Masquerade},
		"-j MASQUERADE --random-fully":               {Does: firewall.MasqueradeRandom},
		"-j MASQUERADE --to-ports 1024-2000":         {Does: firewall.Masquerade, Opaque: true},
		"-j MASQUERADE --random":                     {Does: firewall.Masquerade, Opaque: true},
		"-s 10.0.0.0/8 -j ACCEPT":                    {From: net("10.0.0.0/8"), Does: firewall.Accept},
		"-s 10.1.2.3 -j ACCEPT":                      {From: net("10.1.2.3/32"), Does: firewall.Accept},
		"-s 10.1.2.3/8 -j ACCEPT":                    {From: net("10.0.0.0/8"), Does: firewall.Accept},
		"-s 10.0.0.0/255.0.0.0 -j ACCEPT":            {From: net("10.0.0.0/8"), Does: firewall.Accept},
		"-d fd00::/ffff:: -j ACCEPT":                 {To: net("fd00::/16"), Does: firewall.Accept},
		"! -s 10.0.0.0/8 ! -d fd00::1/128 -j ACCEPT": {From: firewall.Net{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Not: true}, To: firewall.Net{Prefix: netip.MustParsePrefix("fd00::1/128"), Not: true}, Does: firewall.Accept},
		"-s ! 10.0.0.0/8 -j ACCEPT":                  {From: firewall.Net{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Not: true}, Does: firewall.Accept},
		"--source 10.0.0.0/8 --destination 10.1.0.0/16 --in-interface a --out-interface b --jump ACCEPT": {
			From: net("10.0.0.0/8"), To: net("10.1.0.0/16"), In: firewall.Iface{Name: "a"}, Out: firewall.Iface{Name: "b"}, Does: firewall.Accept},
		"-s 0.0.0.0/0 -j DROP":                         {Does: firewall.Drop},
		"-i eth+ ! -o cni0 -j DROP":                    {In: firewall.Iface{Name: "eth", Wild: true}, Out: firewall.Iface{Name: "cni0", Not: true}, Does: firewall.Drop},
		"-i + -j DROP":                                 {Does: firewall.Drop},
		`-i "a b" -j DROP`:                             {In: firewall.Iface{Name: "a b"}, Does: firewall.Drop},
		`-i -j -j DROP`:                                {In: firewall.Iface{Name: "-j"}, Does: firewall.Drop},
		"-c 1 2 -j DROP":                               {Does: firewall.Drop},
		"-m comment --comment tulle":                   {},
		`-m comment --comment "-j ACCEPT" -j DROP`:     {Does: firewall.Drop},
		`-m comment --comment "say \"-j\" \\" -j DROP`: {Does: firewall.Drop},
		"-m mark --mark 0x4000/0x4000 -j RETURN":       {Marked: true, Does: firewall.Return},
		"-m comment --comment x -m mark --mark 0x4000/0x4000 -j RETURN": {Marked: true, Does: firewall.Return},
		"-m mark ! --mark 0x4000/0x4000 -j DROP":                        opaque,
		"-m mark --mark 0x4000 -j DROP":                                 opaque,
		"-m mark --mark 0x4000/0xffffffff -j DROP":                      opaque,
		"-m connmark --mark 0x4000/0x4000 -j DROP":                      opaque,
		"--mark 0x4000/0x4000 -j DROP":                                  opaque,
		"--comment x -j DROP":                                           opaque,
		"! -m comment --comment x -j DROP":                              opaque,
		"-p tcp -j DROP":                                                opaque,
		"-p tcp -m tcp --dport 22 -m conntrack --ctstate NEW -j DROP":   opaque,
		"-m conntrack --ctstate INVALID -j DROP":                        opaque,
		"! -s 0.0.0.0/0 -j DROP":                                        opaque,
		"! -i + -j DROP":                                                opaque,
		"-s 10.0.0.1/255.0.255.0 -j DROP":                               opaque,
		"-s 10.0.0.1/33 -j DROP":                                        opaque,
		"-s fe80::1%eth0 -j DROP":                                       opaque,
		"-s nonsense -j DROP":                                           opaque,
		"-i  -j DROP":                                                   {In: firewall.Iface{Name: "-j"}, Opaque: true},
		"-f -j DROP":                                                    opaque,
		`"-s" 10.0.0.0/8 -j DROP`:                                       opaque,
		"-s 10.0.0.0/8 -s 10.1.0.0/16 -j DROP":                          {From: net("10.0.0.0/8"), Opaque: true, Does: firewall.Drop},
		`-m string --string "-j ACCEPT" --algo bm -j DROP`:              opaque,
		`-j DROP -m comment --comment "left open`:                       opaque,
		"-j":        {},
		"-s":        {Opaque: true},
		"!":         {Opaque: true},
		"-m":        {Opaque: true},
		"-m nosuch": {Opaque: true},
		"-m addrtype ! --dst-type LOCAL -m comment --comment \"kube rules\" -j USER":       {Opaque: true, Does: firewall.Jump, Chain: "USER"},
		"-m physdev --physdev-is-bridged -j ACCEPT":                                        {Opaque: true, Does: firewall.Accept},
		"-m set --match-set x src -j REJECT --reject-with icmp-port-unreachable":           opaque,
		"-m limit --limit 5/min -j LOG --log-prefix \"a \\\"b\\\" \"":                      {Opaque: true},
		"-s 10.0.0.0/8 -d 10.0.0.0/8 -m comment --comment \"flanneld masq\" -j RETURN":     {From: net("10.0.0.0/8"), To: net("10.0.0.0/8"), Does: firewall.Return},
		"-s 10.0.0.0/8 ! -d 224.0.0.0/4 -m comment --comment \"flanneld masq\" -j RETURN ": {From: net("10.0.0.0/8"), To: firewall.Net{Prefix: netip.MustParsePrefix("224.0.0.0/4"), Not: true}, Does: firewall.Return},
	} {
		if got := read(spec, isUser); got.Rule != want {
			t.Errorf("%s\n got  %v %+v\n want %v %+v", spec, got.Rule, got.Rule, want, want)
		}
	}
}

// TestComment checks which comment a rule has.
func TestComment(t *testing.T) {
	for spec, want := range map[string]string{
		"-j USER":                            "",
		"-m comment --comment tulle -j USER": "tulle",
		`-m comment --comment "flanneld masq" -j USER`:      "flanneld masq",
		`-m comment --comment "say \"it\" \\ so" -j ACCEPT`: `say "it" \ so`,
	} {
		if got := read(spec, isUser).comment; got != want {
			t.Errorf("%s: comment %q", spec, got)
		}
	}
}

func all(string, string) bool { return true }

const saved = `# Generated by iptables-save v1.8.9 on a day
*filter
:INPUT ACCEPT [12:34]
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
[5:6] -A FORWARD -j DOCKER-USER
-A FORWARD -m physdev --physdev-is-bridged -j ACCEPT
-A FORWARD -m comment --comment "two
lines" -j DROP
-A NOSUCH -j DROP
-A DOCKER-USER
COMMIT
# Completed on a day
# Warning: iptables-legacy tables present, use iptables-legacy-save to see them
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -j MASQUERADE
COMMIT
# Table ` + "`raw' is incompatible, use 'nft' tool.\n"

// TestParse checks the tables and chains in the output of iptables-save.
func TestParse(t *testing.T) {
	tables, err := parse(strings.NewReader(saved), all)
	if err != nil {
		t.Fatal(err)
	}
	filter := tables["filter"]
	want := []firewall.Rule{{Does: firewall.Jump, Chain: "DOCKER-USER"}, {Opaque: true, Does: firewall.Accept}, {Opaque: true}}
	if got := rules(filter.chains["FORWARD"]); !slices.Equal(got, want) {
		t.Errorf("FORWARD: %v", got)
	}
	if got := rules(filter.chains["DOCKER-USER"]); !slices.Equal(got, []firewall.Rule{{}}) {
		t.Errorf("DOCKER-USER: %v", got)
	}
	if filter.isChain("NOSUCH") || !filter.isChain("INPUT") || filter.foreign || !tables["raw"].foreign || len(tables) != 3 {
		t.Errorf("%+v", tables)
	}
	if got := rules(tables["nat"].chains["POSTROUTING"]); !slices.Equal(got, []firewall.Rule{{Does: firewall.Masquerade}}) {
		t.Errorf("POSTROUTING: %v", got)
	}
}

// What has no end may have lost our own rules, which would be written again and
// again.
func TestCutOffOutputIsRefused(t *testing.T) {
	commit := strings.Index(saved, "COMMIT")
	for _, text := range []string{saved[:commit], saved[:commit+3], saved[:commit] + saved[commit+7:], "*nat"} {
		if _, err := parse(strings.NewReader(text), all); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

func TestLongLine(t *testing.T) {
	text := "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j DROP -m comment --comment " + strings.Repeat("x", 5*longestLine) + "\n-A FORWARD -j ACCEPT\nCOMMIT\n"
	tables, err := parse(strings.NewReader(text), all)
	if err != nil {
		t.Fatal(err)
	}
	want := []firewall.Rule{{Opaque: true, Does: firewall.Drop}, {Does: firewall.Accept}}
	if got := rules(tables["filter"].chains["FORWARD"]); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestLinesOfAComment(t *testing.T) {
	text := "*filter\n:FORWARD ACCEPT [0:0]\n[1:2] -A FORWARD -m comment --comment \"x\\\"\nCOMMIT\n\" -j DROP\n-A FORWARD -m comment --comment \"" +
		strings.Repeat("x\n", longestLine) + "\" -j DROP\n-A FORWARD -j ACCEPT\nCOMMIT\n"
	tables, err := parse(strings.NewReader(text), all)
	if err != nil {
		t.Fatal(err)
	}
	want := []firewall.Rule{{Opaque: true}, {Opaque: true}, {Does: firewall.Accept}}
	if got := rules(tables["filter"].chains["FORWARD"]); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if _, err := parse(strings.NewReader(text[:len(text)/2]), all); err == nil {
		t.Error("no error for half of it")
	}
}

func TestOutputIsLimited(t *testing.T) {
	for n, fails := range map[int]bool{9: true, 10: true, 11: false} {
		b := new(bytes.Buffer)
		_, err := b.ReadFrom(&limited{Reader: strings.NewReader("0123456789"), left: n})
		if (err != nil) != fails || b.Len() != min(n, 10) {
			t.Errorf("%d bytes: %v after %d", n, err, b.Len())
		}
	}
}

// The rules that are ours come back as they were written.
func TestOwnRulesReadBackEqual(t *testing.T) {
	for _, r := range everyRules() {
		wants, _, _ := allWants(r.Rules)
		for _, f := range subnet.Families {
			for _, p := range parts {
				for _, rule := range wants[f][p].rules {
					if got := read(write(rule), isUser).Rule; got != rule {
						t.Errorf("%v was written as %s and read as %v", rule, write(rule), got)
					}
				}
			}
		}
	}
}

// FuzzRead checks that a rule that is understood is written as it was read.
func FuzzRead(f *testing.F) {
	f.Add(`-s 10.0.0.0/8 ! -d 10.0.0.1/32 -i eth+ ! -o "a b" -m comment --comment "x \"y\"" -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully`)
	f.Add(`-p tcp -m multiport --dports 1,2 -g USER`)
	f.Add(`! -s fd00::/ffff:: -j "it's"`)
	f.Fuzz(func(t *testing.T, spec string) {
		r := read(spec, isUser).Rule
		if again := read(write(r), isUser).Rule; !r.Opaque && again != r {
			t.Errorf("%q was read as %+v, written as %q and read as %+v", spec, r, write(r), again)
		}
	})
}

// FuzzParse checks that any tables give a plan with one rule per line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(saved))
	f.Add([]byte("*filter\n:TULLE-FWD - [0:0]\n:FORWARD ACCEPT [0:0]\n[1:2] -A FORWARD -m comment --comment tulle -j TULLE-FWD\n-A TULLE-FWD -g TULLE-FWD\nCOMMIT\n"))
	f.Add([]byte("*nat\n:FLANNEL-POSTRTG - [0:0]\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -m comment --comment \"flanneld masq\" -j FLANNEL-POSTRTG\nCOMMIT\n"))
	everything := everyRules()[len(everyRules())-1].Rules
	wants, _, _ := allWants(everything)
	f.Fuzz(func(t *testing.T, text []byte) {
		tables, err := parse(bytes.NewReader(text), all)
		if err != nil {
			return
		}
		for _, now := range tables {
			for _, p := range parts {
				lines, err := p.plan(now, wants[subnet.IPv4][p])
				if err == nil {
					_, err = p.plan(now, want{})
				}
				if err != nil && !now.foreign {
					t.Error(err)
				}
				what, _ := flannels(now)
				for _, line := range append(lines, what...) {
					if strings.ContainsAny(line, "\n") {
						t.Errorf("%q is more than one line", line)
					}
				}
			}
		}
	})
}
