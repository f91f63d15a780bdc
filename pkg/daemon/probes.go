package daemon

import (
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/probe"
)

// newProber finds out whether packets reach the peers; it is nil if that is not
// wanted.
func newProber(o options.Probes) *probe.Prober {
	if o.Interval == 0 {
		return nil
	}
	return &probe.Prober{Interval: o.Interval, Echoer: probe.SystemEchoer{Port: o.Port}}
}

// newResponder answers the probes of others; it is nil if that is not wanted.
func newResponder(o options.Probes) *probe.Responder {
	if o.Interval == 0 {
		return nil
	}
	return &probe.Responder{Port: o.Port}
}
