package status

import (
	"net/netip"
	"strings"
	"testing"
)

func TestPeerMatches(t *testing.T) {
	p := Peer{
		Key: "10.5.7.0-24&fd00:5:0:7::-64", Name: "Node-7.example",
		Subnets:   []netip.Prefix{netip.MustParsePrefix("10.5.7.0/24"), netip.MustParsePrefix("fd00:5:0:7::/64")},
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")},
	}
	for word, want := range map[string]bool{
		"node-7": true, "example": true, "node-8": false, "192.0.2.7": true, "192.0.2.70": false, "10.5.7.9": true, "fd00:5:0:7::1": true,
		"10.5.8.9": false, "10.5.7.0/24": true, "10.5.0.0/16": true, "10.5.7.0/25": false, p.Key: true, "10.5.7.0-24": false, "192.0.2.0/24": false,
	} {
		if p.Matches(word) != want {
			t.Errorf("%s: %t", word, !want)
		}
	}
}

// TestPaint colours the state alone, so that columns stay aligned.
func TestPaint(t *testing.T) {
	var plain, painted strings.Builder
	paint := func(good bool, text string) string {
		if good {
			return "<good>" + text + "<>"
		}
		return "<bad>" + text + "<>"
	}
	if err := WritePeers(&plain, peers(), now, Layout{}); err != nil {
		t.Fatal(err)
	}
	if err := WritePeers(&painted, peers(), now, Layout{Paint: paint}); err != nil {
		t.Fatal(err)
	}
	if got := strings.NewReplacer("<good>", "", "<bad>", "", "<>", "").Replace(painted.String()); got != plain.String() {
		t.Errorf("got\n%s\nwant\n%s", got, plain.String())
	}
	for line := range strings.Lines(painted.String()) {
		if strings.Contains(line, "<bad>") != (strings.Contains(line, "NOT in sync") || strings.Contains(line, "no public IP") || strings.Contains(line, "does not answer")) {
			t.Errorf("wrong colour: %s", line)
		}
	}
}
