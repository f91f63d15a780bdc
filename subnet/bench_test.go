package subnet

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// cluster returns n leases in p that do not overlap, with values like those of real
// nodes.
func cluster(b testing.TB, p Pool, n int) []Lease {
	b.Helper()
	f := FamilyOf(p.Min)
	leases := make([]Lease, n)
	for i := range leases {
		// Scattered and out of order, as in a real store.
		at := uint64(i) * 7919 % min(p.Count(), 1<<40)
		leases[i].Subnets[f] = p.Subnet(at)
		leases[i].PublicIP[IPv4] = netip.AddrFrom4([4]byte{172, byte(16 + i>>16), byte(i >> 8), byte(i)})
		leases[i].BackendType = "vxlan"
		leases[i].BackendData[f] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"02:00:00:%02x:%02x:%02x"}`, byte(i>>16), byte(i>>8), byte(i))
		leases[i].Node = Node{ID: fmt.Sprintf("%032x", i), Name: fmt.Sprintf("node-%05d", i), MTU: 1450}
		leases[i].Expires = time.Unix(1, 0)
		leases[i].Created = int64(i + 1)
		leases[i].Revision = int64(i + 1)
	}
	return leases
}

// BenchmarkAllocate measures how long it takes to find a free subnet.
func BenchmarkAllocate(b *testing.B) {
	million := pool("10.0.0.0/8", 28, "10.0.0.16", "10.255.255.240")
	dense := pool("10.0.0.0/8", 24, "10.0.1.0", "10.255.255.0")
	small := pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")
	ipv6 := pool("fd00::/8", 64, "fd00:0:0:1::", "fdff:ffff:ffff:ffff::")
	for _, c := range []struct {
		name   string
		cfg    Config
		leases int
	}{
		{"254_of_255", config(small), 254},
		{"50000_of_65535", config(dense), 50000},
		{"65534_of_65535", config(dense), 65534},
		{"50000_of_1048575", config(million), 50000},
		{"50000_of_2^56", config(ipv6), 50000},
		{"50000_of_both", config(dense, ipv6), 50000},
	} {
		b.Run(c.name, func(b *testing.B) {
			var leases []Lease
			for _, p := range c.cfg.Pools {
				if !p.IsValid() {
					continue
				}
				of := cluster(b, p, c.leases)
				for i := range leases {
					of[i].Subnets[IPv4] = leases[i].Subnets[IPv4]
				}
				leases = of
			}
			claim := claimOf("8f3c4d5e6f708192a3b4c5d6e7f80912")
			b.ReportAllocs()
			for b.Loop() {
				first(b, c.cfg, leases, claim)
			}
			b.ReportMetric(float64(c.cfg.Pools[IPv4].Count()), "subnets")
		})
	}
}

// BenchmarkTable measures updates of a table with many leases.
func BenchmarkTable(b *testing.B) {
	cfg := config(pool("10.0.0.0/8", 24, "10.0.1.0", "10.255.255.0"))
	own := Lease{Subnets: subnets("10.0.0.0/24"), Attrs: Attrs{PublicIP: addresses("192.0.2.1"), BackendType: "vxlan"}}
	leases := cluster(b, cfg.Pools[IPv4], 50001)
	last, leases := leases[50000], leases[:50000]
	b.Run("first_list_of_50000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if c := NewTable(cfg, own).Apply(Update{Complete: true, Leases: leases}); len(c.Set) != 50000 {
				b.Fatal(len(c.Set), len(c.Rejected))
			}
		}
	})
	b.Run("same_list_of_50000", func(b *testing.B) {
		table := NewTable(cfg, own)
		table.Apply(Update{Complete: true, Leases: leases})
		b.ReportAllocs()
		for b.Loop() {
			if c := table.Apply(Update{Complete: true, Leases: leases}); len(c.Set)+len(c.Drop) != 0 {
				b.Fatal(c)
			}
		}
	})
	b.Run("one_more_and_gone_of_50000", func(b *testing.B) {
		table := NewTable(cfg, own)
		table.Apply(Update{Complete: true, Leases: leases})
		b.ReportAllocs()
		for b.Loop() {
			if c := table.Apply(Update{Leases: []Lease{last}}); len(c.Set) != 1 {
				b.Fatal(c)
			}
			table.Apply(Update{Gone: []string{last.Key()}})
			table.DropLingering() // drops what began to linger in the previous round
			if c := table.DropLingering(); len(c.Drop) != 1 {
				b.Fatal(c)
			}
		}
	})
	b.Run("a_half_and_gone_of_50000", func(b *testing.B) {
		// The costliest change: one lease that displaces 25,000.
		table := NewTable(cfg, own)
		table.Apply(Update{Complete: true, Leases: leases})
		giant := last
		giant.Subnets, giant.Created = subnets("10.128.0.0/9"), 0
		b.ReportAllocs()
		for b.Loop() {
			down := table.Apply(Update{Leases: []Lease{giant}})
			up := table.Apply(Update{Gone: []string{giant.Key()}})
			if len(down.Drop) < 20000 || len(up.Set) != len(down.Drop) {
				b.Fatal(len(down.Drop), len(up.Set))
			}
		}
	})
}
