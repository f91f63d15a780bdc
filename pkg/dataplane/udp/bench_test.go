package udp_test

import (
	"os"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/traffictest"
)

func TestMain(m *testing.M) {
	traffictest.Main()
	os.Exit(m.Run())
}

// BenchmarkTraffic sends between containers of two hosts of which one process moves the packets, and
// between the hosts themselves.
func BenchmarkTraffic(t *testing.B) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	for _, streams := range []int{1, 8} {
		bare := traffictest.TCP(t, a.ns, b.ns, b.address().String(), streams, 3*time.Second)
		rate := traffictest.TCP(t, a.pod, b.pod, b.podIP(), streams, 3*time.Second)
		t.Logf("%d streams: %.2f Gbit/s, %.2f of the %.2f between the hosts themselves", streams, rate/1e9, rate/bare, bare/1e9)
	}
	for _, rate := range []int{100000, 150000, 200000, 250000} {
		r, lost := traffictest.UDP(t, a.pod, b.pod, b.podIP(), rate, 3*time.Second)
		t.Logf("small: %.0f a second, %.4f %% lost", r, lost*100)
	}
	t.Logf("%+v %+v", a.counts(), b.counts())
}
