package netstate

import (
	"encoding/binary"
	"net/netip"
)

// spreadMetrics is how many metrics large networks' routes are spread over.
const spreadMetrics = 1 << 13

// SpreadMetric returns the metric of the route to dst in a large network, from 1 to
// 8192. The kernel keeps IPv4 next hops in a hash that sees the metric but not
// the gateway, so that routes of one metric through one device form a single
// chain, which each new route walks: 50,000 routes take 45 s to add. Spread
// over the metrics the chains are short.
func SpreadMetric(dst netip.Prefix) uint32 {
	b := dst.Addr().As16()
	h := uint64(dst.Bits())
	for half := range 2 {
		h = mix(h ^ binary.BigEndian.Uint64(b[8*half:]))
	}
	return 1 + uint32(h%spreadMetrics)
}

// mix spreads every bit of h over about half of the bits of the result (it is
// splitmix64's last step). So subnets that lie in a row get metrics far apart.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
