package netstate_test

import (
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

// peers is what n vxlan peers need: three objects each, beside the link.
func peers(n int) []Object {
	out := []Object{vxlan("tulle.1", 1), Addr{"tulle.1", pfx("10.0.0.0/32")}}
	for i := range n {
		dst := sequential(10<<24, 24, i+1)
		hw := MAC{0x3a, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}
		out = append(out,
			Neigh{"tulle.1", dst.Addr(), hw},
			FDB{"tulle.1", hw, false, sequential(172<<24|16<<16, 32, i).Addr()},
			Route{Dst: dst, Via: dst.Addr(), Link: "tulle.1", OnLink: true, Metric: SpreadMetric(dst)})
	}
	return out
}

// BenchmarkDiff measures plans for 10,000 peers, with and without drift.
func BenchmarkDiff(b *testing.B) {
	all := peers(10_000)
	desired := Of(all...)
	drifted := make([]Object, 0, len(all))
	for i, o := range all {
		switch n, isNeigh := o.(Neigh); {
		case isNeigh && i%100 == 2:
			n.MAC = mac(9)
			drifted = append(drifted, n)
		case i%100 != 3:
			drifted = append(drifted, o)
		}
	}
	for _, bench := range []struct {
		name    string
		desired *State
		actual  []Object
	}{
		{"same", desired, all},
		{"drifted", desired, drifted},
		{"cold", desired, nil},
		{"superfluous", Of(all[0]), all},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Diff(bench.desired, bench.actual)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all)), "ns/object")
		})
	}
}

func BenchmarkSpreadMetric(b *testing.B) {
	dst := pfx("10.244.1.0/24")
	for b.Loop() {
		SpreadMetric(dst)
	}
}
