package main

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// metricsHandler serves the program's state as metrics, from a registry of its own.
func metricsHandler(read func(context.Context) reading) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{read, table()}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads the program's state when it is scraped.
type collector struct {
	read    func(context.Context) reading
	metrics []metric
}

// metric is one row of the table, with the function that reads it. It emits nothing
// while the value is unknown.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(r reading, emit func(value float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		to <- m.desc
	}
	to <- writeSeconds
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	r := c.read(context.Background())
	for _, m := range c.metrics {
		m.read(r, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
		})
	}
	if took := r.state.Took; !r.stuck {
		to <- prometheus.MustNewConstHistogram(writeSeconds, uint64(took.Count), took.Sum, took.Buckets())
	}
}

// prefixed begins the names of metrics.
const prefixed = "tulle_controller_"

var writeSeconds = prometheus.NewDesc(prefixed+"write_duration_seconds", "Duration of writes to the API server and to a cloud, in seconds.", nil, nil)

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unixTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// table returns every metric but the histogram.
func table() []metric {
	many := func(kind prometheus.ValueType, name, help string, read func(reading, func(float64, ...string)), labels ...string) metric {
		return metric{prometheus.NewDesc(prefixed+name, help, labels, nil), kind, read}
	}
	one := func(name, help string, read func(reading) float64) metric {
		return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) { emit(read(r)) })
	}
	// fromLoop is known while the loop answers.
	fromLoop := func(name, help string, read func(reading) float64) metric {
		return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) {
			if !r.stuck {
				emit(read(r))
			}
		})
	}
	// ofIPAM is known while the loop answers, if node IPAM runs.
	ofIPAM := func(name, help string, read func(reading) float64) metric {
		return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) {
			if !r.stuck && r.hasIPAM {
				emit(read(r))
			}
		})
	}
	pools := func(name, help string, read func(ipam.PoolUsage, func(float64, ...string)), labels ...string) metric {
		return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) {
			for _, u := range r.ipam.Pools {
				read(u, func(value float64, more ...string) {
					emit(value, append([]string{u.Pool, u.Family.String()}, more...)...)
				})
			}
		}, append([]string{"pool", "family"}, labels...)...)
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	return slices.Concat(routeMetrics(many), serviceMetrics(many), []metric{
		many(gauge, "build_info", "Always 1; the labels hold the versions of tulle-controller and of Go.",
			func(r reading, emit func(float64, ...string)) { emit(1, r.version, runtime.Version()) }, "version", "goversion"),
		one("start_time_seconds", "Unix time of the program's start, in seconds.", func(r reading) float64 { return unixTime(r.started) }),
		one("healthy", "1 while the main loop answers, as on /healthz.", func(r reading) float64 { return number(!r.stuck) }),
		one("ready", "1 while this replica can lead, as on /readyz.", func(r reading) float64 { return number(r.ready()) }),
		many(gauge, "ready_check", "1 while this check of /readyz holds.", func(r reading, emit func(float64, ...string)) {
			for _, c := range r.checks() {
				emit(number(c.OK), c.Name)
			}
		}, "check"),
		many(gauge, "follow_failing", "1 while a resource of the API server, or instances of a cloud, cannot be read.", func(r reading, emit func(float64, ...string)) {
			for _, f := range r.state.Feeds {
				emit(number(f.Problem != ""), f.What)
			}
		}, "resource"),
		fromLoop("leader", "1 while this replica leads.", func(r reading) float64 { return number(r.state.Leading) }),
		many(gauge, "leader_transitions", "Changes of the leader, as the Lease counts them.", func(r reading, emit func(float64, ...string)) {
			if r.elects && r.leader.Leader != "" {
				emit(float64(r.leader.Transitions))
			}
		}),
		fromLoop("observing", "1 in the mode observe, in which nothing is written.", func(r reading) float64 { return number(r.state.Mode == controller.ObserveMode) }),

		fromLoop("writes_in_flight", "Writes to the API server and to a cloud that are in flight.", func(r reading) float64 { return float64(r.state.InFlight) }),
		fromLoop("writes_paused", "1 while no write begins because the API server fails or asks for it.", func(r reading) float64 { return number(!r.state.Paused.IsZero()) }),
		many(counter, "writes_total", "Writes to the API server and to a cloud, by outcome: written, refused by a final answer, failed without one, begun by the cloud and not ended, throttled (not made) by the request rate of a cloud.", func(r reading, emit func(float64, ...string)) {
			for c, n := range r.state.Counts {
				emit(float64(n), c.Controller, c.Verb, string(c.Outcome))
			}
		}, "controller", "verb", "outcome"),
		many(gauge, "writes_planned", "Writes that the mode observe would make.", func(r reading, emit func(float64, ...string)) {
			for name, writes := range r.state.Planned {
				emit(float64(len(writes)), name)
			}
		}, "controller"),
		many(counter, "events_total", "Events for people, by outcome: sent, failed, suppressed beyond the limit.", func(r reading, emit func(float64, ...string)) {
			if e := r.state.Events; !r.stuck {
				emit(float64(e.Sent), "sent")
				emit(float64(e.Failed), "failed")
				emit(float64(e.Suppressed), "suppressed")
			}
		}, "outcome"),

		many(counter, "cloud_calls_total", "Requests to a cloud's API by action and outcome: ok, or the kind of the failure; missing without a cloud.", func(r reading, emit func(float64, ...string)) {
			for c, n := range r.calls {
				emit(float64(n), c.Action, c.Outcome)
			}
		}, "action", "outcome"),

		fromLoop("nodes", "Nodes of the cluster.", func(r reading) float64 { return float64(r.nodesInAll()) }),
		ofIPAM("nodes_waiting", "Nodes without podCIDRs that are not being deleted.", func(r reading) float64 { return float64(r.ipam.Waiting) }),
		ofIPAM("nodes_retrying", "Nodes whose write waits for its next try.", func(r reading) float64 { return float64(r.ipam.Retrying) }),
		ofIPAM("nodes_to_fence", "Nodes to fence off from the last leader before podCIDRs are given out.", func(r reading) float64 { return float64(r.ipam.Fences) }),
		many(gauge, "nodes_uninitialized", "Nodes that keep pods off until their instances are known; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.nodes != nil {
				emit(float64(r.nodes.Waiting))
			}
		}),
		many(gauge, "nodes_shut_down", "Nodes with the taint of a stopped instance; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.life != nil {
				emit(float64(r.life.ShutDown))
			}
		}),
		many(gauge, "nodes_gone", "Nodes whose instances are gone, by what their deletion waits for; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.life == nil {
				return
			}
			n := make(map[lifecycle.Why]int)
			for _, g := range r.life.Gone {
				n[g.Why]++
			}
			for _, why := range lifecycle.Reasons {
				emit(float64(n[why]), string(why))
			}
		}, "why"),
		many(gauge, "nodes_deleted_in_hour", "Nodes that were deleted in the last hour while they were not ready; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.life != nil {
				emit(float64(r.life.Deleted))
			}
		}),
		many(gauge, "findings", "Things that are wrong with Nodes, by code.", func(r reading, emit func(float64, ...string)) {
			if r.stuck {
				return
			}
			n := make(map[ipam.Code]int)
			for _, f := range r.findings() {
				n[f.Code]++
			}
			for _, code := range r.codes() {
				emit(float64(n[code]), string(code))
			}
		}, "code"),
		many(gauge, "pool_problems", "Things that are wrong with the pools of a source; missing without any.", func(r reading, emit func(float64, ...string)) {
			n := make(map[string]int)
			for _, p := range r.ipam.Problems {
				n[p.Source]++
			}
			for name, of := range n {
				emit(float64(of), name)
			}
		}, "source"),
		pools("blocks", "Blocks of a pool, by state: used, free, resting, reserved, draining; each counts once.", func(u ipam.PoolUsage, emit func(float64, ...string)) {
			emit(float64(u.Used), "used")
			emit(float64(u.Free), "free")
			emit(float64(u.Resting), "resting")
			emit(float64(u.Reserved), "reserved")
			emit(float64(u.Draining), "draining")
		}, "state"),
		pools("block_bits", "Prefix length of a pool's blocks.", func(u ipam.PoolUsage, emit func(float64, ...string)) { emit(float64(u.Bits)) }),
		pools("largest_free_bits", "Prefix length of a pool's largest free range; missing without one.", func(u ipam.PoolUsage, emit func(float64, ...string)) {
			if u.Largest >= 0 {
				emit(float64(u.Largest))
			}
		}),
		pools("fragmentation_ratio", "Part of a pool's free addresses in holes smaller than a block.", func(u ipam.PoolUsage, emit func(float64, ...string)) { emit(u.Fragmentation) }),
		pools("full_timestamp_seconds", "Unix time at which a pool will be full at its present growth, in seconds; missing if that is not in sight.", func(u ipam.PoolUsage, emit func(float64, ...string)) {
			if !u.Forecast.Full.IsZero() {
				emit(unixTime(u.Forecast.Full))
			}
		}),
	})
}
