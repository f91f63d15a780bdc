package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// nodeMetrics returns the metrics of Nodes, of all controllers.
func nodeMetrics() []metric {
	return []metric{
		fromLoop("nodes", "Nodes of the cluster.", func(r reading) float64 { return float64(r.nodesInAll()) }),
		ofIPAM("nodes_waiting", "Nodes without podCIDRs that are not being deleted.", func(r reading) float64 { return float64(r.ipam.Waiting) }),
		ofIPAM("nodes_retrying", "Nodes whose write waits for its next try.", func(r reading) float64 { return float64(r.ipam.Retrying) }),
		ofIPAM("nodes_to_fence", "Nodes to fence off from the last leader before podCIDRs are given out.", func(r reading) float64 { return float64(r.ipam.Fences) }),
		many(prometheus.GaugeValue, "nodes_uninitialized", "Nodes that keep pods off until their instances are known; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.nodes != nil {
				emit(float64(r.nodes.Waiting))
			}
		}),
		many(prometheus.GaugeValue, "nodes_shut_down", "Nodes with the taint of a stopped instance; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.life != nil {
				emit(float64(r.life.ShutDown))
			}
		}),
		many(prometheus.GaugeValue, "nodes_gone", "Nodes whose instances are gone, by what their deletion waits for; missing without the controller.", func(r reading, emit func(float64, ...string)) {
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
		many(prometheus.GaugeValue, "nodes_deleted_in_hour", "Nodes that were deleted in the last hour while they were not ready; missing without the controller.", func(r reading, emit func(float64, ...string)) {
			if r.life != nil {
				emit(float64(r.life.Deleted))
			}
		}),
		many(prometheus.GaugeValue, "findings", "Things that are wrong with Nodes, by code.", func(r reading, emit func(float64, ...string)) {
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
	}
}
