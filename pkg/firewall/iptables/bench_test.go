package iptables

import (
	"context"
	"fmt"
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/firewall/nft"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

func BenchmarkSync(b *testing.B) {
	for _, k := range []Kind{Legacy, NFT} {
		b.Run(string(k), func(b *testing.B) {
			h := newHost(b)
			h.crowd(b, k, 5000)
			tables := h.tables(b, k)
			b.Run("nothing to write", func(b *testing.B) {
				sync(b, h, tables, everything(), true)
				for b.Loop() {
					if changed, err := tables.Sync(b.Context(), everything()); changed || err != nil {
						b.Fatal(changed, err)
					}
				}
				if _, err := tables.Sync(b.Context(), firewall.Rules{}); err != nil {
					b.Fatal(err)
				}
			})
			b.Run("all and nothing", func(b *testing.B) {
				for b.Loop() {
					for _, r := range []firewall.Rules{everything(), {}} {
						if changed, err := tables.Sync(b.Context(), r); !changed || err != nil {
							b.Fatal(changed, err)
						}
					}
				}
			})
		})
	}
}

// crowd adds so many rules of others, in a chain that every packet comes through.
func (h *host) crowd(t testing.TB, k Kind, rules int) {
	t.Helper()
	var text strings.Builder
	text.WriteString("*filter\n:SERVICES - [0:0]\n-A FORWARD -j SERVICES\n")
	for i := range rules {
		fmt.Fprintf(&text, "-A SERVICES -s 10.%d.%d.0/24 -p tcp -m comment --comment \"service %d\" -m tcp --dport 80 -j DROP\n", i/256, i%256, i)
	}
	text.WriteString("COMMIT\n")
	load := h.command("iptables-" + string(k) + "-restore")
	load.Stdin = strings.NewReader(text.String())
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// BenchmarkWatch is what it costs to look at legacy tables once, of both families,
// alone and beside others' rules: how large they are, and what is in them.
func BenchmarkWatch(b *testing.B) {
	for _, n := range []int{0, 100, 5000, 50000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			h := newHost(b)
			h.crowd(b, Legacy, n)
			if _, err := h.tables(b, Legacy).Sync(b.Context(), everything()); err != nil {
				b.Fatal(err)
			}
			for _, what := range []string{"sizes", "all"} {
				b.Run(what, func(b *testing.B) {
					w := newWatcher(h.Options)
					defer w.close()
					if err := h.inside(func() error {
						look := func() error {
							_, err := w.look()
							for _, t := range w.known {
								if t.due = time.Now().Add(time.Hour); what == "all" {
									t.due = time.Time{}
								}
							}
							return err
						}
						if err := look(); err != nil { // what is read here for the first time does not count
							return err
						}
						for b.Loop() {
							if err := look(); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				})
			}
		})
	}
}

// keep has a keeper keep rules in tables of a kind until it is told to end.
func (h *host) keep(b *testing.B, v Variant, r firewall.Rules) (end func()) {
	b.Helper()
	k := v.Kind
	part := firewall.Part{Name: string(k), Engine: New(v, h.Options), Wants: func(r firewall.Rules) firewall.Rules { return r }}
	switch k {
	case NFT:
		part.Watch = nft.Open(h.Path).WatchIPTables
	case Legacy:
		part.Watch = func(ctx context.Context, poke func()) error {
			return h.inside(func() error { return OpenLegacy(h.Options).Watch(ctx, poke) })
		}
	}
	keeper := firewall.NewKeeper(func(context.Context, subnet.Choice) ([]firewall.Part, error) { return []firewall.Part{part}, nil }, func() {})
	ctx, cancel := context.WithCancel(context.Background())
	var running gosync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	keeper.Want(r)
	kerneltest.Eventually(b, 10*time.Second, func() error {
		if s := keeper.Status(); !s.Tried || s.Err != nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return func() { cancel(); running.Wait() }
}

// BenchmarkHeal is how long it takes until what others did to our rules is undone,
// from when their command has ended. A program that does not take the lock of
// legacy iptables is heard of in another way.
func BenchmarkHeal(b *testing.B) {
	const legacy, nf, many, unlocked = "legacy ", "nft ", " beside 5000", " without the lock"
	for _, c := range []struct {
		name  string
		on    []string // which tables, and beside what
		table string
		do    string
	}{
		{"rule deleted", []string{legacy, legacy + many, nf, nf + many}, "filter", "-D TULLE-FWD 1"},
		{"chain flushed", []string{legacy, nf}, "nat", "-F TULLE-POSTRTG"},
		{"chain deleted", []string{legacy, nf}, "nat", "-F POSTROUTING\n-F TULLE-POSTRTG\n-X TULLE-POSTRTG"},
		{"rules in another order", []string{legacy, legacy + unlocked, nf}, "nat",
			"-D TULLE-POSTRTG 2\n-A TULLE-POSTRTG -s 10.244.0.0/16 -d 10.244.0.0/16 -j RETURN"},
		{"jump behind a drop", []string{legacy, legacy + unlocked, legacy + many, nf, nf + many}, "filter",
			"-D FORWARD -m comment --comment tulle -j TULLE-FWD\n-A FORWARD -m comment --comment tulle -j TULLE-FWD"},
	} {
		for _, on := range c.on {
			b.Run(c.name+"/"+strings.TrimSpace(on), func(b *testing.B) {
				k, others, lock := Legacy, 0, ""
				if strings.HasPrefix(on, nf) {
					k = NFT
				}
				if strings.Contains(on, many) {
					others = 5000
				}
				if strings.Contains(on, unlocked) {
					lock = "XTABLES_LOCKFILE=$XTABLES_LOCKFILE.other "
				}
				h := newHost(b)
				h.Resync = 5 * time.Second
				h.crowd(b, k, others)
				h.sh(b, k, "-A FORWARD -i eth7 -j DROP\n -A FORWARD -j DROP")
				v := h.variant(b, k)
				h.keep(b, v, everything())()
				back, end := h.observe(b, k, c.table)
				defer end()
				var took []time.Duration
				for b.Loop() {
					b.StopTimer()
					end := h.keep(b, v, everything()) // one that has put nothing right yet, and takes no time over it
					kerneltest.Eventually(b, time.Minute, after(time.Now().Add(time.Second+time.Duration(others)*time.Millisecond/2)))
					hurt := h.command("sh", "-c", lock+"exec iptables-"+string(k)+"-restore --noflush")
					hurt.Stdin = strings.NewReader("*" + c.table + "\n" + c.do + "\nCOMMIT\n")
					b.StartTimer()
					if out, err := hurt.CombinedOutput(); err != nil {
						b.Fatalf("%v: %s", err, out)
					}
					began := time.Now()
					took = append(took, max(0, back().Sub(began)))
					b.StopTimer()
					end()
					b.StartTimer()
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
				b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-most")
			})
		}
	}
}

// observe looks at a table of IPv4 as it is now, and gives a function that waits
// until it is so again, and tells since when. It takes no time of those who put it
// right.
func (h *host) observe(b *testing.B, k Kind, name string) (back func() time.Time, end func()) {
	b.Helper()
	want := h.table(b, k, name)
	same := func() error {
		if now := h.table(b, k, name); now != want {
			return fmt.Errorf("there is\n%s\nand was\n%s", now, want)
		}
		return nil
	}
	if k == NFT {
		changes := make(chan time.Time, 1000)
		ctx, cancel := context.WithCancel(context.Background())
		var watching gosync.WaitGroup
		watching.Go(func() { _ = nft.Open(h.Path).WatchIPTables(ctx, func() { changes <- time.Now() }) })
		return func() (at time.Time) {
			kerneltest.Eventually(b, 20*time.Second, func() error {
				for quiet := false; !quiet; {
					select {
					case at = <-changes:
					case <-time.After(time.Second):
						quiet = true
					}
				}
				return same()
			})
			return at
		}, func() { cancel(); watching.Wait() }
	}
	w := newWatcher(h.Options)
	table := &watched{family: subnet.IPv4, name: name}
	sum := func() (sum uint64) {
		if err := h.inside(func() error {
			_, err := w.look()
			if err != nil {
				return err
			}
			i, err := infoOf(w.sockets[subnet.IPv4], subnet.IPv4, name)
			if err == nil {
				sum, err = w.sum(table, i.size)
			}
			if err == unix.EAGAIN {
				err = nil
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
		return sum
	}
	return func() (at time.Time) {
		last, next := uint64(0), time.Time{}
		kerneltest.Eventually(b, 20*time.Second, func() error {
			another := fmt.Errorf("the %s table is another than it was", name)
			began := time.Now()
			if began.Before(next) {
				return another
			}
			now := sum()
			at, next = time.Now(), time.Now().Add(3*time.Since(began))
			if now == last { // to look at it at length would take time
				return another
			}
			last = now
			return same()
		})
		return at
	}, w.close
}

// table is what iptables-save shows of a table of IPv4.
func (h *host) table(t testing.TB, k Kind, name string) string {
	t.Helper()
	out, err := h.command("iptables-"+string(k)+"-save", "-t", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return counters.ReplaceAllString(dates.ReplaceAllString(string(out), ""), "[0:0]")
}

// after waits until a time.
func after(at time.Time) func() error {
	return func() error {
		if time.Now().Before(at) {
			return fmt.Errorf("not yet")
		}
		return nil
	}
}
