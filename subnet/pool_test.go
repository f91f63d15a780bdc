package subnet

import (
	"math/big"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// seeded returns a random source, and logs its seed to repeat a failed test.
func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func bigOf(u uint128) *big.Int {
	n := new(big.Int).SetUint64(u.hi)
	return n.Add(n.Lsh(n, 64), new(big.Int).SetUint64(u.lo))
}

func TestUint128AgreesWithBigInt(t *testing.T) {
	rnd := seeded(t)
	modulus := new(big.Int).Lsh(big.NewInt(1), 128)
	for range 20000 {
		// Small numbers as often as large ones.
		a := uint128{rnd.Uint64(), rnd.Uint64()}.shr(uint(rnd.IntN(129)))
		b := uint128{rnd.Uint64(), rnd.Uint64()}.shr(uint(rnd.IntN(129)))
		n := uint(rnd.IntN(129))
		x, y := bigOf(a), bigOf(b)
		for name, c := range map[string]struct {
			got  uint128
			want *big.Int
		}{
			"add":  {a.add(b), new(big.Int).Add(x, y)},
			"sub":  {a.sub(b), new(big.Int).Sub(x, y)},
			"or":   {a.or(b), new(big.Int).Or(x, y)},
			"xor":  {a.xor(b), new(big.Int).Xor(x, y)},
			"shl":  {a.shl(n), new(big.Int).Lsh(x, n)},
			"shr":  {a.shr(n), new(big.Int).Rsh(x, n)},
			"ones": {ones(n), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), n), big.NewInt(1))},
		} {
			if want := c.want.Mod(c.want, modulus); bigOf(c.got).Cmp(want) != 0 {
				t.Fatalf("%s of %v, %v, %d: %v, want %v", name, a, b, n, c.got, want)
			}
		}
		if a.less(b) != (x.Cmp(y) < 0) {
			t.Fatalf("%v and %v are wrongly compared", a, b)
		}
	}
}

func TestPoolNumbersItsSubnets(t *testing.T) {
	for _, c := range []struct {
		pool  Pool
		count uint64
		at    map[uint64]string
	}{
		{pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0"), 255, map[uint64]string{0: "10.5.1.0/24", 254: "10.5.255.0/24"}},
		{pool("10.5.0.0/28", 30, "10.5.0.4", "10.5.0.12"), 3, map[uint64]string{2: "10.5.0.12/30"}},
		{pool("10.0.0.0/8", 28, "10.0.0.16", "10.255.255.240"), 1<<20 - 1, map[uint64]string{1<<20 - 2: "10.255.255.240/28"}},
		{pool("128.0.0.0/2", 30, "128.0.0.0", "191.255.255.252"), 1 << 28, map[uint64]string{1<<28 - 1: "191.255.255.252/30"}},
		{pool("fd00::/8", 64, "fd00::", "fdff:ffff:ffff:ffff::"), 1 << 56, map[uint64]string{0x22_0000_0005: "fd00:22:0:5::/64"}},
		{pool("fd00::/8", 126, "fd00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffc"), maxCount, map[uint64]string{1: "fd00::4/126", maxCount - 1: "fd00::1:ffff:ffff:ffff:fffc/126"}},
		{pool("2000::/2", 65, "2000::", "3fff:ffff:ffff:ffff:8000::"), 1 << 62, map[uint64]string{1<<62 - 1: "3fff:ffff:ffff:ffff:8000::/65"}},
		{Pool{}, 0, nil},
	} {
		if n := c.pool.Count(); n != c.count {
			t.Errorf("%+v has %d subnets, want %d", c.pool, n, c.count)
		}
		for i, text := range c.at {
			want := netip.MustParsePrefix(text)
			if got := c.pool.Subnet(i); got != want || !c.pool.Has(got) {
				t.Errorf("%+v: subnet %d is %v, want %v", c.pool, i, got, want)
			}
			if first, end, ok := c.pool.window().span(want); !ok || first != i || end != i {
				t.Errorf("%+v: %v spans %d to %d, %v", c.pool, want, first, end, ok)
			}
		}
	}
}

func TestPoolHasAndCovers(t *testing.T) {
	p4 := pool("10.5.0.0/16", 24, "10.5.8.0", "10.5.15.0")
	for text, want := range map[string]bool{
		"10.5.8.0/24": true, "10.5.15.0/24": true, "10.5.7.0/24": false, "10.5.16.0/24": false,
		"10.5.8.0/25": false, "10.5.8.0/23": false, "10.5.8.1/24": false, "10.6.8.0/24": false,
		"fd00::/24": false, "::ffff:10.5.8.0/120": false, "::ffff:10.5.8.0/24": false,
	} {
		if got := p4.Has(netip.MustParsePrefix(text)); got != want {
			t.Errorf("Has(%s) = %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"10.5.8.0": true, "10.5.15.255": true, "10.5.7.255": false, "10.5.16.0": false, "10.5.0.1": false,
		"fd00::1": false, "::ffff:10.5.8.1": false, "fe80::1%eth0": false,
	} {
		if got := p4.covers(netip.MustParseAddr(text)); got != want {
			t.Errorf("Covers(%s) = %v", text, got)
		}
	}
	if (Pool{}).Has(netip.Prefix{}) || (Pool{}).covers(netip.Addr{}) || p4.Has(netip.Prefix{}) || p4.covers(netip.Addr{}) {
		t.Error("nothing is something")
	}
}

// TestPoolSpan compares span with a check of each of the pool's subnets.
func TestPoolSpan(t *testing.T) {
	rnd := seeded(t)
	for _, p := range []Pool{
		pool("10.5.0.0/24", 29, "10.5.0.40", "10.5.0.208"),
		pool("fd00::/120", 125, "fd00::28", "fd00::d0"),
	} {
		for range 5000 {
			a := number(p.Network.Addr()).add(uint128{0, uint64(rnd.IntN(512))}).sub(uint128{0, 128}).addr()
			s, err := a.Prefix(a.BitLen() - rnd.IntN(12))
			if err != nil {
				t.Fatal(err)
			}
			first, end, ok := p.window().span(s)
			for i := range p.Count() {
				if touched := p.Subnet(i).Overlaps(s); touched != (ok && first <= i && i <= end) {
					t.Fatalf("%v spans %d to %d (%v); %d is touched: %v", s, first, end, ok, i, touched)
				}
			}
		}
	}
}
