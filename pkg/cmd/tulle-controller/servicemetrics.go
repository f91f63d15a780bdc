package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/controller/service"
)

// serviceMetrics returns the metrics of the service controller. They are missing without
// it.
func serviceMetrics() []metric {
	gauge := prometheus.GaugeValue
	one := func(name, help string, read func(*service.Report) float64) metric {
		return many(gauge, name, help, func(r reading, emit func(float64, ...string)) {
			if r.services != nil {
				emit(read(r.services))
			}
		})
	}
	return []metric{
		many(gauge, "services", "Services of the type LoadBalancer by how far they are: balanced, pending, invalid, failing, leaving, other (another controller's).", func(r reading, emit func(float64, ...string)) {
			if r.services == nil {
				return
			}
			for _, code := range service.Codes {
				emit(float64(r.services.Counts[code]), string(code))
			}
		}, "code"),
		one("load_balancers", "Load balancers of the cluster in the account.", func(r *service.Report) float64 { return float64(r.Balancers) }),
		many(gauge, "load_balancers_quota", "Load balancers that the account may have in the region; missing if that is unknown.", func(r reading, emit func(float64, ...string)) {
			if r.services != nil && r.services.Quota.Balancers > 0 {
				emit(float64(r.services.Quota.Balancers))
			}
		}),
		one("load_balancers_leftover", "Load balancers of the cluster whose Services do not exist.", func(r *service.Report) float64 { return float64(len(r.Leftovers)) }),
		one("load_balancers_read_timestamp_seconds", "Unix time at which all load balancers were read last, in seconds; 0 before the first time.", func(r *service.Report) float64 {
			if r.Read.IsZero() {
				return 0
			}
			return unixTime(r.Read)
		}),
	}
}
