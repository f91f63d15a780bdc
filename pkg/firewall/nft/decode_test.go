package nft

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
)

func listed(r firewall.Rule, mixed bool) []byte {
	return inside(encode(func(e *netlink.AttributeEncoder) error {
		e.Nested(unix.NFTA_RULE_EXPRESSIONS, expressions(r, mixed))
		return nil
	}), unix.NFTA_RULE_EXPRESSIONS)
}

// TestDecodeWhatIsEncoded checks that decode returns what was encoded.
func TestDecodeWhatIsEncoded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	address := func(v6 bool) firewall.Net {
		if rnd.IntN(3) == 0 {
			return firewall.Net{}
		}
		size := 4
		if v6 {
			size = 16
		}
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		a, _ := netip.AddrFromSlice(b)
		return firewall.Net{Prefix: netip.PrefixFrom(a, 1+rnd.IntN(8*size)).Masked(), Not: rnd.IntN(2) == 0}
	}
	for range 20000 {
		v6 := rnd.IntN(2) == 0
		r := firewall.Rule{
			Marked: rnd.IntN(2) == 0, From: address(v6), To: address(v6),
			Does: []firewall.Verdict{firewall.Accept, firewall.Return, firewall.Masquerade, firewall.MasqueradeRandom}[rnd.IntN(4)],
		}
		for _, mixed := range []bool{true, false} {
			family := uint8(unix.NFPROTO_INET)
			if !mixed {
				family = unix.NFPROTO_IPV4
				if v6 {
					family = unix.NFPROTO_IPV6
				}
			}
			if got, comment := decode(listed(r, mixed), family); got != r || comment != "" {
				t.Fatalf("%s is read as %s, %q", r, got, comment)
			}
		}
	}
}

// TestDecodeOthers checks that foreign rules are understood as far as it matters, and
// no further.
func TestDecodeOthers(t *testing.T) {
	h := newHost(t)
	net := func(s string) firewall.Net { return firewall.Net{Prefix: netip.MustParsePrefix(s)} }
	h.run("iptables-nft -N CHAIN")
	h.run("nft add table ip x")
	for _, c := range []struct {
		iptables string
		want     firewall.Rule
	}{
		{"-j DROP", firewall.Rule{Does: firewall.Drop}},
		{"-j REJECT", firewall.Rule{Does: firewall.Drop}},
		{"-j RETURN", firewall.Rule{Does: firewall.Return}},
		{"-j CHAIN", firewall.Rule{Does: firewall.Jump, Chain: "CHAIN"}},
		{"-g CHAIN", firewall.Rule{Does: firewall.Goto, Chain: "CHAIN"}},
		{"-s 10.0.0.0/8 ! -d 10.1.2.0/23 -j ACCEPT", firewall.Rule{From: net("10.0.0.0/8"), To: firewall.Net{Prefix: netip.MustParsePrefix("10.1.2.0/23"), Not: true}, Does: firewall.Accept}},
		{"-s 10.1.2.3 -j ACCEPT", firewall.Rule{From: net("10.1.2.3/32"), Does: firewall.Accept}},
		{"-i docker0 ! -o docker0 -j DROP", firewall.Rule{In: firewall.Iface{Name: "docker0"}, Out: firewall.Iface{Name: "docker0", Not: true}, Does: firewall.Drop}},
		{"-i br-+ -j DROP", firewall.Rule{In: firewall.Iface{Name: "br-", Wild: true}, Does: firewall.Drop}},
		{"-m comment --comment words -j ACCEPT", firewall.Rule{Does: firewall.Accept}},
		{"-m mark --mark 0x4000/0x4000 -j RETURN", firewall.Rule{Marked: true, Does: firewall.Return}},
		{"-p tcp -j DROP", firewall.Rule{Opaque: true, Does: firewall.Drop}},
		{"-p tcp --dport 80 -j ACCEPT", firewall.Rule{Opaque: true, Does: firewall.Accept}},
		{"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", firewall.Rule{Opaque: true, Does: firewall.Accept}},
		{"-m limit --limit 5/min -j DROP", firewall.Rule{Opaque: true, Does: firewall.Drop}},
		{"-j MARK --set-mark 1", firewall.Rule{}},
		{"-j LOG", firewall.Rule{}},
		{"-s 10.1.2.3/255.0.255.0 -j ACCEPT", firewall.Rule{Opaque: true, Does: firewall.Accept}},
	} {
		h.run("iptables-nft -F FORWARD")
		h.run("iptables-nft -A FORWARD " + c.iptables)
		if got := h.read(t, "filter", "FORWARD"); got.Rule != c.want {
			t.Errorf("%s: %s, not %s", c.iptables, got.Rule, c.want)
		} else if words := "-m comment --comment words -j ACCEPT"; c.iptables == words && got.comment != "words" {
			t.Errorf("the comment is %q", got.comment)
		}
	}
	for rule, want := range map[string]firewall.Rule{
		"ip saddr 10.0.0.0/8 drop":                   {From: net("10.0.0.0/8"), Does: firewall.Drop},
		"ip saddr { 10.0.0.0/8, 192.0.2.1 } drop":    {Opaque: true, Does: firewall.Drop},
		"ip saddr 10.0.0.1-10.0.0.9 drop":            {Opaque: true, Does: firewall.Drop},
		"ip saddr 10.0.0.0/8 ip saddr 10.1.0.0 drop": {From: net("10.0.0.0/8"), Opaque: true, Does: firewall.Drop},
		"ip ttl 3 drop":                              {Opaque: true, Does: firewall.Drop},
		"meta mark & 0x4000 == 0x4000 drop":          {Marked: true, Does: firewall.Drop},
		"meta mark 0x4000 drop":                      {Opaque: true, Does: firewall.Drop},
		"meta mark & 0x4000 == 0 drop":               {Opaque: true, Does: firewall.Drop},
		"iif lo drop":                                {Opaque: true, Does: firewall.Drop},
		"meta mark set 1 counter log":                {},
		"fib daddr type local drop":                  {Opaque: true, Does: firewall.Drop},
		"counter reject with tcp reset":              {Opaque: true, Does: firewall.Drop}, // for TCP alone
		"vlan id 7 drop":                             {Opaque: true, Does: firewall.Drop},
		"ct state vmap { new : drop }":               {Opaque: true},
		"counter name sum drop":                      {Does: firewall.Drop},
		"limit name flood drop":                      {Opaque: true, Does: firewall.Drop},
		"quota name month drop":                      {Opaque: true, Does: firewall.Drop},
	} {
		h.load("add table ip x\ndelete table ip x\ntable ip x { counter sum { }; limit flood { rate over 100/second; }; quota month { over 1 mbytes; }; chain c { " + rule + "; }; }\n")
		if got := h.read(t, "x", "c"); got.Rule != want {
			t.Errorf("%s: %s, not %s", rule, got.Rule, want)
		}
	}
}

// read returns the first rule of an IPv4 table's chain.
func (h *host) read(t *testing.T, table, chain string) found {
	t.Helper()
	c, err := dial(h.ns.Path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.rules(unix.NFPROTO_IPV4, table, chain)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has %v, %v", table, all, err)
	}
	return all[0]
}

// FuzzDecode checks that decode survives any input.
func FuzzDecode(f *testing.F) {
	for _, r := range append(dual().NAT(0), dual().Forwards(1)...) {
		f.Add(listed(r, true), uint8(unix.NFPROTO_INET))
		f.Add(listed(r, false), uint8(unix.NFPROTO_IPV4))
	}
	f.Fuzz(func(t *testing.T, b []byte, family uint8) {
		r, _ := decode(b, family)
		for _, n := range []firewall.Net{r.From, r.To} {
			if n.Prefix.IsValid() && n.Prefix != n.Prefix.Masked() {
				t.Errorf("it reads %s", r)
			}
		}
		comment(b)
		if len(b) >= 4 {
			at(watchedTable{family, filterTable})(netlink.Message{Header: netlink.Header{Type: unix.NFT_MSG_NEWRULE}, Data: b})
		}
	})
}
