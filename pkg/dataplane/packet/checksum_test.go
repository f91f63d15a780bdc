package packet

import (
	"math/rand/v2"
	"testing"
)

// TestSum compares both ways to add with the definition, for all lengths and starts that
// they treat differently, with all sorts of carries.
func TestSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]func() byte{
		"random": func() byte { return byte(random.Uint32()) },
		"ones":   func() byte { return 0xff },
		"zeros":  func() byte { return 0 },
	}
	for kind, next := range kinds {
		data := make([]byte, maxPacket)
		for i := range data {
			data[i] = next()
		}
		check := func(b []byte) {
			t.Helper()
			for _, total := range []uint64{0, 1, 0xffff, 1<<64 - 1} {
				want := byDefinition(b, total)
				for name, add := range map[string]func([]byte, uint64) uint64{"sum": sum, "sumWords": sumWords} {
					if got := fold(add(b, total)); got != want {
						t.Fatalf("%s of %d bytes that are %s, and %#x: %#04x, want %#04x", name, len(b), kind, total, got, want)
					}
				}
			}
		}
		for size := range 4*blockSize + 2 {
			for start := range 9 {
				check(data[start : start+size])
			}
		}
		check(data)
	}
}

// byDefinition adds 16 bits at a time, with end-around carry.
func byDefinition(b []byte, total uint64) uint16 {
	var s uint32
	add := func(word uint16) {
		s += uint32(word)
		s = s>>16 + s&0xffff
	}
	for i := range 4 {
		add(uint16(total >> (16 * i)))
	}
	for i, v := range b {
		add(uint16(v) << (8 * (i % 2)))
	}
	return uint16(s)
}

// BenchmarkSum adds the payload of a usual packet, with vectors if there are any, and without.
func BenchmarkSum(b *testing.B) {
	data := make([]byte, 1420)
	for name, add := range map[string]func([]byte, uint64) uint64{"sum": sum, "words": sumWords} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				add(data, 0)
			}
		})
	}
}
