package cniconf

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// TestFormat compares the config in each family with a golden file.
func TestFormat(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("fd00:5::/48")
	own4, own6 := netip.MustParsePrefix("10.5.34.0/24"), netip.MustParsePrefix("fd00:5:0:22::/64")
	pair := func(a, b netip.Prefix) subnet.Pair[netip.Prefix] { return subnet.Pair[netip.Prefix]{a, b} }
	for name, c := range map[string]Conf{
		"ipv4.conflist": {pair(v4, netip.Prefix{}), pair(own4, netip.Prefix{}), 1450},
		"ipv6.conflist": {pair(netip.Prefix{}, v6), pair(netip.Prefix{}, own6), 1430},
		// As the env file has them, with the gateway's address.
		"dual.conflist": {pair(v4, v6), pair(netip.PrefixFrom(own4.Addr().Next(), 24), netip.PrefixFrom(own6.Addr().Next(), 64)), 1450},
	} {
		got, path := Format(c), filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v, got:\n%s", name, err, got)
		}
	}
}

// The subnets of a node without any are an empty list, which host-local
// refuses, and not null.
func TestFormatNothing(t *testing.T) {
	var got struct {
		Plugins []struct {
			IPAM struct{ Ranges, Routes json.RawMessage }
		}
	}
	if err := json.Unmarshal(Format(Conf{}), &got); err != nil {
		t.Fatal(err)
	}
	if ipam := got.Plugins[0].IPAM; string(ipam.Ranges) != "[]" || string(ipam.Routes) != "[]" {
		t.Errorf("got %s, %s", ipam.Ranges, ipam.Routes)
	}
}
