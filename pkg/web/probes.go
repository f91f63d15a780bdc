package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/status"
)

// probeTroubles returns what probes found wrong: first with this node, then with
// peers.
func (r reading) probeTroubles() (all []string) {
	p := r.Probes
	if p == nil {
		return nil
	}
	all = slices.Clone(p.Problems)
	if n := failing(p); n > 0 {
		text := "fail for " + page.Count(n, "peer")
		if len(p.Examples) > 0 {
			text += pick(n == 1, ", ", ", first ") + p.Examples[0].What + ": " + p.Examples[0].Why
		}
		all = append(all, text)
	}
	return all
}

// failing returns the number of peers whose last probes failed.
func failing(p *status.Probes) (n int) {
	for _, of := range p.Failing {
		n += of
	}
	return n
}

func (r reading) probeFacts() page.Section {
	s := page.Section{Name: "Probes"}
	p := r.Probes
	if p == nil {
		s.Add("", "disabled")
		return s
	}
	s.Add("peers probed", pick(p.Known == 0, "none yet", page.Grouped(p.Known)))
	if n := failing(p); n > 0 {
		s.Class = "warn"
		s.Add("failing", byCause(p.Failing))
	}
	if p.Passed > 0 {
		s.Add("mean round trip", millis(p.MeanMillis))
		if most, ok := latency99(p); ok {
			s.Add("99% within", strconv.FormatFloat(most, 'f', -1, 64)+" ms")
		}
	}
	s.Add("passed", page.Grouped(int(p.Passed)))
	s.Add("failed", cmp.Or(byCause(p.Failed), "none"))
	for _, text := range p.Problems[:min(mostList, len(p.Problems))] {
		s.Class = "warn"
		s.Add("problem", text)
	}
	return s
}

// byCause lists counts by cause, the largest first.
func byCause[N int | uint64](counts map[string]N) (text string) {
	causes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for _, c := range causes {
		if n := counts[c]; n > 0 {
			text += pick(text == "", "", ", ") + page.Grouped(int(n)) + " " + c
		}
	}
	return text
}

// latency99 returns the bound that 99 of 100 round trips stay below, if it is known.
func latency99(p *status.Probes) (most float64, ok bool) {
	for _, t := range p.Took {
		if t.Count >= p.Passed-p.Passed/100 {
			return t.Millis, true
		}
	}
	return 0, false
}

// millis formats a time in milliseconds with at most three significant digits.
func millis(ms float64) string {
	digits := 2
	if ms >= 10 {
		digits = 1
	}
	if ms >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(ms, 'f', digits, 64) + " ms"
}

// took returns a peer's last round trip in milliseconds, or 0.
func took(p status.Peer) float64 {
	if p.Probes == nil {
		return 0
	}
	return p.Probes.Millis
}

// shade is a peer's round trip as the picture shows it.
type shade int

// shadeMost are the upper bounds of the shades, in milliseconds. There are two more
// shades: the first is for unknown round trips, the last for longer ones.
var shadeMost = [...]float64{1, 10, 100}

const shades = shade(len(shadeMost) + 2)

func shadeOf(ms float64) shade {
	if ms <= 0 {
		return 0
	}
	at, _ := slices.BinarySearch(shadeMost[:], ms)
	return shade(1 + at)
}

// Class returns the shade's class in the style sheet.
func (s shade) Class() string { return "good s" + strconv.Itoa(int(s)) }

// String returns the shade's name for people.
func (s shade) String() string {
	switch s {
	case 0:
		return "unknown"
	case shades - 1:
		return "over " + strconv.FormatFloat(shadeMost[len(shadeMost)-1], 'f', -1, 64) + " ms"
	}
	return "up to " + strconv.FormatFloat(shadeMost[s-1], 'f', -1, 64) + " ms"
}
