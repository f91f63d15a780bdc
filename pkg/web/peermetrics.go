package web

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/probe"
)

// peerCollector tells of each peer, where that is asked for: its series grow with
// the cluster.
type peerCollector struct {
	source                     Source
	inSync, failing, roundTrip *prometheus.Desc
}

func newPeerCollector(s Source) *peerCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tulle_peer_"+name, help, append([]string{"node", "lease"}, labels...), nil)
	}
	return &peerCollector{
		s,
		desc("in_sync", "Whether the kernel holds all that leads to the peer."),
		desc("probe_failing", "Whether the last probes of the peer failed, by likely cause.", "cause"),
		desc("probe_round_trip_seconds", "How long the last small probe of the peer took there and back."),
	}
}

// Describe implements prometheus.Collector.
func (c *peerCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.inSync
	to <- c.failing
	to <- c.roundTrip
}

// Collect implements prometheus.Collector.
func (c *peerCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	peers, err := c.source.Peers(ctx)
	if err != nil {
		return // that the loop is stuck another metric says
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, p := range peers {
		node := cmp.Or(p.Name, p.Key)
		gauge(c.inSync, truth(p.InSync), node, p.Key)
		if p.Probes == nil {
			continue
		}
		for _, cause := range probe.Causes() {
			gauge(c.failing, truth(p.Probes.Cause == string(cause)), node, p.Key, string(cause))
		}
		if p.Probes.Cause == string(probe.Well) {
			gauge(c.roundTrip, p.Probes.Millis/1000, node, p.Key)
		}
	}
}
