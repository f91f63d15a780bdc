package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/cloudroute"
)

// routeMetrics returns the metrics of the route controller. They are missing without it.
func routeMetrics() []metric {
	tables := func(name, help string, read func(cloudroute.Usage, func(float64))) metric {
		return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) {
			if r.routes == nil {
				return
			}
			for _, u := range r.routes.Tables {
				read(u, func(v float64) { emit(v, u.Table, u.Family.String()) })
			}
		}, "table", "family")
	}
	ofRoutes := func(name, help string, read func(reading) float64) metric {
		return oneIf(func(r reading) bool { return r.routes != nil }, name, help, read)
	}
	return []metric{
		many(prometheus.GaugeValue, "route_nodes", "Nodes by how far their routes are: routed, pending, unknown, or the code of what is wrong.", func(r reading, emit func(float64, ...string)) {
			if r.routes == nil {
				return
			}
			for _, code := range append([]cloudroute.Code{cloudroute.Routed, cloudroute.Pending, cloudroute.Unknown}, cloudroute.Problems...) {
				emit(float64(r.routes.Counts[code]), string(code))
			}
		}, "code"),
		tables("routes_used", "Routes of a table that count against its quota.", func(u cloudroute.Usage, emit func(float64)) { emit(float64(u.Used)) }),
		tables("routes_quota", "Routes that a table may have; missing if that is unknown.", func(u cloudroute.Usage, emit func(float64)) {
			if u.Most > 0 {
				emit(float64(u.Most))
			}
		}),
		tables("routes_waiting", "Routes of Nodes that a table has no room for.", func(u cloudroute.Usage, emit func(float64)) { emit(float64(u.Waiting)) }),
		ofRoutes("routes_owned", "Destinations whose routes are ours, by the ledger.", func(r reading) float64 { return float64(r.routes.Ledger) }),
		ofRoutes("route_tables_read_timestamp_seconds", "Unix time at which all route tables were read last, in seconds; 0 before the first time.", func(r reading) float64 {
			if r.routes.Read.IsZero() {
				return 0
			}
			return unixTime(r.routes.Read)
		}),
	}
}
