package subnet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func pool(network string, length int, low, high string) Pool {
	return Pool{netip.MustParsePrefix(network), length, netip.MustParseAddr(low), netip.MustParseAddr(high)}
}

func TestParseConfig(t *testing.T) {
	vxlan := Backend{Type: "vxlan"}
	for _, c := range []struct {
		name, text string
		want       Config
	}{
		{"defaults", `{"Network":"10.5.0.0/16"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"keys in any case", `{"network":"10.5.0.0/16","SUBNETLEN":25,"subnetMin":"10.5.1.128","backend":{"TYPE":"host-gw"}}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 25, "10.5.1.128", "10.5.255.128")}, Backend: Backend{"host-gw", `{"TYPE":"host-gw"}`}}},
		{"a /22 still has /24s", `{"Network":"10.5.4.0/22"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.4.0/22", 24, "10.5.5.0", "10.5.7.0")}, Backend: vxlan}},
		{"a /23 has /25s", `{"Network":"10.5.4.0/23"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.4.0/23", 25, "10.5.4.128", "10.5.5.128")}, Backend: vxlan}},
		{"the smallest", `{"Network":"10.5.0.16/28"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.16/28", 30, "10.5.0.20", "10.5.0.28")}, Backend: vxlan}},
		{"the largest", `{"Network":"128.0.0.0/2","SubnetLen":30}`,
			Config{Pools: Pair[Pool]{IPv4: pool("128.0.0.0/2", 30, "128.0.0.4", "191.255.255.252")}, Backend: vxlan}},
		{"host bits", `{"Network":"10.5.1.3/16"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"bounds", `{"Network":"10.0.0.0/8","SubnetLen":20,"SubnetMin":"10.10.0.0","SubnetMax":"10.99.0.0","Backend":{"Type":"udp","Port":7890}}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.0.0.0/8", 20, "10.10.0.0", "10.99.0.0")}, Backend: Backend{"udp", `{"Type":"udp","Port":7890}`}}},
		{"bounds that take in the first subnet and one alone", `{"Network":"10.5.0.0/16","SubnetMin":"10.5.0.0","SubnetMax":"10.5.0.0"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.0.0", "10.5.0.0")}, Backend: vxlan}},
		{"what flannel takes as not set", `{"Network":"10.5.0.0/16","SubnetLen":0,"SubnetMin":"0.0.0.0","SubnetMax":"0.0.0.0"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"null is not set", `{"Network":"10.5.0.0/16","EnableIPv4":null,"SubnetLen":null,"SubnetMin":null,"Backend":null}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"the last of several", `{"Network":"10.5.0.0/16","network":"10.6.0.0/16"}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.6.0.0/16", 24, "10.6.1.0", "10.6.255.0")}, Backend: vxlan}},
		{"both families", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","EnableNFTables":true}`,
			Config{Pools: Pair[Pool]{pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0"), pool("fd00:5::/48", 64, "fd00:5:0:1::", "fd00:5:0:ffff::")}, EnableNFTables: Yes, Backend: vxlan}},
		{"nftables refused", `{"Network":"10.5.0.0/16","enablenftables":false}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, EnableNFTables: No, Backend: vxlan}},
		{"nftables left open", `{"Network":"10.5.0.0/16","EnableNFTables":null}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"IPv6 alone", `{"enableIPv4":false,"EnableIPv6":true,"IPv6Network":"fc00::/48","IPv6SubnetMin":"fc00:0:0:1::","IPv6SubnetMax":"fc00:0:0:f::","IPv6SubnetLen":124}`,
			Config{Pools: Pair[Pool]{IPv6: pool("fc00::/48", 124, "fc00:0:0:1::", "fc00:0:0:f::")}, Backend: vxlan}},
		{"a small IPv6 network", `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/124"}`,
			Config{Pools: Pair[Pool]{IPv6: pool("fd00::/124", 126, "fd00::4", "fd00::c")}, Backend: vxlan}},
		{"a family that is off counts for nothing", `{"Network":"10.5.0.0/16","IPv6Network":"rubbish","IPv6SubnetLen":-5}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"unknown keys", `{"Network":"10.5.0.0/16","Colour":"blue","Nested":{"a":[{}]}}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: vxlan}},
		{"a backend's type in any case", `{"Network":"10.5.0.0/16","Backend":{ "Type" : "VXLAN", "VNI": 7 }}`,
			Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}, Backend: Backend{"vxlan", `{"Type":"VXLAN","VNI":7}`}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseConfig([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, c := range []struct{ text, key, value, says string }{
		{``, "", "", "not a JSON object"},
		{`[]`, "", "", "not a JSON object"},
		{`{"Network":`, "", "", "not a JSON object"},
		{`null`, "Network", "", "set it to a network like \"10.5.0.0/16\", or EnableIPv4 to false"},
		{`{}`, "Network", "", "IPv4 is on and needs it"},
		{`{"EnableIPv6":true,"IPv6Network":"fd00:5::/48"}`, "Network", "", "or EnableIPv4 to false"},
		{`{"Network":"10.5.0.0/16","EnableIPv6":true}`, "IPv6Network", "", "or EnableIPv6 to false"},
		{`{"EnableIPv4":false}`, "EnableIPv4", "false", "set one of the two to true"},
		{`{"EnableIPv4":"no"}`, "EnableIPv4", `"no"`, "true or false"},
		{`{"EnableIPv6":1}`, "EnableIPv6", `1`, "true or false"},
		{`{"EnableNFTables":[]}`, "EnableNFTables", `a list`, "true or false"},
		{`{"Network":"10.5.0.0"}`, "Network", `"10.5.0.0"`, `write one like "10.5.0.0/16"`},
		{`{"Network":10}`, "Network", `10`, "not a network"},
		{`{"Network":{"a":1}}`, "Network", `an object`, "not a network"},
		{`{"Network":"10.5.0.0/33"}`, "Network", `"10.5.0.0/33"`, "not a network"},
		{`{"Network":"fe80::%eth0/64"}`, "Network", `"fe80::%eth0/64"`, "not a network"},
		{`{"Network":"fd00::/48"}`, "Network", `"fd00::/48"`, "not an IPv4 network"},
		{`{"Network":"::ffff:10.5.0.0/112"}`, "Network", `"::ffff:10.5.0.0/112"`, "IPv4 written as IPv6"},
		{`{"Network":"10.5.0.0/29"}`, "Network", `"10.5.0.0/29"`, "set it to a /28 or larger"},
		{`{"Network":"10.5.0.0/29","SubnetLen":30}`, "Network", `"10.5.0.0/29"`, "set it to a /28 or larger"},
		{`{"Network":"0.0.0.0/0"}`, "Network", `"0.0.0.0/0"`, "unspecified"},
		{`{"Network":"127.5.0.0/16"}`, "Network", `"127.5.0.0/16"`, "loopback"},
		{`{"Network":"224.5.0.0/16"}`, "Network", `"224.5.0.0/16"`, "multicast"},
		{`{"Network":"128.0.0.0/1"}`, "Network", `"128.0.0.0/1"`, "multicast"},
		{`{"Network":"10.5.0.0/16","SubnetLen":31}`, "SubnetLen", `31`, "set it between 18 and 30, or leave it out for 24"},
		{`{"Network":"10.5.0.0/16","SubnetLen":17}`, "SubnetLen", `17`, "fewer than four subnets"},
		{`{"Network":"10.5.0.0/16","SubnetLen":-1}`, "SubnetLen", `-1`, "set it between"},
		{`{"Network":"10.5.0.0/16","SubnetLen":"24"}`, "SubnetLen", `"24"`, "not a whole number; write one like 24"},
		{`{"Network":"10.5.0.0/16","SubnetLen":24.5}`, "SubnetLen", `24.5`, "not a whole number"},
		{`{"Network":"10.5.0.0/16","SubnetLen":1e400}`, "SubnetLen", `1e400`, "not a whole number"},
		{`{"Network":"10.5.0.0/16","SubnetLen":99999999999999999999}`, "SubnetLen", `99999999999999999999`, "not a whole number"},
		{`{"Network":"10.5.0.0/16","SubnetMin":"10.6.0.0"}`, "SubnetMin", `"10.6.0.0"`, "outside the network 10.5.0.0/16"},
		{`{"Network":"10.5.0.0/16","SubnetMin":"fd00::"}`, "SubnetMin", `"fd00::"`, "outside the network"},
		{`{"Network":"10.5.0.0/16","SubnetMin":"::ffff:10.5.1.0"}`, "SubnetMin", `"::ffff:10.5.1.0"`, "outside the network"},
		{`{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.7"}`, "SubnetMin", `"10.5.1.7"`, "not the first address of a /24; set it to 10.5.1.0"},
		{`{"Network":"10.5.0.0/16","SubnetMax":"10.5.1.255"}`, "SubnetMax", `"10.5.1.255"`, "set it to 10.5.1.0"},
		{`{"Network":"10.5.0.0/16","SubnetMax":"10.4.255.0"}`, "SubnetMax", `"10.4.255.0"`, "outside the network"},
		{`{"Network":"10.5.0.0/16","SubnetMax":true}`, "SubnetMax", `true`, "not an address"},
		{`{"Network":"10.5.0.0/16","SubnetMin":"10.5.9.0","SubnetMax":"10.5.8.0"}`, "SubnetMin", `"10.5.9.0"`, "set it to 10.5.8.0 or lower"},
		{`{"Network":"10.5.0.0/16","SubnetMax":"10.5.0.0"}`, "SubnetMax", `"10.5.0.0"`, "set it to 10.5.1.0 or higher"},
		{`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"10.6.0.0/16"}`, "IPv6Network", `"10.6.0.0/16"`, "not an IPv6 network"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/125"}`, "IPv6Network", `"fd00::/125"`, "set it to a /124 or larger"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fe80::/64"}`, "IPv6Network", `"fe80::/64"`, "link-local"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"ff00::/48"}`, "IPv6Network", `"ff00::/48"`, "multicast"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"::/16"}`, "IPv6Network", `"::/16"`, "unspecified"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetLen":127}`, "IPv6SubnetLen", `127`, "set it between 50 and 126, or leave it out for 64"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetMin":"fd00::1"}`, "IPv6SubnetMin", `"fd00::1"`, "set it to fd00::"},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetMax":"fd00::1%eth0"}`, "IPv6SubnetMax", `"fd00::1%eth0"`, "outside the network"},
		{`{"Network":"10.5.0.0/16","Backend":"vxlan"}`, "Backend", "", `write one like {"Type": "vxlan"}`},
		{`{"Network":"10.5.0.0/16","Backend":{}}`, "Backend.Type", "", "leave Backend out for vxlan"},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":5}}`, "Backend.Type", "", "a text in quotes"},
	} {
		t.Run(c.text, func(t *testing.T) {
			cfg, err := ParseConfig([]byte(c.text))
			var refusal *ConfigError
			if !errors.As(err, &refusal) {
				t.Fatalf("got %+v, %v", cfg, err)
			}
			if refusal.Key != c.key || refusal.Value != c.value {
				t.Errorf("refused %q %s, want %q %s", refusal.Key, refusal.Value, c.key, c.value)
			}
			if text := err.Error(); !strings.Contains(text, c.says) || !strings.Contains(text, c.key) || !strings.Contains(text, c.value) {
				t.Errorf("it says %q", text)
			}
			if refusal.Why == "" || refusal.Fix == "" || cfg != (Config{}) {
				t.Errorf("no reason, no fix, or a config returned: %+v %+v", refusal, cfg)
			}
		})
	}
}

func TestParseConfigOversized(t *testing.T) {
	for name, text := range map[string]string{
		"nested":       strings.Repeat(`{"Backend":`, 1<<17),
		"long value":   `{"Network":"` + strings.Repeat("1", 1<<20) + `"}`,
		"many keys":    `{` + strings.Repeat(`"Network":"x",`, 1<<16) + `"a":1}`,
		"long unknown": `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		_, err := ParseConfig([]byte(text))
		if err == nil || len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", name, err)
		}
	}
}

func TestBackendDecode(t *testing.T) {
	type vxlan struct {
		VNI           int
		Port          uint16
		GBP           bool
		DirectRouting bool
		PSK           string
	}
	defaults := vxlan{VNI: 1}
	for _, c := range []struct {
		raw  string
		want vxlan
	}{
		{"", defaults},
		{`{"Type":"vxlan"}`, defaults},
		{`{"vni":7,"PORT":4789,"gbp":true,"directRouting":true,"psk":"x","other":[1]}`, vxlan{7, 4789, true, true, "x"}},
		{`{"VNI":null}`, defaults},
	} {
		got := defaults
		if err := (Backend{"vxlan", c.raw}).Decode(&got); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.raw, got, err, c.want)
		}
	}
	for _, c := range []struct{ raw, key, value, says string }{
		{`{"VNI":"one"}`, "Backend.VNI", `"one"`, "a whole number"},
		{`{"vni":1.5}`, "Backend.VNI", `1.5`, "a whole number"},
		{`{"Port":70000}`, "Backend.Port", `70000`, "a whole number from 0 to 65535"},
		{`{"GBP":"yes"}`, "Backend.GBP", `"yes"`, "true or false"},
		{`{"VNI":{"PSK":"123456"}}`, "Backend.VNI", "an object", "a whole number"},
		{`{"Port":["123456"]}`, "Backend.Port", "a list", "a whole number"},
		{`{"PSK":123456}`, "Backend.PSK", "", "a text in quotes"},
		{`[]`, "Backend", "", "not a JSON object"},
	} {
		got := defaults
		err := (Backend{"vxlan", c.raw}).Decode(&got)
		var refusal *ConfigError
		if !errors.As(err, &refusal) || refusal.Key != c.key || refusal.Value != c.value || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.raw, err)
		}
		if strings.Contains(err.Error(), "123456") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{
		`{"Network":"10.5.0.0/16"}`,
		`{"Network":"10.0.0.0/8","SubnetLen":20,"SubnetMin":"10.10.0.0","SubnetMax":"10.99.0.0","Backend":{"Type":"udp","Port":7890}}`,
		`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/8","IPv6SubnetLen":126}`,
		`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","network":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := ParseConfig(data)
		if err != nil {
			var refusal *ConfigError
			if !errors.As(err, &refusal) || refusal.Why == "" || refusal.Fix == "" {
				t.Fatalf("no full refusal: %#v", err)
			}
			return
		}
		if cfg.Backend.Type == "" || cfg.Pools == (Pair[Pool]{}) {
			t.Fatalf("incomplete: %+v", cfg)
		}
		for family, p := range cfg.Pools {
			if !p.IsValid() {
				continue
			}
			first, last := p.Subnet(0), p.Subnet(p.Count()-1)
			if FamilyOf(first.Addr()) != Family(family) || first.Addr() != p.Min || !p.Has(first) || !p.Has(last) {
				t.Fatalf("%+v goes from %v to %v", p, first, last)
			}
			if !p.Network.Contains(first.Addr()) || !p.Network.Contains(last.Addr()) || last.Addr().Less(first.Addr()) {
				t.Fatalf("%+v is not inside: %v to %v", p, first, last)
			}
		}
		var keys struct {
			VNI, Port int
			GBP       bool
		}
		if err := cfg.Backend.Decode(&keys); err != nil && !errors.As(err, new(*ConfigError)) {
			t.Fatalf("%#v", err)
		}
	})
}

// TestGivenAllowsAnyPartOfTheNetwork: where Given is set, a subnet may be any part of
// the network, or all of it.
func TestGivenAllowsAnyPartOfTheNetwork(t *testing.T) {
	for text, want := range map[string]struct{ chosen, given bool }{
		"10.5.34.0/24": {true, true},
		"10.5.34.0/26": {false, true}, // of another length
		"10.5.0.0/24":  {false, true}, // below SubnetMin
		"10.6.34.0/24": {false, false},
		"10.5.0.0/16":  {false, true}, // all of it
		"10.4.0.0/15":  {false, false},
	} {
		cfg := Config{Pools: Pair[Pool]{IPv4: pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")}}
		subnets := Pair[netip.Prefix]{IPv4: netip.MustParsePrefix(text)}
		if got := cfg.Allows(subnets); got != want.chosen {
			t.Errorf("%s of a pool: %t", text, got)
		}
		cfg.Given = true
		if got := cfg.Allows(subnets); got != want.given {
			t.Errorf("%s that is given: %t", text, got)
		}
		subnets[IPv6] = netip.MustParsePrefix("fd00:5::/64")
		if cfg.Allows(subnets) {
			t.Errorf("%s with a subnet of a family that is off is allowed", text)
		}
	}
}
