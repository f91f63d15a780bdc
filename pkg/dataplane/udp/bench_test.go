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

func BenchmarkTraffic(t *testing.B) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	t.Logf("one stream: %.2f Gbit/s", traffictest.TCP(t, a.pod, b.pod, b.podIP(), 1, 3*time.Second)/1e9)
	t.Logf("eight streams: %.2f Gbit/s", traffictest.TCP(t, a.pod, b.pod, b.podIP(), 8, 3*time.Second)/1e9)
	for _, rate := range []int{100000, 150000, 200000, 250000} {
		r, lost := traffictest.UDP(t, a.pod, b.pod, b.podIP(), rate, 3*time.Second)
		t.Logf("small: %.0f a second, %.4f %% lost", r, lost*100)
	}
	t.Logf("%+v %+v", a.counts(), b.counts())
}
