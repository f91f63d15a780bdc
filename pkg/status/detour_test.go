package status

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestDetoursAreShown: status counts the peers that are reached through the tunnel, and
// the list of peers says why.
func TestDetoursAreShown(t *testing.T) {
	w := newWriter(new(bytes.Buffer), "", time.Now())
	for want, tunnelled := range map[string]map[string]int{
		"":                                 nil,
		"2 through the tunnel: no-route 2": {DetourNoRoute: 2},
		"5 through the tunnel: network 4, no-route 1": {DetourNoRoute: 1, DetourNetwork: 4, DetourVetoed: 0},
	} {
		if got := w.detours(Count{Tunnelled: tunnelled}); (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, narrow := range []bool{false, true} {
		var b bytes.Buffer
		p := Peer{Key: "10.5.2.0-24", By: "tunnel", InSync: true, Tunnelled: "it is in the network vpc-2, and this node in vpc-1"}
		if err := WritePeers(&b, []Peer{p}, time.Now(), Layout{Narrow: narrow}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "in sync; through the tunnel: it is in the network vpc-2") {
			t.Errorf("%s", b.String())
		}
	}
}
