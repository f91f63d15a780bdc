package etcd

import (
	"math"
	"testing"
)

func TestWrongCountCostsLittle(t *testing.T) {
	for count, want := range map[int64]int{math.MinInt64: 0, -1: 0, 0: 0, 10_000: 10_000, 50_001: 50_000, math.MaxInt64: 50_000} {
		if is := expected(count); is != want {
			t.Errorf("etcd announces %d keys: memory for %d leases, want %d", count, is, want)
		}
	}
}
