package web

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
)

// metricsHandler uses a registry of its own, so that other metrics in this process
// stay separate.
func metricsHandler(s Source, peers bool) http.Handler {
	registry := prometheus.NewRegistry()
	if peers {
		registry.MustRegister(newPeerCollector(s))
	}
	registry.MustRegister(newCollector(s), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads the daemon's state when it is scraped, and keeps no counts of its
// own.
type collector struct {
	source  Source
	metrics []metric
}

// metric is one row of the table, with the function that reads it. It emits nothing
// while the value is unknown.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(r reading, emit func(value float64, labels ...string))
}

func newCollector(s Source) *collector { return &collector{s, table()} }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		to <- m.desc
	}
	to <- latency
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	r := read(context.Background(), c.source, answerLimit)
	for _, m := range c.metrics {
		m.read(r, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
		})
	}
	if p := r.Probes; p != nil {
		buckets := make(map[float64]uint64, len(p.Took))
		for _, t := range p.Took {
			buckets[t.Millis/1000] = t.Count
		}
		to <- prometheus.MustNewConstHistogram(latency, p.Passed, p.MeanMillis/1000*float64(p.Passed), buckets)
	}
}

var latency = prometheus.NewDesc("tulle_probe_round_trip_seconds", "Round-trip time of small probes, in seconds.", nil, nil)

// reader reads one value, and reports whether it is known. What makes readers and metrics is
// not inlined: that would copy them for each metric, 37 kB in all.
type reader func(r reading) (value float64, known bool)

//go:noinline
func always(read func(reading) float64) reader {
	return func(r reading) (float64, bool) { return read(r), true }
}

// fromLoop returns a reader whose value is known while the loop answers.
//
//go:noinline
func fromLoop(read func(reading) float64) reader {
	return func(r reading) (float64, bool) { return read(r), r.Stuck == "" }
}

// knownTime returns a reader of a time, known once it is set.
//
//go:noinline
func knownTime(read func(reading) *time.Time) reader {
	return func(r reading) (float64, bool) {
		t := read(r)
		if t == nil || t.IsZero() {
			return 0, false
		}
		return float64(t.UnixMicro()) / 1e6, true
	}
}

// probes returns a reader whose value is known while the daemon probes.
//
//go:noinline
func probes(read func(*status.Probes) float64) reader {
	return func(r reading) (float64, bool) {
		if r.Probes == nil {
			return 0, false
		}
		return read(r.Probes), true
	}
}

// ofCommands returns a reader whose value is known once a command was run.
//
//go:noinline
func ofCommands(read func(*status.Commands) float64) reader {
	return func(r reading) (float64, bool) {
		if r.Commands == nil {
			return 0, false
		}
		return read(r.Commands), true
	}
}

func gauge(name, help string, read reader) metric {
	return one(name, help, prometheus.GaugeValue, read)
}

func counter(name, help string, read reader) metric {
	return one(name, help, prometheus.CounterValue, read)
}

// one returns a metric that has one value.
//
//go:noinline
func one(name, help string, kind prometheus.ValueType, read reader) metric {
	return metric{prometheus.NewDesc("tulle_"+name, help, nil, nil), kind, func(r reading, emit func(float64, ...string)) {
		if value, known := read(r); known {
			emit(value)
		}
	}}
}

// commandCounter returns a counter that has values for each command.
func commandCounter(name, help string, labels []string, of func(status.CommandCount, func(float64, ...string))) metric {
	return metric{prometheus.NewDesc("tulle_"+name, help, labels, nil), prometheus.CounterValue, func(r reading, emit func(float64, ...string)) {
		if r.Commands != nil {
			for _, n := range r.Commands.Runs {
				of(n, emit)
			}
		}
	}}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func table() []metric {
	return []metric{
		{prometheus.NewDesc("tulle_build_info", "Always 1; the labels hold the versions of the daemon and of Go.", []string{"version", "goversion"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) { emit(1, r.Version, runtime.Version()) }},
		gauge("start_time_seconds", "Unix time of the daemon's start, in seconds.", knownTime(func(r reading) *time.Time { return &r.Started })),
		gauge("healthy", "1 while the daemon's main loop answers, as on /healthz.", always(func(r reading) float64 { return boolValue(r.Stuck == "") })),
		gauge("ready", "1 while the node is ready, as on /readyz.", always(func(r reading) float64 { return boolValue(r.Ready) })),
		{prometheus.NewDesc("tulle_ready_check", "1 while this check of /readyz holds.", []string{"check"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) {
				for _, c := range r.checks() {
					emit(boolValue(c.OK), c.Name)
				}
			}},

		gauge("network_mtu_bytes", "MTU of the network, in bytes.", fromLoop(func(r reading) float64 { return float64(r.Network.MTU) })),
		gauge("node_id_shared", "1 while another machine has this machine's ID.", fromLoop(func(r reading) float64 { return boolValue(r.Clone != nil) })),
		gauge("move_under_way", "1 while the node moves to another backend, and has the former one, too.", fromLoop(func(r reading) float64 { return boolValue(r.Network.Move != nil) })),
		gauge("move_peers_awaited", "Peers that the move to another backend waits for.", fromLoop(func(r reading) float64 {
			if r.Network.Move == nil {
				return 0
			}
			return float64(r.Network.Move.WaitCount)
		})),
		gauge("peers", "Peers: other nodes with an accepted lease.", fromLoop(func(r reading) float64 { return float64(r.Peers.All) })),
		gauge("peers_unroutable", "Peers to which no working route leads in at least one family; whether the others answer is in tulle_peers_probe_failing.",
			fromLoop(func(r reading) float64 { return float64(r.Peers.Unroutable) })),
		gauge("peers_native", "With the backend cloud: peers that packets reach without the tunnel in every family.", func(r reading) (float64, bool) {
			if r.Peers.Native == nil || r.Stuck != "" {
				return 0, false
			}
			return float64(*r.Peers.Native), true
		}),
		{prometheus.NewDesc("tulle_peers_tunnelled", "With the backend cloud: peers that packets reach through the tunnel in at least one family, by reason.", []string{"reason"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) {
				for _, reason := range status.Detours() {
					if r.Peers.Native != nil && r.Stuck == "" {
						emit(float64(r.Peers.Tunnelled[reason]), reason)
					}
				}
			}},
		gauge("leases_rejected", "Leases in the store that this node rejects.", fromLoop(func(r reading) float64 { return float64(r.RejectedCount) })),
		gauge("leases_reserved", "Reservations in the store that no node uses.", fromLoop(func(r reading) float64 { return float64(r.Reserved) })),
		gauge("lease_acquired_timestamp_seconds", "Unix time since which this run has held the node's lease, in seconds.", knownTime(func(r reading) *time.Time {
			if r.Lease == nil {
				return nil
			}
			return r.Lease.Since
		})),
		gauge("lease_renewed_timestamp_seconds", "Unix time at which the store last took or confirmed the node's lease, in seconds.", knownTime(func(r reading) *time.Time {
			if r.Lease == nil {
				return nil
			}
			return r.Lease.Renewed
		})),

		gauge("store_failing", "Operations of the store that are failing now.", always(func(r reading) float64 { return float64(len(r.Store.Failing)) })),
		gauge("store_revision", "Latest revision of the store that this node knows.", always(func(r reading) float64 { return float64(r.Store.Revision) })),
		gauge("store_watch_start_timestamp_seconds", "Unix time since which the watch of the store has run without a break, in seconds.", knownTime(func(r reading) *time.Time { return r.Store.Watching })),
		gauge("store_remembered", "1 while the node uses its saved network because the store is unreachable.",
			fromLoop(func(r reading) float64 { return boolValue(r.Remembered != nil) })),

		gauge("kernel_in_sync", "1 while the kernel holds every wanted object and nothing else of tulle's.",
			always(func(r reading) float64 { return boolValue(r.Kernel.InSync) })),
		gauge("kernel_in_sync_change_timestamp_seconds", "Unix time of the last change of tulle_kernel_in_sync, in seconds.", knownTime(func(r reading) *time.Time { return &r.Kernel.Since })),
		gauge("kernel_objects", "Objects wanted in the kernel.", always(func(r reading) float64 { return float64(r.Kernel.Objects) })),
		gauge("kernel_objects_pending", "Objects that wait to be written to the kernel.", always(func(r reading) float64 { return float64(r.Kernel.Pending) })),
		gauge("kernel_objects_failing", "Objects that the kernel refuses.",
			always(func(r reading) float64 { return float64(len(r.Kernel.Failing)) })),
		gauge("kernel_problems", "Other problems with the kernel: failed dump, failed watch, objects that several peers want differently.",
			always(func(r reading) float64 { return float64(len(r.Kernel.Problems)) })),
		{prometheus.NewDesc("tulle_kernel_healed_total", "Objects restored after drift, by kind.", []string{"kind"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, kind := range slices.Sorted(maps.Keys(r.Kernel.Healed)) {
					emit(float64(r.Kernel.Healed[kind]), kind)
				}
			}},
		counter("kernel_resyncs_total", "Full resyncs with the kernel.", always(func(r reading) float64 { return float64(r.Resyncs) })),
		gauge("kernel_last_resync_timestamp_seconds", "Unix time at which the last full resync began, in seconds.", knownTime(func(r reading) *time.Time { return &r.Kernel.LastResync })),
		gauge("kernel_last_resync_duration_seconds", "Duration of the last full resync, in seconds.", func(r reading) (float64, bool) {
			return r.Kernel.ResyncMillis / 1000, !r.Kernel.LastResync.IsZero()
		}),

		{prometheus.NewDesc("tulle_tunnel_packets_total", "Packets that the daemon itself has moved through a tunnel, by direction: in, out.", []string{"device", "direction"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, m := range r.Network.Moved {
					emit(float64(m.PacketsIn), m.Device, "in")
					emit(float64(m.PacketsOut), m.Device, "out")
				}
			}},
		{prometheus.NewDesc("tulle_tunnel_bytes_total", "Bytes of these packets, without the outer headers, by direction: in, out.", []string{"device", "direction"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, m := range r.Network.Moved {
					emit(float64(m.BytesIn), m.Device, "in")
					emit(float64(m.BytesOut), m.Device, "out")
				}
			}},
		{prometheus.NewDesc("tulle_tunnel_dropped_total", "Packets that the daemon itself did not move through a tunnel, by reason.", []string{"device", "reason"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, m := range r.Network.Moved {
					for _, reason := range slices.Sorted(maps.Keys(m.Dropped)) {
						emit(float64(m.Dropped[reason]), m.Device, reason)
					}
				}
			}},
		commandCounter("commands_total", "With the backend extension: runs of the config's commands, by command and result.", []string{"command", "result"},
			func(n status.CommandCount, emit func(float64, ...string)) {
				emit(float64(n.Runs-n.Failed), n.Command, "ok")
				emit(float64(n.Failed-n.Killed), n.Command, "failed")
				emit(float64(n.Killed), n.Command, "killed")
			}),
		commandCounter("command_seconds_total", "With the backend extension: time that the config's commands took, in seconds, by command.", []string{"command"},
			func(n status.CommandCount, emit func(float64, ...string)) { emit(n.Seconds, n.Command) }),
		gauge("commands_waiting", "With the backend extension: commands that are to be run or undone.", ofCommands(func(c *status.Commands) float64 { return float64(c.Waiting) })),
		gauge("commands_failing", "With the backend extension: those of them whose last run failed, and that are retried.", ofCommands(func(c *status.Commands) float64 { return float64(c.Failing) })),

		gauge("firewall_written", "1 once every wanted firewall rule was tried.", always(func(r reading) float64 { return boolValue(r.Firewall.Written) })),
		gauge("firewall_failing", "1 while the firewall rules are not in sync.", always(func(r reading) float64 { return boolValue(r.Firewall.Problem != "") })),
		counter("firewall_healed_total", "Restores of firewall rules after drift.",
			always(func(r reading) float64 { return float64(r.Firewall.Healed) })),
		gauge("peers_probed", "Peers that have been probed.", probes(func(p *status.Probes) float64 { return float64(p.Known) })),
		{prometheus.NewDesc("tulle_peers_probe_failing", "Peers whose last probes failed, by likely cause.", []string{"cause"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) {
				for _, cause := range probe.Causes() {
					if r.Probes != nil {
						emit(float64(r.Probes.Failing[string(cause)]), string(cause))
					}
				}
			}},
		{prometheus.NewDesc("tulle_probes_failed_total", "Failed probes, by likely cause.", []string{"cause"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, cause := range probe.Causes() {
					if r.Probes != nil {
						emit(float64(r.Probes.Failed[string(cause)]), string(cause))
					}
				}
			}},
		counter("probes_passed_total", "Passed probes.", probes(func(p *status.Probes) float64 { return float64(p.Passed) })),
		gauge("probe_problems", "Problems that probes found beyond single peers: a wrong clock, the wrong uplink.", probes(func(p *status.Probes) float64 { return float64(len(p.Problems)) })),

		wireguardGauge("wireguard_sessions", "With the backend wireguard: keys of peers, by the age of their last handshake.", "handshake", status.SessionAges(),
			func(g *status.WireGuard) map[string]int { return g.Sessions }),
		wireguardBytes("wireguard_received_bytes_total", "With the backend wireguard: bytes received from peers on the wire.", func(d status.WireGuardDevice) uint64 { return d.Received }),
		wireguardBytes("wireguard_sent_bytes_total", "With the backend wireguard: bytes sent to peers on the wire.", func(d status.WireGuardDevice) uint64 { return d.Sent }),
		wireguardDropped(),
		gauge("wireguard_key_made_timestamp_seconds", "With the backend wireguard: Unix time when the node's key was made, in seconds.", knownTime(func(r reading) *time.Time {
			if r.WireGuard == nil {
				return nil
			}
			return r.WireGuard.KeyMade
		})),
		wireguardRotation(),

		{prometheus.NewDesc("tulle_fights", "Things that another program keeps changing, by kind: kernel, firewall, file; each is restored every time.", []string{"kind"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) {
				n := make(map[string]int)
				for _, f := range r.Fights {
					n[f.Kind]++
				}
				for _, kind := range status.FightKinds() {
					emit(float64(n[kind]), kind)
				}
			}},
		gauge("files_failing", "Files that are out of date: unwritable, or more often wrong than right because of another program.", always(func(r reading) float64 { return float64(len(r.Files)) })),
	}
}
