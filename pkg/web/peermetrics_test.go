package web

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// scrapePeers returns the metrics of each peer from /metrics, by name with labels.
func scrapePeers(t testing.TB, s Source) (series map[string]string, text []byte) {
	t.Helper()
	w := serveTo(t, Options{Program: "tulled", Options: beyond.Options, Peers: true}, s, http.MethodGet, "/metrics")
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	series = make(map[string]string)
	for l := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(l, "tulle_peer_") {
			continue
		}
		at := strings.LastIndex(l, "} ") + 1
		if at == 0 || series[l[:at]] != "" {
			t.Errorf("not a valid series, or a second one: %s", l)
		}
		series[l[:at]] = strings.TrimSpace(l[at:])
	}
	return series, w.Body.Bytes()
}

func TestPeerMetricsShowEachPeer(t *testing.T) {
	f := well(4)
	f.peers[0] = probed(f.peers[0], 0.25, probe.Well)
	f.peers[1] = behind(f.peers[1])
	f.peers[2] = probed(f.peers[2], 1.25, probe.SmallMTU)
	f.peers[3].Probes = nil
	f.peers[3].Name = ""
	at := time.Unix(2000000000, 0)
	f.peers[0].Sessions = []status.Session{{Device: "tulle-wg", Handshake: &at, Received: 7, Sent: 8}, {Device: "tulle6-wg"}}
	got, _ := scrapePeers(t, f)
	want := map[string]string{
		`in_sync{lease="10.64.0.0-24",node="worker-1"}`:                  "1",
		`in_sync{lease="10.64.1.0-24",node="worker-2"}`:                  "0",
		`in_sync{lease="10.64.2.0-24",node="worker-3"}`:                  "1",
		`in_sync{lease="10.64.3.0-24",node="10.64.3.0-24"}`:              "1",
		`probe_round_trip_seconds{lease="10.64.0.0-24",node="worker-1"}`: "0.00025",
		`probe_round_trip_seconds{lease="10.64.1.0-24",node="worker-2"}`: "0.00055",
	}
	for name, value := range map[string]string{
		`wireguard_handshake_timestamp_seconds{device="tulle-wg"`: "2e+09", `wireguard_received_bytes_total{device="tulle-wg"`: "7", `wireguard_sent_bytes_total{device="tulle-wg"`: "8",
		`wireguard_received_bytes_total{device="tulle6-wg"`: "0", `wireguard_sent_bytes_total{device="tulle6-wg"`: "0",
	} {
		want[name+`,lease="10.64.0.0-24",node="worker-1"}`] = value
	}
	for _, cause := range probe.Causes() {
		for at, labels := range []string{`lease="10.64.0.0-24",node="worker-1"`, `lease="10.64.1.0-24",node="worker-2"`, `lease="10.64.2.0-24",node="worker-3"`} {
			want["probe_failing{cause="+strconv.Quote(string(cause))+","+labels+"}"] = strconv.Itoa(int(boolValue(at == 2 && cause == probe.SmallMTU)))
		}
	}
	for name, value := range want {
		if got["tulle_peer_"+name] != value {
			t.Errorf("%s is %q, not %s", name, got["tulle_peer_"+name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d series, not %d: %q", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
	if w := serveTo(t, beyond, f, http.MethodGet, "/metrics"); strings.Contains(w.Body.String(), "tulle_peer_") {
		t.Error("peers without --peer-metrics")
	}
}

var nodeLabel = regexp.MustCompile(`^(tulle_peer_\w+)\{(?:cause="[\w-]+",)?lease="([\d.-]+)",node=("(?:[^"\\]|\\.)*")\}$`)

// TestPeerMetricsHostileNames: any node name appears in its own label only,
// unchanged. Leases distinguish nodes of one name.
func TestPeerMetricsHostileNames(t *testing.T) {
	names := []string{
		"same", "same", `a"} 1`, "a\"} 1\ntulle_ready{x=\"", `back\slash\`, `\n`, "\n", "\r\ntulle_healthy 0", "# HELP tulle_ready gone",
		"{}", "a,lease=\"10.64.0.0-24\"", "\u202e\u2028", "żółw", strings.Repeat("x", 253), " ", "NaN",
	}
	plain, hostile := well(len(names)), well(len(names))
	for i, name := range names {
		hostile.peers[i].Name = name
	}
	want, plainText := scrapePeers(t, plain)
	got, text := scrapePeers(t, hostile)
	if len(got) != len(want) || bytes.Count(text, []byte("\n# ")) != bytes.Count(plainText, []byte("\n# ")) {
		t.Errorf("there are %d series, not %d", len(got), len(want))
	}
	seen := make(map[string]int)
	for series := range got {
		m := nodeLabel.FindStringSubmatch(series)
		if m == nil {
			t.Errorf("not a valid series: %s", series)
			continue
		}
		node, err := strconv.Unquote(m[3])
		i := slices.IndexFunc(hostile.peers, func(p status.Peer) bool { return p.Key == m[2] })
		if err != nil || i < 0 || node != names[i] {
			t.Errorf("the node of %s is %q, %v", series, node, err)
			continue
		}
		seen[m[2]]++
	}
	for _, p := range hostile.peers {
		if n := 2 + len(probe.Causes()); seen[p.Key] != n {
			t.Errorf("%q has %d series, not %d", p.Name, seen[p.Key], n)
		}
	}
	found, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// hung is a daemon whose loop does not answer until the client gives up.
type hung struct{ fake }

func (h hung) State(ctx context.Context) State {
	<-ctx.Done()
	h.stuck = true
	return h.fake.State(ctx)
}

func (h hung) Peers(ctx context.Context) ([]status.Peer, error) {
	<-ctx.Done()
	return nil, errors.New("stuck")
}

// TestPeerMetricsOfStuck: with a stuck loop, a scrape with peers takes no longer than
// one without, and has the other metrics.
func TestPeerMetricsOfStuck(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		begun := time.Now()
		got, text := scrapePeers(t, hung{well(3)})
		if len(got) > 0 {
			t.Errorf("there are %q", got)
		}
		for _, want := range []string{"\ntulle_healthy 0\n", "\ntulle_kernel_in_sync 1\n", "\nprocess_start_time_seconds "} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("there is no %q", want)
			}
		}
		if waited := time.Since(begun); waited > answerLimit {
			t.Errorf("it took %s", waited)
		}
	})
}
