package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	return slices.Concat(routeMetrics(), serviceMetrics(), networkMetrics(), processMetrics(), nodeMetrics(), poolMetrics())
}

// many returns a metric with a value for each combination of labels.
func many(kind prometheus.ValueType, name, help string, read func(reading, func(float64, ...string)), labels ...string) metric {
	return metric{prometheus.NewDesc(prefixed+name, help, labels, nil), kind, read}
}

// one returns a gauge with one value.
func one(name, help string, read func(reading) float64) metric {
	return oneIf(func(reading) bool { return true }, name, help, read)
}

// fromLoop returns a gauge that is known while the loop answers.
func fromLoop(name, help string, read func(reading) float64) metric {
	return oneIf(func(r reading) bool { return !r.stuck }, name, help, read)
}

// ofIPAM returns a gauge that is known while the loop answers, if node IPAM runs.
func ofIPAM(name, help string, read func(reading) float64) metric {
	return oneIf(func(r reading) bool { return !r.stuck && r.hasIPAM }, name, help, read)
}

// oneIf returns a gauge with one value, which is missing unless known reports true.
func oneIf(known func(reading) bool, name, help string, read func(reading) float64) metric {
	return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) {
		if known(r) {
			emit(read(r))
		}
	})
}
