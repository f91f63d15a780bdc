package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/controller"
)

// processMetrics returns the metrics of the replica and of its writes.
func processMetrics() []metric {
	return []metric{
		many(prometheus.GaugeValue, "build_info", "Always 1; the labels hold the versions of tulle-controller and of Go.",
			func(r reading, emit func(float64, ...string)) { emit(1, r.version, runtime.Version()) }, "version", "goversion"),
		one("start_time_seconds", "Unix time of the program's start, in seconds.", func(r reading) float64 { return unixTime(r.started) }),
		one("healthy", "1 while the main loop answers, as on /healthz.", func(r reading) float64 { return number(!r.stuck) }),
		one("ready", "1 while this replica can lead, as on /readyz.", func(r reading) float64 { return number(r.ready()) }),
		many(prometheus.GaugeValue, "ready_check", "1 while this check of /readyz holds.", func(r reading, emit func(float64, ...string)) {
			for _, c := range r.checks() {
				emit(number(c.OK), c.Name)
			}
		}, "check"),
		many(prometheus.GaugeValue, "follow_failing", "1 while a resource of the API server, or instances of a cloud, cannot be read.", func(r reading, emit func(float64, ...string)) {
			for _, f := range r.state.Feeds {
				emit(number(f.Problem != ""), f.What)
			}
		}, "resource"),
		fromLoop("leader", "1 while this replica leads.", func(r reading) float64 { return number(r.state.Leading) }),
		many(prometheus.GaugeValue, "leader_transitions", "Changes of the leader, as the Lease counts them.", func(r reading, emit func(float64, ...string)) {
			if r.elects && r.leader.Leader != "" {
				emit(float64(r.leader.Transitions))
			}
		}),
		fromLoop("observing", "1 in the mode observe, in which nothing is written.", func(r reading) float64 { return number(r.state.Mode == controller.ObserveMode) }),

		fromLoop("writes_in_flight", "Writes to the API server and to a cloud that are in flight.", func(r reading) float64 { return float64(r.state.InFlight) }),
		fromLoop("writes_paused", "1 while no write begins because the API server fails or asks for it.", func(r reading) float64 { return number(!r.state.Paused.IsZero()) }),
		many(prometheus.CounterValue, "writes_total", "Writes to the API server and to a cloud, by outcome: written, refused by a final answer, failed without one, begun by the cloud and not ended, throttled (not made) by the request rate of a cloud.", func(r reading, emit func(float64, ...string)) {
			for c, n := range r.state.Counts {
				emit(float64(n), c.Controller, c.Verb, string(c.Outcome))
			}
		}, "controller", "verb", "outcome"),
		many(prometheus.GaugeValue, "writes_planned", "Writes that the mode observe would make.", func(r reading, emit func(float64, ...string)) {
			for name, writes := range r.state.Planned {
				emit(float64(len(writes)), name)
			}
		}, "controller"),
		many(prometheus.CounterValue, "events_total", "Events for people, by outcome: sent, failed, suppressed beyond the limit.", func(r reading, emit func(float64, ...string)) {
			if e := r.state.Events; !r.stuck {
				emit(float64(e.Sent), "sent")
				emit(float64(e.Failed), "failed")
				emit(float64(e.Suppressed), "suppressed")
			}
		}, "outcome"),

		many(prometheus.CounterValue, "cloud_calls_total", "Requests to a cloud's API by action and outcome: ok, or the kind of the failure; missing without a cloud.", func(r reading, emit func(float64, ...string)) {
			for c, n := range r.calls {
				emit(float64(n), c.Action, c.Outcome)
			}
		}, "action", "outcome"),
	}
}
