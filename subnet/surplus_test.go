package subnet

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
)

// Whatever order keys come and go in, all unreadable ones count, once each.
func TestUnreadableKeysAreCounted(t *testing.T) {
	table := NewTable(Config{}, Lease{})
	bad := func(key string) *LeaseError { return &LeaseError{Key: key, Err: ErrKey} }
	want := func(n int) {
		t.Helper()
		if got := table.CountRejected(); got != n {
			t.Errorf("%d rejected, want %d", got, n)
		}
	}
	var all []*LeaseError
	var keys []string
	for i := range 2 * mostDetailed {
		keys = append(keys, fmt.Sprintf("key-%d", i))
		all = append(all, bad(keys[i]))
	}
	table.Apply(Update{Complete: true, Bad: all})
	want(2 * mostDetailed)
	table.Apply(Update{Bad: all}) // written again
	want(2 * mostDetailed)
	long := strings.Repeat("x", longestDetailed+1)
	table.Apply(Update{Bad: []*LeaseError{bad(long)}})
	want(2*mostDetailed + 1)
	table.Apply(Update{Gone: append(keys[:len(keys)/2:len(keys)/2], long)})
	want(mostDetailed)
	table.Apply(Update{Bad: all[:10]})
	want(mostDetailed + 10)
	table.Apply(Update{Complete: true, Bad: all[:3]})
	want(3)
	if got := table.FirstRejected(2); len(got) != 2 || got[0].Key != "key-0" || got[1].Key != "key-1" {
		t.Errorf("the first two: %v", got)
	}
	table.Apply(Update{Complete: true})
	want(0)
}

func surplusConfig(t *testing.T) Config {
	t.Helper()
	cfg, err := ParseConfig([]byte(`{"Network": "10.5.0.0/16"}`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// unfitLeases returns leases outside 10.5.0.0/16, with values as long as a store's may be.
func unfitLeases(n int) (leases []Lease) {
	for i := range n {
		l := Lease{Created: int64(i), Attrs: Attrs{BackendType: "vxlan"}}
		l.Subnets[IPv4] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(16 + i>>8), byte(i)}), 24)
		l.PublicIP[IPv4], l.BackendData[IPv4] = netip.MustParseAddr("192.0.2.1"), strings.Repeat("x", maxValue)
		leases = append(leases, l)
	}
	return leases
}

// TestUnfitLeasesAreCounted: leases outside the network cost little memory, however many
// there are and however they come. Each counts until it goes or becomes another.
func TestUnfitLeasesAreCounted(t *testing.T) {
	const n = 20 * mostDetailed
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	cfg := surplusConfig(t)
	own := Lease{Subnets: Pair[netip.Prefix]{netip.MustParsePrefix("10.5.1.0/24")}, Attrs: Attrs{BackendType: "vxlan"}}
	peer := own
	peer.Subnets[IPv4], peer.PublicIP[IPv4], peer.Created = netip.MustParsePrefix("10.5.2.0/24"), netip.MustParseAddr("192.0.2.2"), n
	for name, apply := range map[string]func(*Table, []Lease){
		"at once": func(table *Table, all []Lease) {
			table.Apply(Update{Complete: true, Leases: append(all, peer)})
		},
		"in portions": func(table *Table, all []Lease) {
			for _, u := range table.Portions(Update{Complete: true, Leases: append(all, peer)}, mostDetailed) {
				table.Apply(u)
			}
		},
		"one by one": func(table *Table, all []Lease) {
			table.Apply(Update{Complete: true, Leases: []Lease{peer}})
			for i := range all {
				table.Apply(Update{Leases: []Lease{all[i]}})
				all[i] = Lease{}
			}
		},
		"twice": func(table *Table, all []Lease) {
			again := append(append([]Lease(nil), all...), peer)
			table.Apply(Update{Complete: true, Leases: append(all, peer)})
			table.Apply(Update{Complete: true, Leases: again})
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable(cfg, own)
			want := func(n int) {
				t.Helper()
				if got := table.CountRejected(); got != n || len(table.Rejected()) > 2*mostDetailed || table.Len() != 1 {
					t.Errorf("%d rejected, want %d; %d of them in detail, %d peers", got, n, len(table.Rejected()), table.Len())
				}
			}
			before := heap()
			apply(table, unfitLeases(n))
			want(n)
			if grown := heap() - before; grown > 4<<20 {
				t.Errorf("they take %d bytes", grown)
			}
			last := unfitLeases(n)[n-1]
			table.Apply(Update{Gone: []string{last.Key()}})
			want(n - 1)
			table.Apply(Update{Bad: []*LeaseError{{last.Key(), ErrValue}}})
			want(n)
			table.Apply(Update{Leases: []Lease{last}})
			want(n)
			if c := table.Reconfigure(cfg, own); c.Relist {
				t.Error("the same config asks for a list")
			}
			other := own
			other.PublicIP[IPv4] = netip.MustParseAddr("192.0.2.77")
			if c := table.Reconfigure(cfg, other); !c.Relist {
				t.Error("a changed node does not ask for a list")
			}
			table.Apply(Update{Complete: true, Leases: []Lease{peer}})
			want(0)
			if c := table.Reconfigure(cfg, own); c.Relist {
				t.Error("a changed node asks for a list, although all is known")
			}
			runtime.KeepAlive(table)
		})
	}
}

// TestOwnLeaseIsNeverUnfit: among any number of unfit leases, the node's own is none.
func TestOwnLeaseIsNeverUnfit(t *testing.T) {
	cfg := surplusConfig(t)
	own := Lease{Subnets: Pair[netip.Prefix]{netip.MustParsePrefix("10.5.1.0/24")}, Attrs: Attrs{BackendType: "vxlan"}}
	table := NewTable(cfg, own)
	table.Apply(Update{Complete: true, Leases: append(unfitLeases(2*mostDetailed), own)})
	if n := table.CountRejected(); n != 2*mostDetailed {
		t.Errorf("%d rejected, want %d", n, 2*mostDetailed)
	}
}

// TestKnowAll: a table that is to list all rejected leases knows each in detail.
func TestKnowAll(t *testing.T) {
	table := NewTable(surplusConfig(t), Lease{Attrs: Attrs{BackendType: "vxlan"}})
	table.KnowAll()
	u := Update{Complete: true, Leases: unfitLeases(2 * mostDetailed)}
	for i := range 2 * mostDetailed {
		u.Bad = append(u.Bad, &LeaseError{Key: fmt.Sprint(strings.Repeat("x", 2*longestDetailed), i), Err: ErrKey})
	}
	table.Apply(u)
	if n := len(table.Rejected()); n != 4*mostDetailed {
		t.Errorf("%d rejected in detail, want %d", n, 4*mostDetailed)
	}
}
