package firewall

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

var (
	network = netip.MustParsePrefix("10.5.0.0/16")
	own     = netip.MustParsePrefix("10.5.0.0/24")

	drop   = Rule{Does: Drop}
	accept = Rule{Does: Accept}
)

func jump(chain string) Rule { return Rule{Does: Jump, Chain: chain} }

func in(name string) Iface  { return Iface{Name: name} }
func not(name string) Iface { return Iface{Name: name, Not: true} }

// TestPlace checks the position of our accepts among foreign rules.
func TestPlace(t *testing.T) {
	net := func(s string) Net { return Net{Prefix: netip.MustParsePrefix(s)} }
	for name, c := range map[string]struct {
		chains Chains
		want   int
	}{
		"nothing":              {Chains{}, 0},
		"an accept of another": {Chains{"FORWARD": {{From: net("10.9.0.0/16"), Does: Accept}}}, 1},
		"refused at the end": {Chains{"FORWARD": {
			{Opaque: true, Does: Accept}, // established connections
			{In: in("virbr0"), Does: Accept},
			drop,
		}}, 2},
		"what a person forbids goes before": {Chains{"FORWARD": {
			{From: net("10.5.0.66/32"), Does: Drop},
			{In: in("eth0"), Does: Drop},
			{Opaque: true, Does: Drop},
		}}, 3},
		"what a person forbids the network, or part of it, too": {Chains{
			"FORWARD": {
				{From: net("10.5.0.0/24"), To: net("10.0.0.0/8"), Does: Drop},
				{To: net("10.5.0.0/16"), Does: Return},
				{From: Net{Prefix: netip.MustParsePrefix("10.5.9.0/24"), Not: true}, To: net("10.5.0.0/24"), Does: Drop},
				{To: net("10.5.0.0/24"), Does: Jump, Chain: "MINE"},
				{From: net("10.5.0.0/24"), Does: Goto, Chain: "NOTHING"},
				jump("DOCKER-USER"),
				drop,
			},
			"MINE":        {{Opaque: true, Does: Accept}, drop},
			"DOCKER-USER": {{In: not("eth1"), To: net("10.0.0.0/8"), Does: Drop}, {Does: Return}},
		}, 6},
		"an address is a reason to accept": {Chains{"FORWARD": {{From: net("10.5.0.0/16"), Does: Jump, Chain: "MINE"}, {Out: in("cni0"), Does: Accept}, drop}, "MINE": {accept}}, 3},
		"Docker 20": {Chains{
			"FORWARD": {
				jump("DOCKER-USER"), jump("DOCKER-ISOLATION-STAGE-1"),
				{Out: in("docker0"), Opaque: true, Does: Accept},
				{Out: in("docker0"), Does: Jump, Chain: "DOCKER"},
				{In: in("docker0"), Out: not("docker0"), Does: Accept},
				{In: in("docker0"), Out: in("docker0"), Does: Accept},
			},
			"DOCKER-USER":              {{Does: Return}},
			"DOCKER-ISOLATION-STAGE-1": {{In: in("docker0"), Out: not("docker0"), Does: Jump, Chain: "DOCKER-ISOLATION-STAGE-2"}, {Does: Return}},
			"DOCKER-ISOLATION-STAGE-2": {{Out: in("docker0"), Does: Drop}, {Out: in("br-1"), Does: Drop}, {Does: Return}},
		}, 6},
		"Docker 28": {Chains{
			"FORWARD":        {jump("DOCKER-USER"), jump("DOCKER-FORWARD")},
			"DOCKER-FORWARD": {jump("DOCKER-CT"), jump("DOCKER-BRIDGE"), {In: in("docker0"), Does: Accept}},
			"DOCKER-CT":      {{Out: in("docker0"), Opaque: true, Does: Accept}},
			"DOCKER-BRIDGE":  {{Out: in("docker0"), Does: Jump, Chain: "DOCKER"}},
			"DOCKER":         {{In: not("docker0"), Out: in("docker0"), Does: Drop}},
		}, 1},
		"a network policy": {Chains{
			"FORWARD":             {jump("KUBE-ROUTER-FORWARD"), jump("KUBE-FORWARD"), drop},
			"KUBE-ROUTER-FORWARD": {{To: net("10.5.0.9/32"), Does: Jump, Chain: "KUBE-POD-FW"}},
			"KUBE-POD-FW":         {drop},
			"KUBE-FORWARD":        {{Opaque: true, Does: Drop}},
		}, 2},
		"ufw that rejects": {Chains{
			"FORWARD":            {jump("ufw-before-forward"), jump("ufw-reject-forward"), jump("ufw-track-forward")},
			"ufw-before-forward": {{Opaque: true, Does: Accept}},
			"ufw-reject-forward": {drop},
		}, 1},
		"one that leaves it to the policy": {Chains{"FORWARD": {{Does: Return}, accept}}, 0},
		"a chain that is gone to":          {Chains{"FORWARD": {{Does: Goto, Chain: "A"}, accept}, "A": {{Opaque: true, Does: Drop}}}, 0},
		"chains that jump in a circle":     {Chains{"FORWARD": {jump("A"), drop}, "A": {jump("A"), jump("A")}}, 1},
		"only one way is dropped":          {Chains{"FORWARD": {{Out: in("cni0"), Does: Drop}, {In: in("cni0"), Does: Drop}}}, 0},
		"dropped behind an accept":         {Chains{"FORWARD": {accept, drop}}, 2},
		"any device but":                   {Chains{"FORWARD": {{In: Iface{Name: "br-", Wild: true, Not: true}, Does: Drop}}}, 0},
	} {
		if got := c.chains.Position("FORWARD", network, own); got != c.want {
			t.Errorf("%s: at %d, not %d", name, got, c.want)
		}
	}
}

// TestPlaceAmongAnything checks that a place is found soon in any foreign chains.
func TestPlaceAmongAnything(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"FORWARD", "A", "B", "C", "D"}
	for range 300 {
		c := Chains{}
		for _, name := range names {
			for range rnd.IntN(30) {
				r := Rule{Does: Verdict(rnd.IntN(int(MasqueradeRandom) + 1)), Opaque: rnd.IntN(2) == 0}
				if r.Does == Jump || r.Does == Goto {
					r.Chain = names[rnd.IntN(len(names))]
				}
				c[name] = append(c[name], r)
			}
		}
		if got := c.Position("FORWARD", network, own); got < 0 || got > len(c["FORWARD"]) {
			t.Fatalf("at %d among %d", got, len(c["FORWARD"]))
		}
	}
}

func TestLastAddressOfPrefix(t *testing.T) {
	for p, want := range map[string]string{"10.5.0.0/24": "10.5.0.255", "10.5.0.0/22": "10.5.3.255", "fd00::/64": "fd00::ffff:ffff:ffff:ffff", "10.5.0.7/32": "10.5.0.7"} {
		if got := last(netip.MustParsePrefix(p)); got.String() != want {
			t.Errorf("%s: %s", p, got)
		}
	}
}
