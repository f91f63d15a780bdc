package ipam

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// named returns n Nodes without blocks.
func named(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("node-%05d.cluster.example", i), UID: fmt.Sprintf("3f0c4d5e-6f70-4192-a3b4-%012x", i), Created: int64(i)}
	}
	return nodes
}

// have returns the Nodes with the blocks that they were granted.
func have(nodes []Node, grants []Grant) []Node {
	having := make([]Node, len(nodes))
	for i, g := range grants {
		having[i] = nodes[i]
		for _, s := range g.CIDRs {
			having[i].CIDRs = append(having[i].CIDRs, s.String())
		}
	}
	return having
}

func newBook(b testing.TB, pools ...Pool) *Book {
	b.Helper()
	book, err := New(pools)
	if err != nil {
		b.Fatal(err)
	}
	return book
}

var benchPools = []struct {
	name  string
	nodes int
	pool  Pool
}{
	{"65536_of_IPv4", 1 << 16, pool4("a", 24, "10.0.0.0/8")},
	{"65536_of_IPv6", 1 << 16, Pool{Name: "a"}.with6(64, "fd00:5::/48")},
	{"5000_of_both", 5000, pool4("a", 24, "10.0.0.0/8").with6(64, "fd00:5::/48")},
}

// BenchmarkBook measures what a Node costs from its creation until it is shown with
// the blocks that it was granted, one after another.
func BenchmarkBook(b *testing.B) {
	for _, c := range benchPools {
		nodes := named(c.nodes)
		now := time.Unix(1, 0)
		b.Run(c.name+"_one_by_one", func(b *testing.B) {
			b.ReportAllocs()
			defer perNode(b, len(nodes))()
			for b.Loop() {
				book := newBook(b, c.pool)
				for i, n := range nodes {
					book.Set(n, now)
					grants, _ := book.Next(now, 1)
					if len(grants) != 1 {
						b.Fatal("full after", i)
					}
					book.Settle(n.Name, n.UID, Written)
					book.Set(have(nodes[i:i+1], grants)[0], now)
				}
			}
		})
		b.Run(c.name+"_at_once", func(b *testing.B) {
			defer perNode(b, len(nodes))()
			for b.Loop() {
				book := newBook(b, c.pool)
				for _, n := range nodes {
					book.Set(n, now)
				}
				if grants, _ := book.Next(now, len(nodes)); len(grants) != len(nodes) {
					b.Fatal(len(grants))
				}
			}
		})
		b.Run(c.name+"_listed_with_blocks", func(b *testing.B) {
			book := newBook(b, c.pool)
			for _, n := range nodes {
				book.Set(n, now)
			}
			grants, _ := book.Next(now, len(nodes))
			listed := have(nodes, grants)
			b.ResetTimer()
			defer perNode(b, len(nodes))()
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				book := newBook(b, c.pool)
				for _, n := range listed {
					book.Set(n, now)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(nodes)), "B/node")
				runtime.KeepAlive(book)
			}
		})
	}
}

// BenchmarkChurn measures Nodes that come and go while 99 % of a pool is used.
func BenchmarkChurn(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1, 0)
	book := newBook(b, pool4("a", 24, "10.0.0.0/8"))
	nodes := named(1 << 16 * 99 / 100)
	for _, n := range nodes {
		book.Set(n, now)
	}
	for i, n := range have(nodes, must(book.Next(now, len(nodes)))) {
		book.Set(n, now)
		nodes[i] = n
	}
	b.Run("one_gone_and_one_more", func(b *testing.B) {
		count := 1 << 20
		for b.Loop() {
			now = now.Add(time.Second)
			i := rnd.IntN(len(nodes))
			book.Delete(nodes[i].Name, now)
			count++
			n := Node{Name: fmt.Sprint("node-", count), UID: fmt.Sprint(count), Created: int64(count)}
			book.Set(n, now)
			nodes[i] = have([]Node{n}, must(book.Next(now, 1)))[0]
			book.Set(nodes[i], now)
		}
	})
	b.Run("heartbeat", func(b *testing.B) {
		for b.Loop() {
			book.Set(nodes[rnd.IntN(len(nodes))], now)
		}
	})
	b.Run("usage", func(b *testing.B) {
		for b.Loop() {
			book.Usage(now)
		}
	})
}

func must(grants []Grant, _ time.Time) []Grant { return grants }

// perNode reports what a Node costs from here on, in time and in the process's time
// on processors, which other processes do not change.
func perNode(b *testing.B, n int) (report func()) {
	spent := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := spent()
	return func() {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		b.ReportMetric(float64(spent()-start)/float64(b.N)/float64(n), "cpu-ns/node")
	}
}
