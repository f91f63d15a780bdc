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

// metricsHandler answers with a registry of its own: others in this process, like
// an etcd, have theirs.
func metricsHandler(s Source, peers bool) http.Handler {
	registry := prometheus.NewRegistry()
	if peers {
		registry.MustRegister(newPeerCollector(s))
	}
	registry.MustRegister(newCollector(s), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads the daemon's state when it is scraped: nothing is counted twice.
type collector struct {
	source  Source
	metrics []metric
}

// metric is one of the table, with what it is in a state. It emits nothing while
// that is not known.
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

var latency = prometheus.NewDesc("tulle_probe_round_trip_seconds", "How long small probes took there and back.", nil, nil)

// reader reads one value, and says whether it is known.
type reader func(r reading) (value float64, known bool)

func always(read func(reading) float64) reader {
	return func(r reading) (float64, bool) { return read(r), true }
}

// fromLoop is known as long as the loop answers.
func fromLoop(read func(reading) float64) reader {
	return func(r reading) (float64, bool) { return read(r), r.stuck == nil }
}

// moment is known once it has come.
func moment(read func(reading) *time.Time) reader {
	return func(r reading) (float64, bool) {
		t := read(r)
		if t == nil || t.IsZero() {
			return 0, false
		}
		return float64(t.UnixMicro()) / 1e6, true
	}
}

// probes is known where there are any.
func probes(read func(*status.Probes) float64) reader {
	return func(r reading) (float64, bool) {
		if r.Probes == nil {
			return 0, false
		}
		return read(r.Probes), true
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func table() []metric {
	one := func(name, help string, kind prometheus.ValueType, read reader) metric {
		return metric{prometheus.NewDesc("tulle_"+name, help, nil, nil), kind, func(r reading, emit func(float64, ...string)) {
			if value, known := read(r); known {
				emit(value)
			}
		}}
	}
	gauge := func(name, help string, read reader) metric { return one(name, help, prometheus.GaugeValue, read) }
	counter := func(name, help string, read reader) metric { return one(name, help, prometheus.CounterValue, read) }
	return []metric{
		{prometheus.NewDesc("tulle_build_info", "Always 1, with what runs here.", []string{"version", "goversion"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) { emit(1, r.Version, runtime.Version()) }},
		gauge("start_time_seconds", "When the daemon started, in Unix time.", moment(func(r reading) *time.Time { return &r.Started })),
		gauge("healthy", "Whether the daemon's loop turns, as /healthz has it.", always(func(r reading) float64 { return truth(r.stuck == nil) })),
		gauge("ready", "Whether the node is ready, as /readyz has it.", always(func(r reading) float64 { return truth(ready(r.checks())) })),
		{prometheus.NewDesc("tulle_ready_check", "Whether one check of /readyz holds.", []string{"check"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) {
				for _, c := range r.checks() {
					emit(truth(c.OK), c.Name)
				}
			}},

		gauge("network_mtu_bytes", "MTU of what containers send.", fromLoop(func(r reading) float64 { return float64(r.Network.MTU) })),
		gauge("peers", "Other nodes that are believed.", always(func(r reading) float64 { return float64(r.Peers.All) })),
		gauge("peers_unreachable", "Peers that cannot be reached, or not in every family, by what this node can tell.",
			fromLoop(func(r reading) float64 { return float64(r.Peers.Unreachable) })),
		gauge("leases_rejected", "Leases in the store that are not believed.", always(func(r reading) float64 { return float64(len(r.Rejected)) })),
		gauge("lease_acquired_timestamp_seconds", "Since when the node holds its lease in this run, in Unix time.", moment(func(r reading) *time.Time {
			if r.Lease == nil {
				return nil
			}
			return r.Lease.Since
		})),
		gauge("lease_renewed_timestamp_seconds", "When the store last took or found the node's lease, in Unix time.", moment(func(r reading) *time.Time {
			if r.Lease == nil {
				return nil
			}
			return r.Lease.Renewed
		})),

		gauge("store_failing", "Things that do not work with the store.", always(func(r reading) float64 { return float64(len(r.Store.Failing)) })),
		gauge("store_revision", "Up to which revision the store's history is known.", always(func(r reading) float64 { return float64(r.Store.Revision) })),
		gauge("store_watch_start_timestamp_seconds", "Since when the store tells of changes without a break, in Unix time.", moment(func(r reading) *time.Time { return r.Store.Watching })),
		gauge("store_remembered", "Whether the node goes by what was saved, because the store cannot be asked.",
			always(func(r reading) float64 { return truth(r.Remembered != nil) })),

		gauge("kernel_in_sync", "Whether the kernel holds all that it should, and nothing else of ours.",
			always(func(r reading) float64 { return truth(r.Kernel.InSync) })),
		gauge("kernel_in_sync_change_timestamp_seconds", "When that last changed, in Unix time.", moment(func(r reading) *time.Time { return &r.Kernel.Since })),
		gauge("kernel_objects", "Objects that the kernel should hold.", always(func(r reading) float64 { return float64(r.Kernel.Objects) })),
		gauge("kernel_objects_pending", "Objects about to be worked on.", always(func(r reading) float64 { return float64(r.Kernel.Pending) })),
		gauge("kernel_objects_failing", "Objects that the kernel refuses, or that others fight over.",
			always(func(r reading) float64 { return float64(len(r.Kernel.Failing)) })),
		gauge("kernel_problems", "Further problems with the kernel: what cannot be read, what it does not tell, what peers want differently.",
			always(func(r reading) float64 { return float64(len(r.Kernel.Problems)) })),
		{prometheus.NewDesc("tulle_kernel_healed_total", "Objects put right that others had changed.", []string{"kind"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, kind := range slices.Sorted(maps.Keys(r.Kernel.Healed)) {
					emit(float64(r.Kernel.Healed[kind]), kind)
				}
			}},
		counter("kernel_resyncs_total", "How often the kernel was looked at whole.", always(func(r reading) float64 { return float64(r.Resyncs) })),
		gauge("kernel_last_resync_timestamp_seconds", "When that last began, in Unix time.", moment(func(r reading) *time.Time { return &r.Kernel.LastResync })),
		gauge("kernel_last_resync_duration_seconds", "How long it took.", func(r reading) (float64, bool) {
			return r.Kernel.ResyncMillis / 1000, !r.Kernel.LastResync.IsZero()
		}),

		gauge("firewall_written", "Whether all wanted rules were tried.", always(func(r reading) float64 { return truth(r.Firewall.Written) })),
		gauge("firewall_failing", "Whether the rules are not as they should be.", always(func(r reading) float64 { return truth(r.Firewall.Problem != "") })),
		counter("firewall_healed_total", "How often what others had done to the rules was undone.",
			always(func(r reading) float64 { return float64(r.Firewall.Healed) })),
		gauge("peers_probed", "Peers whose last probes are known.", probes(func(p *status.Probes) float64 { return float64(p.Known) })),
		{prometheus.NewDesc("tulle_peers_probe_failing", "Peers whose last probes failed, by likely cause.", []string{"cause"}, nil), prometheus.GaugeValue,
			func(r reading, emit func(float64, ...string)) {
				for _, cause := range probe.Causes() {
					if r.Probes != nil {
						emit(float64(r.Probes.Failing[string(cause)]), string(cause))
					}
				}
			}},
		{prometheus.NewDesc("tulle_probes_failed_total", "Probes that failed, by likely cause.", []string{"cause"}, nil), prometheus.CounterValue,
			func(r reading, emit func(float64, ...string)) {
				for _, cause := range probe.Causes() {
					if r.Probes != nil {
						emit(float64(r.Probes.Failed[string(cause)]), string(cause))
					}
				}
			}},
		counter("probes_passed_total", "Probes that passed.", probes(func(p *status.Probes) float64 { return float64(p.Passed) })),
		gauge("probe_problems", "What probes found wrong beside peers that fail: clocks, this node's interface.", probes(func(p *status.Probes) float64 { return float64(len(p.Problems)) })),

		gauge("files_failing", "Files that are not as they should be.", always(func(r reading) float64 { return float64(len(r.Files)) })),
	}
}
