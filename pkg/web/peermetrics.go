package web

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tulle-net/tulle/pkg/probe"
)

// peerCollector emits metrics of each peer, with --peer-metrics. The number of series
// grows with the cluster.
type peerCollector struct {
	source                     Source
	inSync, failing, roundTrip *prometheus.Desc
	handshake, received, sent  *prometheus.Desc
}

func newPeerCollector(s Source) *peerCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tulle_peer_"+name, help, append([]string{"node", "lease"}, labels...), nil)
	}
	return &peerCollector{
		s,
		desc("in_sync", "1 while the kernel holds every wanted object of the peer."),
		desc("probe_failing", "1 if the peer's last probes failed for this likely cause.", "cause"),
		desc("probe_round_trip_seconds", "Round-trip time of the peer's last small probe, in seconds."),
		desc("wireguard_handshake_timestamp_seconds", "Unix time of the last WireGuard handshake with the peer, in seconds.", "device"),
		desc("wireguard_received_bytes_total", "Bytes received from the peer on the wire.", "device"),
		desc("wireguard_sent_bytes_total", "Bytes sent to the peer on the wire.", "device"),
	}
}

// Describe implements prometheus.Collector.
func (c *peerCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.inSync
	to <- c.failing
	to <- c.roundTrip
	to <- c.handshake
	to <- c.received
	to <- c.sent
}

// Collect implements prometheus.Collector.
func (c *peerCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	peers, err := c.source.Peers(ctx)
	if err != nil {
		return // tulle_healthy reports a stuck loop
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	for _, p := range peers {
		node := cmp.Or(p.Name, p.Key)
		gauge(c.inSync, boolValue(p.InSync), node, p.Key)
		for _, s := range p.Sessions {
			if s.Handshake != nil {
				gauge(c.handshake, float64(s.Handshake.UnixMicro())/1e6, node, p.Key, s.Device)
			}
			counter(c.received, s.Received, node, p.Key, s.Device)
			counter(c.sent, s.Sent, node, p.Key, s.Device)
		}
		if p.Probes == nil {
			continue
		}
		for _, cause := range probe.Causes() {
			gauge(c.failing, boolValue(p.Probes.Cause == string(cause)), node, p.Key, string(cause))
		}
		if p.Probes.Cause == string(probe.Well) {
			gauge(c.roundTrip, p.Probes.Millis/1000, node, p.Key)
		}
	}
}
