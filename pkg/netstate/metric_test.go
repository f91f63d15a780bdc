package netstate_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

// sequential is the nth prefix of a kind that networks hand out in order.
func sequential(base uint32, bits, n int) netip.Prefix {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], base+uint32(n)<<(32-bits))
	return netip.PrefixFrom(netip.AddrFrom4(b), bits)
}

// Routes of one metric form one chain, which the kernel walks for each new
// one, so what counts is the longest, beside the mean that cannot be avoided.
func TestSpreadMetric(t *testing.T) {
	bases := []uint32{10 << 24, 10<<24 | 244<<16, 172<<24 | 16<<16, 100<<24 | 64<<16, 0}
	for _, bits := range []int{16, 20, 22, 24, 26, 28, 30, 32} {
		for _, base := range bases {
			for _, count := range []int{1000, 10_000, 100_000} {
				if count > 1<<bits {
					continue
				}
				t.Run(fmt.Sprintf("%d of size %d at %x", count, bits, base), func(t *testing.T) {
					chains := make(map[uint32]int)
					longest := 0
					for i := range count {
						m := SpreadMetric(sequential(base, bits, i))
						if m < 1 || m > 8192 {
							t.Fatalf("metric %d", m)
						}
						chains[m]++
						longest = max(longest, chains[m])
					}
					// Chance alone gives 5, 9 and 31 at the most probable.
					mean := count / 8192
					if limit := mean + 10 + 2*mean; longest > limit {
						t.Errorf("%d routes on one metric, want at most %d", longest, limit)
					}
				})
			}
		}
	}
}

// The metric is part of a key in the kernel of every node that runs: another
// one after an upgrade would move every route.
func TestSpreadMetricStays(t *testing.T) {
	for s, want := range map[string]uint32{
		"10.244.1.0/24": 1487, "10.244.2.0/24": 6992, "0.0.0.0/0": 1380, "192.168.255.0/26": 5184,
	} {
		if got := SpreadMetric(pfx(s)); got != want {
			t.Errorf("%s has metric %d, want %d", s, got, want)
		}
	}
	if SpreadMetric(pfx("10.0.0.0/24")) == SpreadMetric(pfx("10.0.0.0/25")) {
		t.Error("the length does not count")
	}
}
