package daemon

import (
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/probe"
)

// newProber returns the prober that checks whether packets reach the peers, or nil if
// probes are off.
func newProber(o options.Probes) *probe.Prober {
	if o.Interval == 0 {
		return nil
	}
	return &probe.Prober{Interval: o.Interval, Echoer: probe.SystemEchoer{Port: o.Port}}
}

// newResponder returns what answers the probes of other nodes, or nil if probes are
// off.
func newResponder(o options.Probes) *probe.Responder {
	if o.Interval == 0 {
		return nil
	}
	return &probe.Responder{Port: o.Port}
}
