package udp

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// TestTableFindsTheSmallestNetwork compares it with a search of all networks.
func TestTableFindsTheSmallestNetwork(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		peers := make(map[netip.Prefix]netip.AddrPort)
		for i := range random.IntN(40) {
			at := netip.AddrFrom4([4]byte{10, byte(random.IntN(3)), byte(random.IntN(4)), byte(random.IntN(256))})
			host := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 7)}), 8285)
			if i%3 == 0 {
				at = netip.AddrFrom16([16]byte{0xfd, 0, byte(random.IntN(3)), 7: byte(random.IntN(3)), 15: byte(random.IntN(256))})
				host = netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 15: byte(i % 7)}), 8285)
			}
			bits := random.IntN(at.BitLen() + 1)
			prefix, err := at.Prefix(max(bits, 8))
			if err != nil {
				t.Fatal(err)
			}
			peers[prefix] = host
		}
		table := newTable(peers)
		for range 100 {
			ip := netip.AddrFrom4([4]byte{10, byte(random.IntN(4)), byte(random.IntN(5)), byte(random.IntN(256))})
			if random.IntN(3) == 0 {
				ip = netip.AddrFrom16([16]byte{0xfd, 0, byte(random.IntN(4)), 7: byte(random.IntN(4)), 15: byte(random.IntN(256))})
			}
			var want netip.AddrPort
			bits := -1
			for p, at := range peers {
				if p.Contains(ip) && p.Bits() > bits {
					want, bits = at, p.Bits()
				}
			}
			got := table.find(addrOf(ip))
			switch {
			case got == nil && bits >= 0:
				t.Fatalf("%s is in none of %v", ip, peers)
			case got != nil && (bits < 0 || *got != newEndpoint(want)):
				t.Fatalf("%s has another endpoint than %s in %v", ip, want, peers)
			}
		}
		for _, at := range peers {
			if !table.knows(addrOf(at.Addr())) {
				t.Fatalf("%s is unknown", at)
			}
		}
		if table.knows(addrOf(netip.MustParseAddr("192.0.2.99"))) || table.knows(packet.Addr{}) {
			t.Fatal("a stranger is known")
		}
	}
}

// TestNamesOfEndpoints: a received name has the address that a sent one has.
func TestNamesOfEndpoints(t *testing.T) {
	for _, s := range []string{"192.0.2.1:8285", "[2001:db8::1]:1"} {
		at := netip.MustParseAddrPort(s)
		e := newEndpoint(at)
		if got := hostOf(&e.name); got != addrOf(at.Addr()) || e.host != got {
			t.Errorf("%s is %x and %x", s, got, e.host)
		}
	}
}

// TestRoutableAddresses: no packet crosses networks from the others.
func TestRoutableAddresses(t *testing.T) {
	for s, want := range map[string]bool{
		"10.5.0.0": true, "198.18.0.1": true, "223.255.255.255": true, "1.0.0.0": true, "169.254.1.1": true,
		"0.0.0.0": false, "0.255.0.1": false, "127.0.0.1": false, "127.255.255.255": false, "224.0.0.1": false, "255.255.255.255": false,
		"fd00::1": true, "2001:db8::1": true, "64:ff9b::1": true, "feff::1": true,
		"::": false, "::1": false, "::ffff:192.0.2.1": false, "fe80::1": false, "febf::1": false, "ff02::1": false,
	} {
		ip := netip.MustParseAddr(s)
		if got := routable(addrOf(ip), ip.Is6()); got != want {
			t.Errorf("%s: %t", s, got)
		}
	}
}

func TestMulticastAddresses(t *testing.T) {
	for s, want := range map[string]bool{
		"224.0.0.0": true, "239.255.255.255": true, "223.255.255.255": false, "240.0.0.0": false, "255.255.255.255": false,
		"ff00::": true, "ff02::2": true, "feff::1": false, "fe80::1": false,
	} {
		ip := netip.MustParseAddr(s)
		if got := multicast(addrOf(ip), ip.Is6()); got != want {
			t.Errorf("%s: %t", s, got)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	peers := make(map[netip.Prefix]netip.AddrPort)
	for i := range 10000 {
		peers[netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 8285)
	}
	table := newTable(peers)
	for i := 0; b.Loop(); i++ {
		if table.find(packet.Addr{Low: 10<<24 | uint64(i%10000)<<8 | 7}) == nil {
			b.Fatal("it is not there")
		}
	}
}
