package web

import (
	"bufio"
	"bytes"
	"fmt"
	"github.com/tulle-net/tulle/pkg/status"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tulle-net/tulle/pkg/httpd"
)

// scrape returns tulle's own metrics from /metrics, by name with labels.
func scrape(t testing.TB, s Source) (map[string]string, []byte) {
	t.Helper()
	w := get(t, s, "/metrics")
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	values := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(w.Body.Bytes())); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, "tulle_") {
			values[name] = value
		}
	}
	return values, w.Body.Bytes()
}

// inCloud is a node with the backend cloud, which also moves packets itself.
func inCloud() fake {
	f, native := well(3), 1
	f.state.Peers.Native, f.state.Peers.Tunnelled = &native, map[string]int{status.DetourNoRoute: 2}
	f.state.Network.Moved = []status.Moved{{Device: "tulle.udp", PacketsOut: 7, BytesOut: 700, PacketsIn: 6, BytesIn: 600, Dropped: map[string]uint64{"stranger": 5}}}
	return f
}

// encrypted is a node with the backend wireguard.
func encrypted() fake {
	f := well(3)
	f.state.WireGuard = &status.WireGuard{
		PublicKey: "x", Sessions: map[string]int{status.SessionLive: 2, status.SessionNever: 1}, Received: 7030, Sent: 840,
		Dropped: map[string]uint64{status.DropNoPeer: 5},
		Devices: []status.WireGuardDevice{
			{Device: "tulle-wg", Received: 7000, Sent: 800, Dropped: map[string]uint64{status.DropNoPeer: 5}}, {Device: "tulle-wg2", Received: 30, Sent: 40},
		},
		KeyMade: new(time.Unix(1_700_000_000, 0)), Rotation: &status.Rotation{Step: "return"},
	}
	return f
}

// moving is a node that moves to another backend.
func moving() fake {
	f := well(3)
	f.state.Network.Move = &status.Move{Round: 1, From: []string{"vxlan"}, Peers: 3, Switched: 1, WaitCount: 2}
	return f
}

// everyBackend has what any backend reports.
func everyBackend() fake {
	f := inCloud()
	f.state.WireGuard = encrypted().state.WireGuard
	return f
}

func TestMetricsShowTheState(t *testing.T) {
	for _, c := range []struct {
		name string
		fake fake
		want string // pairs of name and value
		none string // names that must be absent
	}{
		{"well", well(3), `healthy 1 ready 1 ready_check{check="lease"} 1 peers 3 peers_unroutable 0 leases_rejected 0 leases_reserved 0 node_id_shared 0 move_under_way 0 move_peers_awaited 0 network_mtu_bytes 1430
			store_failing 0 store_revision 77123 store_remembered 0 kernel_in_sync 1 kernel_objects 14 kernel_objects_pending 0 kernel_objects_failing 0 kernel_problems 0
			kernel_healed_total{kind="route"} 2 kernel_healed_total{kind="fdb"} 0 kernel_resyncs_total 41 kernel_last_resync_duration_seconds 0.0094
			firewall_written 1 firewall_failing 0 firewall_healed_total 0 files_failing 0 fights{kind="kernel"} 0
			peers_probed 3 peers_probe_failing{cause="down"} 0 peers_probe_failing{cause="peer-checksums"} 0 probes_passed_total 3 probes_failed_total{cause="down"} 2
			probes_failed_total{cause="mtu"} 0 probe_problems 0 probe_round_trip_seconds_bucket{le="0.0001"} 0 probe_round_trip_seconds_bucket{le="0.00025"} 1
			probe_round_trip_seconds_bucket{le="0.001"} 2 probe_round_trip_seconds_bucket{le="0.5"} 3 probe_round_trip_seconds_bucket{le="+Inf"} 3
			probe_round_trip_seconds_count 3 probe_round_trip_seconds_sum 0.00254`, `peers_native peers_tunnelled{reason="no-route"}`},
		{"cloud", inCloud(), `peers 3 peers_native 1 peers_tunnelled{reason="no-route"} 2 peers_tunnelled{reason="network"} 0
			tunnel_packets_total{device="tulle.udp",direction="in"} 6 tunnel_packets_total{device="tulle.udp",direction="out"} 7
			tunnel_bytes_total{device="tulle.udp",direction="in"} 600 tunnel_bytes_total{device="tulle.udp",direction="out"} 700
			tunnel_dropped_total{device="tulle.udp",reason="stranger"} 5`, ""},
		{"wireguard", encrypted(), `wireguard_sessions{handshake="live"} 2 wireguard_sessions{handshake="expired"} 0 wireguard_sessions{handshake="never"} 1
			wireguard_received_bytes_total{device="tulle-wg"} 7000 wireguard_sent_bytes_total{device="tulle-wg2"} 40 wireguard_dropped_packets_total{device="tulle-wg",reason="no-peer"} 5`, `wireguard_dropped_packets_total{device="",reason="past-tunnel"}`},
		{"moving", moving(), `ready 1 move_under_way 1 move_peers_awaited 2`, ""},
		{"ill", ill(), `healthy 1 ready 0 ready_check{check="lease"} 0 ready_check{check="loop"} 1 ready_check{check="files"} 0 peers 300 peers_unroutable 3 leases_rejected 1 node_id_shared 1
			store_failing 1 store_remembered 1 kernel_in_sync 0 kernel_objects_pending 4 kernel_objects_failing 17 kernel_problems 1
			firewall_written 0 firewall_failing 1 firewall_healed_total 12 files_failing 1
			fights{kind="kernel"} 2 fights{kind="firewall"} 2 fights{kind="file"} 1
			peers_probed 297 peers_probe_failing{cause="down"} 1 peers_probe_failing{cause="filtered"} 1 peers_probe_failing{cause="unsent"} 0
			probes_passed_total 293 probes_failed_total{cause="down"} 5 probes_failed_total{cause="mtu"} 3 probe_problems 2
			probe_round_trip_seconds_bucket{le="0.1"} 292 probe_round_trip_seconds_count 293`, "lease_renewed_timestamp_seconds lease_acquired_timestamp_seconds wireguard_sent_bytes_total"},
		{"stuck", stuck(), `healthy 0 ready 0 ready_check{check="loop"} 0 ready_check{check="lease"} 0 kernel_in_sync 1 peers_probed 3 probe_round_trip_seconds_count 3`, "move_under_way move_peers_awaited peers peers_unroutable leases_rejected store_remembered network_mtu_bytes lease_renewed_timestamp_seconds"},
		{"starting", fake{}, `healthy 1 ready 0 peers 0 kernel_objects 0`, `start_time_seconds kernel_last_resync_timestamp_seconds kernel_last_resync_duration_seconds
			peers_probed peers_probe_failing{cause="down"} probes_passed_total probes_failed_total{cause="down"} probe_problems probe_round_trip_seconds_count`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := scrape(t, c.fake)
			words := strings.Fields(c.want)
			for i := 0; i < len(words); i += 2 {
				if value, ok := got["tulle_"+words[i]]; value != words[i+1] {
					t.Errorf("%s is %q (%t), not %s", words[i], value, ok, words[i+1])
				}
			}
			for _, name := range strings.Fields(c.none) {
				if value, ok := got["tulle_"+name]; ok {
					t.Errorf("%s is %s", name, value)
				}
			}
		})
	}
}

func TestMetricsKeepFractionsOfSeconds(t *testing.T) {
	f := well(1)
	renewed := time.Unix(2000000000, 250e6)
	f.state.Lease.Renewed = &renewed
	if got, _ := scrape(t, f); got["tulle_lease_renewed_timestamp_seconds"] != "2.00000000025e+09" {
		t.Errorf("%q", got["tulle_lease_renewed_timestamp_seconds"])
	}
}

// TestMetricsAreFew: the series are the same for few peers and many, well or not. A
// fault changes only values.
func TestMetricsAreFew(t *testing.T) {
	series := func(f fake) (names []string) {
		got, _ := scrape(t, f)
		return slices.Sorted(maps.Keys(got))
	}
	many := ill()
	many.state.Lease = well(0).state.Lease
	want := series(well(0))
	for _, f := range []fake{well(5), troubled(10000), many} {
		if got := series(f); !slices.Equal(got, want) {
			t.Errorf("there are\n%q\nand were\n%q", got, want)
		}
	}
	if len(want) > 90 {
		t.Errorf("%d series", len(want))
	}
}

// TestMetricsLint runs the checks of promtool check metrics.
func TestMetricsLint(t *testing.T) {
	for _, f := range []fake{well(3), ill(), encrypted()} {
		_, text := scrape(t, f)
		found, err := promlint.New(bytes.NewReader(text)).Lint()
		if err != nil || len(found) > 0 {
			t.Errorf("%+v, %v", found, err)
		}
	}
}

// TestMetricsHaveNoNames: no label contains a name from a lease or an error.
func TestMetricsHaveNoNames(t *testing.T) {
	f := hostile("evil")
	delete(f.state.Kernel.Healed, "xevil") // the kinds come from the code
	f.state.Version = "1"
	if _, text := scrape(t, f); bytes.Contains(text, []byte("evil")) {
		t.Errorf("%s", text)
	}
}

var metricRow = regexp.MustCompile("^\\| `(tulle_\\w+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\| ([^|]{10,}) \\|$")

// TestMetricsPage: the page for operators has exactly the existing metrics with their
// labels, and includes each metric's help.
func TestMetricsPage(t *testing.T) {
	text, err := os.ReadFile("../../Documentation/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, meaning := make(map[string][]string), make(map[string]string)
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSuffix(l, "\n")
		if m := metricRow.FindStringSubmatch(l); m != nil {
			if rows[m[1]] != nil {
				t.Errorf("%s is there twice", m[1])
			}
			rows[m[1]] = m[2:4]
			meaning[m[1]] = strings.ToLower(strings.ReplaceAll(m[4], "`", ""))
		} else if strings.HasPrefix(l, "| `tulle_") {
			t.Errorf("malformed row: %s", l)
		}
	}
	metrics := make(map[*prometheus.Desc]string)
	for _, m := range table() {
		metrics[m.desc] = map[prometheus.ValueType]string{prometheus.GaugeValue: "gauge", prometheus.CounterValue: "counter"}[m.kind]
	}
	metrics[latency] = "histogram"
	peers := newPeerCollector(nil)
	for _, desc := range []*prometheus.Desc{peers.inSync, peers.failing, peers.roundTrip, peers.handshake} {
		metrics[desc] = "gauge"
	}
	metrics[peers.received], metrics[peers.sent] = "counter", "counter"
	for desc, kind := range metrics {
		// Prometheus gives programs these only as text.
		d := regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: "(.+)\.", unit: "", constLabels: \{\}, variableLabels: \{([\w,]*)\}\}$`).FindStringSubmatch(desc.String())
		if d == nil {
			t.Fatal(desc)
		}
		labels := "–"
		if d[3] != "" {
			labels = "`" + strings.ReplaceAll(d[3], ",", "`, `") + "`"
		}
		if !strings.HasPrefix(meaning[d[1]], strings.ToLower(d[2])) {
			t.Errorf("the page says of %s %q; its help is %q", d[1], meaning[d[1]], d[2])
		}
		if got := rows[d[1]]; !slices.Equal(got, []string{kind, labels}) {
			t.Errorf("%s is %q, not %s with %s", d[1], got, kind, labels)
		}
	}
	if len(rows) != len(metrics) {
		t.Errorf("%d metrics, there are %d", len(rows), len(metrics))
	}
	for _, c := range checksOf(0) {
		if !strings.Contains(string(text), "\n| `"+c.Name+"` | ") {
			t.Errorf("there is no check %s", c.Name)
		}
	}
	for _, m := range regexp.MustCompile(`tulle_\w+`).FindAllString(string(text), -1) {
		if rows[m] == nil {
			t.Errorf("there is no %s", m)
		}
	}
}

// BenchmarkAnswers measures this package only; the daemon's own cost comes on top.
func BenchmarkAnswers(b *testing.B) {
	for _, n := range []int{3, 300, 10000} {
		for name, f := range map[string]fake{"well": well(n), "troubled": troubled(n)} {
			for _, path := range []string{"/metrics", "/readyz", "/statusz"} {
				b.Run(fmt.Sprintf("%s/%s/%d", path[1:], name, n), func(b *testing.B) {
					h := httpd.Handler(beyond.Options, newMux(beyond, f))
					b.ReportAllocs()
					for b.Loop() {
						w := ask(h, path)
						b.ReportMetric(float64(w.Body.Len()), "bytes")
					}
				})
			}
		}
	}
}

// TestScrapeAsksOnce: a scrape asks for the state once, and not for peers.
func TestScrapeAsksOnce(t *testing.T) {
	f := &counted{fake: well(10)}
	scrape(t, f)
	if f.states != 1 || f.peersAsked != 0 {
		t.Errorf("a scrape asks %d times for the state, %d for the peers", f.states, f.peersAsked)
	}
	f.states = 0
	get(t, f, "/statusz")
	if f.states != 1 || f.peersAsked != 1 {
		t.Errorf("the page asks %d times for the state, %d for the peers", f.states, f.peersAsked)
	}
}
