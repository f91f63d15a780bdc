package udp_test

import (
	"testing"
)

func TestPackets(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	a.pod.Ping(t, "", b.podIP(), 1400)
	b.pod.Ping(t, "", a.podIP(), 10)
	t.Logf("%+v %+v", a.counts(), b.counts())
}
