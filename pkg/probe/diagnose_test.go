package probe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

func TestDiagnose(t *testing.T) {
	host := ip("198.18.0.2")
	direct := func(p Path) Path {
		p.To, p.Link, p.Tunnel, p.MTU = p.HostTo, "eth0", "", 1500
		return p
	}
	routed := func(p Path) Path {
		p.Link, p.Tunnel = "eth0", ""
		return p
	}
	same := func(p Path) Path { return p }
	upTo := func(n int) func(Try) bool { return func(t Try) bool { return t.Size <= n } }
	for _, c := range []struct {
		name   string
		path   func(Path) Path
		passes func(Try) bool
		by     string // "" means the right device
		want   Cause
		says   string
	}{
		{"all passes", same, func(Try) bool { return true }, "", Well, ""},
		{"the daemons' port is filtered", same, func(t Try) bool { return t.Kind == Ping }, "", Well, ""},
		{"that, and a small MTU", same, func(t Try) bool { return t.Kind == Ping && t.Size <= 1400 }, "", SmallMTU, "up to 1400 bytes pass, but not of 1450"},
		{"nothing", same, func(Try) bool { return false }, "", Down, "its host does not answer, neither at 198.18.0.2"},
		{"the host alone", same, func(t Try) bool { return t.To == host }, "", Filtered, "its host answers at 198.18.0.2, but nothing comes through the tunnel: UDP port 8472 is filtered"},
		{"without a checksum", same, func(t Try) bool { return t.Kind == Bare || t.Kind == Ping }, "", Checksums, "this host's network card"},
		{"without a checksum of theirs", same, func(t Try) bool { return t.Kind != UDP }, "", PeerChecksums, "that host's network card"},
		{"without a checksum, no pings", same, func(t Try) bool { return t.Kind == Bare }, "", Checksums, "Backend.Offload"},
		{"half the MTU", same, upTo(700), "", SmallMTU, "up to 700 bytes pass, but not of 1450"},
		{"one byte too few", same, upTo(1449), "", SmallMTU, "up to 1449 bytes pass, but not of 1450"},
		{"small ones alone", same, upTo(small), "", SmallMTU, "up to 80 bytes"},
		{"diverted", same, func(t Try) bool { return t.To == host }, "eth7", Diverted, "through eth7 and not through tulle.1"},
		{"no route", same, func(t Try) bool { return t.To == host }, "none", Diverted, "this host has no route to 10.5.2.0"},

		{"direct: all passes", direct, func(Try) bool { return true }, "", Well, ""},
		{"direct: no daemon is asked", direct, func(t Try) bool { return t.Kind == Ping }, "", Well, ""},
		{"direct: nothing", direct, func(Try) bool { return false }, "", Down, "its host does not answer at 198.18.0.2"},
		{"direct: small ones alone", direct, upTo(1400), "", SmallMTU, "up to 1400 bytes pass, but not of 1500"},

		{"routed: the host alone", routed, func(t Try) bool { return t.To == host }, "", Filtered, "packets with addresses of the network do not arrive"},
		{"routed: the host alone, in AWS", routed, func(t Try) bool { return t.To == host }, "", Filtered, "switch the source/destination check off (AWS)"},
		{"routed: the host alone, elsewhere", routed, func(t Try) bool { return t.To == host }, "", Filtered, "or IP forwarding (Azure) or canIpForward (Google) on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				p := c.path(way("a"))
				link := map[string]string{"": p.Link, "none": ""}[c.by]
				if c.by != "" && c.by != "none" {
					link = c.by
				}
				began := time.Now()
				f := diagnose(t.Context(), passing(c.passes), by(link), p)
				if f.Cause != c.want || !strings.Contains(f.Why(), c.says) || (f.Why() == "") != (c.want == Well) {
					t.Errorf("%q: %q", f.Cause, f.Why())
				}
				if f.Cause == SmallMTU && (f.Passes < small || !c.passes(Try{Kind: Ping, From: p.From, To: p.To, Size: f.Passes}) || c.passes(Try{Kind: Ping, From: p.From, To: p.To, Size: f.Passes + 1})) {
					t.Errorf("%d pass", f.Passes)
				}
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestDiagnoseTriesAgain checks that one lost packet is no fault.
func TestDiagnoseTriesAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		seen := make(map[Try]int)
		f := diagnose(t.Context(), passing(func(t Try) bool {
			seen[t]++
			return seen[t] == tries
		}), by("tulle.1"), way("a"))
		if f.Cause != Well || f.RTT != time.Millisecond {
			t.Errorf("%+v", f)
		}
	})
}

// TestDiagnoseUnsent checks that a failed send reports nothing about the peer.
func TestDiagnoseUnsent(t *testing.T) {
	refused := errors.New("operation not permitted")
	f := diagnose(t.Context(), echoes(func(Try) (Answer, error) { return Answer{}, refused }), by("tulle.1"), way("a"))
	if f.Cause != Unsent || !strings.Contains(f.Why(), "operation not permitted") {
		t.Errorf("%+v: %s", f, f.Why())
	}
}
