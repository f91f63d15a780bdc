package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/ipam"
)

// poolMetrics returns the metrics of the pools of podCIDRs.
func poolMetrics() []metric {
	pools := func(name, help string, read func(ipam.PoolUsage, func(float64, ...string)), labels ...string) metric {
		return many(prometheus.GaugeValue, name, help, func(r reading, emit func(float64, ...string)) {
			for _, u := range r.ipam.Pools {
				read(u, func(value float64, more ...string) {
					emit(value, append([]string{u.Pool, u.Family.String()}, more...)...)
				})
			}
		}, append([]string{"pool", "family"}, labels...)...)
	}
	return []metric{
		many(prometheus.GaugeValue, "pool_problems", "Things that are wrong with the pools of a source; missing without any.", func(r reading, emit func(float64, ...string)) {
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
	}
}
