package nft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func newBenchHost(b *testing.B, others int) *host {
	ns := kerneltest.NewNS(b, "masq")
	h := &host{Open(ns.Path), b, ns}
	h.iptables()
	if others > 0 {
		h.crowd(others)
	}
	return h
}

// BenchmarkSync measures the cost of a look, alone and beside 5,000 foreign rules.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{0, 5000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			h := newBenchHost(b, n)
			h.sync(dual())
			for b.Loop() {
				if h.sync(dual()) {
					b.Fatal("written again")
				}
			}
		})
	}
}

// BenchmarkHeal measures how long our table is gone when another program has deleted
// it, and an accept in FORWARD.
func BenchmarkHeal(b *testing.B) {
	for _, n := range []int{0, 5000} {
		for _, what := range []string{"table", "accept"} {
			b.Run(fmt.Sprintf("others=%d/%s", n, what), func(b *testing.B) {
				h := newBenchHost(b, n)
				h.keep(dual())
				var took []time.Duration
				for b.Loop() {
					b.StopTimer()
					var hurt batch
					if what == "table" {
						hurt.add(unix.NFPROTO_INET, unix.NFT_MSG_DELTABLE, 0, inTable(tableName))
					} else {
						hurt.add(unix.NFPROTO_IPV4, unix.NFT_MSG_DELRULE, 0, append(inChain(filterTable, forwardChain), handle(h.first())...))
					}
					if err := Open(h.namespace).commit(hurt); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					began := time.Now()
					kerneltest.Eventually(b, 10*time.Second, h.whole)
					took = append(took, time.Since(began))
					b.StopTimer()
					kerneltest.Eventually(b, time.Minute, h.forgiven(time.Now().Add(1500*time.Millisecond)))
					b.StartTimer()
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
				b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-most")
			})
		}
	}
}

// first returns the handle of the first of our accepts.
func (h *host) first() []byte {
	c, err := dial(h.namespace, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	all, err := c.rules(unix.NFPROTO_IPV4, filterTable, forwardChain)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range all {
		if r.comment == remark {
			return r.handle
		}
	}
	h.t.Fatal("there is none")
	return nil
}

// whole returns an error that says what is missing of ours.
func (h *host) whole() error {
	c, err := dial(h.namespace, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	table, err := c.get(unix.NFPROTO_INET, unix.NFT_MSG_GETTABLE, inTable(tableName))
	if err != nil || table == nil {
		return fmt.Errorf("no table: %w", err)
	}
	all, err := c.rules(unix.NFPROTO_IPV4, filterTable, forwardChain)
	if err != nil {
		return err
	}
	ours := 0
	for _, r := range all {
		if r.comment == remark {
			ours++
		}
	}
	if ours != 2 {
		return fmt.Errorf("%d accepts", ours)
	}
	return nil
}

// forgiven waits until a time: a keeper that is undone too often delays its repairs.
func (h *host) forgiven(at time.Time) func() error {
	return func() error {
		if time.Now().Before(at) {
			return fmt.Errorf("not yet")
		}
		return nil
	}
}
