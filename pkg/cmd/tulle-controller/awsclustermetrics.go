package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/controller/awscluster"
)

// networkMetrics returns the metrics of Clusters and their networks. They are missing without
// their controllers.
func networkMetrics() []metric {
	gauge := prometheus.GaugeValue
	return []metric{
		many(gauge, "awsclusters", "AWSClusters by how far their networks are: ready, building, deleting, failing, invalid, waiting, other (another program's).", func(r reading, emit func(float64, ...string)) {
			if r.networks == nil {
				return
			}
			for _, code := range awscluster.Codes {
				emit(float64(r.networks.Counts[code]), string(code))
			}
		}, "code"),
		many(gauge, "awsclusters_foreign_objects", "Objects in the networks of AWSClusters that are not ours, and stay.", func(r reading, emit func(float64, ...string)) {
			if r.networks == nil {
				return
			}
			n := 0
			for _, row := range r.networks.Rows {
				n += row.Foreign
			}
			emit(float64(n))
		}),
		many(gauge, "clusters", "Clusters of Cluster API that this program does the core's part for.", func(r reading, emit func(float64, ...string)) {
			if r.clusters != nil {
				emit(float64(r.clusters.Clusters))
			}
		}),
		many(gauge, "clusters_waiting", "Clusters of Cluster API whose API servers have not answered yet.", func(r reading, emit func(float64, ...string)) {
			if r.clusters != nil {
				emit(float64(r.clusters.Waiting))
			}
		}),
	}
}
