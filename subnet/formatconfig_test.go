package subnet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestFormatConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"Network":"10.5.0.0/16"}`,
			`{"EnableIPv4":true,"EnableIPv6":false,"Network":"10.5.0.0/16","SubnetLen":24,"SubnetMin":"10.5.1.0","SubnetMax":"10.5.255.0"}`},
		{`{"Network":"10.5.0.0/16","EnableNFTables":false}`,
			`{"EnableIPv4":true,"EnableIPv6":false,"EnableNFTables":false,"Network":"10.5.0.0/16","SubnetLen":24,"SubnetMin":"10.5.1.0","SubnetMax":"10.5.255.0"}`},
		{`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:5::/48","EnableNFTables":true,"Backend":{"Type":"host-gw"}}`,
			`{"EnableIPv4":false,"EnableIPv6":true,"EnableNFTables":true,"IPv6Network":"fd00:5::/48","IPv6SubnetLen":64,"IPv6SubnetMin":"fd00:5:0:1::","IPv6SubnetMax":"fd00:5:0:ffff::","Backend":{"Type":"host-gw"}}`},
		{`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"type":"WireGuard", "PSK":"<a&b>\u2028"}}`,
			`{"EnableIPv4":true,"EnableIPv6":true,"Network":"10.5.0.0/16","SubnetLen":24,"SubnetMin":"10.5.1.0","SubnetMax":"10.5.255.0",` +
				`"IPv6Network":"fd00:5::/48","IPv6SubnetLen":64,"IPv6SubnetMin":"fd00:5:0:1::","IPv6SubnetMax":"fd00:5:0:ffff::","Backend":{"type":"WireGuard","PSK":"<a&b>\u2028"}}`},
	} {
		cfg, err := ParseConfig([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(FormatConfig(cfg)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
		checkFormatConfig(t, cfg)
	}
}

// TestFormatConfigRoundTrip checks that ParseConfig reads back the same config, for
// random configs.
func TestFormatConfigRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		text := randomConfig(rng)
		cfg, err := ParseConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		checkFormatConfig(t, cfg)
	}
}

func checkFormatConfig(t *testing.T, cfg Config) {
	t.Helper()
	text := FormatConfig(cfg)
	if !json.Valid(text) {
		t.Fatalf("not JSON: %s", text)
	}
	again, err := ParseConfig(text)
	if err != nil || again != cfg {
		t.Fatalf("%s\nread  %+v, %v\nwant  %+v", text, again, err, cfg)
	}
}

// randomConfig returns the text of a valid config of one family or both.
func randomConfig(rng *rand.Rand) []byte {
	doc := map[string]any{"EnableNFTables": []any{nil, false, true}[rng.IntN(3)]}
	on := 1 + rng.IntN(3)
	for _, f := range Families {
		if doc["Enable"+f.String()] = on>>f&1 == 1; on>>f&1 == 0 {
			continue
		}
		first := Pair[netip.Addr]{netip.AddrFrom4([4]byte{10}), netip.MustParseAddr("fd00::")}[f]
		bits := 8 + rng.IntN(f.Bits()-4-8+1)
		network := netip.PrefixFrom(number(first).or(uint128{rng.Uint64() >> 8, rng.Uint64()}.shr(uint(128-f.Bits())).shr(8)).addr(), bits)
		length := bits + 2 + rng.IntN(f.Bits()-2-bits-2+1)
		prefix := poolTerms[f].prefix
		doc[prefix+"Network"], doc[prefix+"SubnetLen"] = network, length
		// Two subnets anywhere in the network, in order.
		bounds := [2]netip.Addr{}
		for i := range bounds {
			host := uint128{rng.Uint64(), rng.Uint64()}.shr(uint(128 - f.Bits() + bits))
			a := number(network.Masked().Addr()).or(host).addr()
			bounds[i] = netip.PrefixFrom(a, length).Masked().Addr()
		}
		if bounds[1].Less(bounds[0]) {
			bounds[0], bounds[1] = bounds[1], bounds[0]
		}
		if rng.IntN(2) == 0 {
			doc[prefix+"SubnetMin"], doc[prefix+"SubnetMax"] = bounds[0], bounds[1]
		}
	}
	switch rng.IntN(3) {
	case 0:
		doc["Backend"] = json.RawMessage(`{ "Type": "VXLAN", "VNI": 7, "a": ["<&>", {"b":null}] }`)
	case 1:
		doc["Backend"] = map[string]any{"type": "Wireguard", "PSK": fmt.Sprintf("\u2028 \x01 \" %d", rng.Int())}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return text
}

func FuzzFormatConfig(f *testing.F) {
	f.Add([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":7890}}`))
	f.Add([]byte(`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/124","Backend":{"Type":"İ","<":"` + "\xff" + `"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if cfg, err := ParseConfig(text); err == nil {
			checkFormatConfig(t, cfg)
		}
	})
}
