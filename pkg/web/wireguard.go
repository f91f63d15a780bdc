package web

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/status"
)

// wireguardGauge returns a row with one value for each label.
func wireguardGauge(name, help, label string, labels []string, read func(*status.WireGuard) map[string]int) metric {
	return metric{prometheus.NewDesc("tulle_"+name, help, []string{label}, nil), prometheus.GaugeValue,
		func(r reading, emit func(float64, ...string)) {
			if r.WireGuard == nil || r.WireGuard.Problem != "" {
				return
			}
			for _, l := range labels {
				emit(float64(read(r.WireGuard)[l]), l)
			}
		}}
}

// wireguardBytes returns a row with one value for each device. A device that is deleted, as at
// the end of a key's replacement, takes its series along: a sum of devices would go back.
func wireguardBytes(name, help string, read func(status.WireGuardDevice) uint64) metric {
	return metric{prometheus.NewDesc("tulle_"+name, help, []string{"device"}, nil), prometheus.CounterValue,
		func(r reading, emit func(float64, ...string)) {
			if r.WireGuard == nil {
				return
			}
			for _, d := range r.WireGuard.Devices {
				emit(float64(read(d)), d.Device)
			}
		}}
}

// wireguardDropped returns the row of dropped packets. A reason that is unknown now has
// no value.
func wireguardDropped() metric {
	return metric{prometheus.NewDesc("tulle_wireguard_dropped_packets_total", "With the backend wireguard: packets dropped, by reason.", []string{"device", "reason"}, nil), prometheus.CounterValue,
		func(r reading, emit func(float64, ...string)) {
			if r.WireGuard == nil {
				return
			}
			if n, known := r.WireGuard.Dropped[status.DropPastTunnel]; known {
				emit(float64(n), "", status.DropPastTunnel)
			}
			for _, d := range r.WireGuard.Devices {
				for _, reason := range slices.Sorted(maps.Keys(d.Dropped)) {
					emit(float64(d.Dropped[reason]), d.Device, reason)
				}
			}
		}}
}

// wireguardRotation returns the row of the steps of a key's replacement.
func wireguardRotation() metric {
	return metric{prometheus.NewDesc("tulle_wireguard_key_rotation", "With the backend wireguard: 1 for the step that the replacement of the node's key is in, otherwise 0.", []string{"step"}, nil), prometheus.GaugeValue,
		func(r reading, emit func(float64, ...string)) {
			if r.WireGuard == nil {
				return
			}
			for _, step := range status.RotationSteps() {
				emit(boolValue(r.WireGuard.Rotation != nil && r.WireGuard.Rotation.Step == step), step)
			}
		}}
}

// wireguardFacts returns the facts about the encrypted tunnels, if there are any.
func (r reading) wireguardFacts() []page.Section {
	g := r.WireGuard
	if g == nil {
		return nil
	}
	s := page.Section{Name: "WireGuard"}
	s.AddCode("public key", g.PublicKey)
	if g.KeyMade != nil {
		s.Add("key made", g.KeyMade.UTC().Format(time.DateOnly))
	}
	if k := g.Rotation; k != nil {
		s.Add("key being replaced", page.Line(fmt.Sprintf("step %s, waits for %d peers", k.Step, k.WaitCount), page.Longest))
	}
	if g.KeyProblem != "" {
		s.Class = page.Warn
		s.Add("key", page.Line(g.KeyProblem, page.Longest))
	}
	if g.Problem != "" {
		s.Class = page.Warn
		s.Add("problem", page.Line(g.Problem, page.Longest))
		return []page.Section{s}
	}
	for _, age := range status.SessionAges() {
		if n := g.Sessions[age]; n > 0 || age == status.SessionLive {
			s.Add("sessions "+age, page.Grouped(n))
		}
	}
	s.Add("received", status.Bytes(g.Received))
	s.Add("sent", status.Bytes(g.Sent))
	for _, reason := range status.Drops() {
		if n := g.Dropped[reason]; n > 0 {
			s.Add("dropped", fmt.Sprintf("%s %s", page.Grouped(int(n)), reason))
		}
	}
	return []page.Section{s}
}
