package snapshot

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// large is a network of n peers.
func large(b *testing.B, n int) Snapshot {
	b.Helper()
	s := small(b)
	s.Config = config(b, `{"Network":"10.0.0.0/8"}`)
	s.Own = s.Peers[0]
	peer := s.Peers[0]
	s.Peers = make([]subnet.Lease, n)
	for i := range s.Peers {
		peer.Subnets[subnet.IPv4] = s.Config.Pools[subnet.IPv4].Subnet(uint64(i))
		peer.PublicIP[subnet.IPv4] = netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
		peer.BackendData[subnet.IPv4] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"3a:00:00:00:%02x:%02x"}`, byte(i>>8), byte(i))
		peer.Node = subnet.Node{ID: fmt.Sprintf("%032x", i), Name: fmt.Sprintf("node-%d", i), MTU: 1450}
		peer.Created = int64(i)
		s.Peers[i] = peer
	}
	return s
}

// BenchmarkSave measures a save of a large network.
func BenchmarkSave(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, dir := large(b, n), b.TempDir()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Save(dir, s.Head, slices.Values(s.Peers)); err != nil {
					b.Fatal(err)
				}
			}
			if info, err := os.Stat(filepath.Join(dir, "snapshot")); err == nil {
				b.SetBytes(info.Size())
			}
		})
	}
}

// BenchmarkLoad measures a load of a large network.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, dir := large(b, n), b.TempDir()
			save(b, dir, s)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(dir, source); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
