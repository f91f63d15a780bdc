package iptables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/firewall/nft"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// BenchmarkSync measures a check that finds nothing to write, beside 5,000 foreign
// rules.
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

// crowd adds count foreign rules, in a chain that every packet passes.
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

// BenchmarkPoll measures the cost of one poll of both families' legacy tables, beside
// foreign rules: how long it takes, and how much processor time, including that of
// the commands.
func BenchmarkPoll(b *testing.B) {
	forwards := everything()
	forwards.Masquerade = subnet.Pair[bool]{}
	for _, n := range []int{0, 100, 5000, 50000} {
		for _, c := range []struct {
			name string
			r    firewall.Rules
		}{{"forward", forwards}, {"forward and masquerade", everything()}} {
			b.Run(fmt.Sprintf("others=%d/%s", n, c.name), func(b *testing.B) {
				h := newHost(b)
				for _, base := range bases {
					if out, err := h.command(base+"-legacy", "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
						b.Fatalf("%v: %s", err, out)
					}
				}
				h.crowd(b, Legacy, n)
				tables := h.tables(b, Legacy)
				sync(b, h, tables, c.r, true)
				tables.options.Command = nil // ip netns exec does not belong to the cost
				h.enter(b)
				before := processorTime(b)
				for b.Loop() {
					if changed, err := tables.Sync(b.Context(), c.r); changed || err != nil {
						b.Fatal(changed, err)
					}
				}
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// enter moves the benchmark's goroutine into the host's namespace, and with it the
// commands that it starts.
func (h *host) enter(b *testing.B) {
	b.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	ns, err := os.Open(h.Path)
	if err != nil {
		b.Fatal(err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		b.Fatal(err)
	}
}

// processorTime returns the processor time of this process and of the commands that
// ended.
func processorTime(b *testing.B) (used time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			b.Fatal(err)
		}
		used += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return used
}

// resync is the default of --iptables-resync.
const resync = 5 * time.Second

// keep runs a keeper of the rules in one kind of tables, until end is called.
func (h *host) keep(b *testing.B, v Variant, r firewall.Rules) (end func()) {
	b.Helper()
	k := v.Kind
	part := firewall.Part{Name: string(k), Engine: New(v, h.Options), Wants: func(r firewall.Rules) firewall.Rules { return r }}
	switch k {
	case NFT:
		part.Watch = nft.Open(h.Path).WatchIPTables
	case Legacy:
		part.Every = resync
	}
	keeper := firewall.NewKeeper(func(context.Context, subnet.Choice) ([]firewall.Part, error) { return []firewall.Part{part}, nil }, budget.New().Account(budget.FirewallLimit, budget.Elapsed), func() {})
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

// BenchmarkHeal measures the time until a foreign change of our rules is undone, from
// the end of the command that made it. Legacy tables are polled, so there the command
// runs at any time between two polls.
func BenchmarkHeal(b *testing.B) {
	const legacy, nf, many = "legacy ", "nft ", " beside 5000"
	for _, c := range []struct {
		name  string
		on    []string // which tables, and beside what
		table string
		do    string
	}{
		{"rule deleted", []string{legacy, legacy + many, nf, nf + many}, "filter", "-D TULLE-FWD 1"},
		{"chain flushed", []string{legacy, nf}, "nat", "-F TULLE-POSTRTG"},
		{"chain deleted", []string{legacy, nf}, "nat", "-F POSTROUTING\n-F TULLE-POSTRTG\n-X TULLE-POSTRTG"},
		{"rules in another order", []string{legacy, nf}, "nat",
			"-D TULLE-POSTRTG 2\n-A TULLE-POSTRTG -s 10.244.0.0/16 -d 10.244.0.0/16 -j RETURN"},
		{"jump behind a drop", []string{legacy, legacy + many, nf, nf + many}, "filter",
			"-D FORWARD -m comment --comment tulle -j TULLE-FWD\n-A FORWARD -m comment --comment tulle -j TULLE-FWD"},
	} {
		for _, on := range c.on {
			b.Run(c.name+"/"+strings.TrimSpace(on), func(b *testing.B) {
				k, others, phase := Legacy, 0, resync
				if strings.HasPrefix(on, nf) {
					k, phase = NFT, 0
				}
				if strings.Contains(on, many) {
					others = 5000
				}
				h := newHost(b)
				h.crowd(b, k, others)
				h.sh(b, k, "-A FORWARD -i eth7 -j DROP\n -A FORWARD -j DROP")
				v := h.variant(b, k)
				h.keep(b, v, everything())()
				back, end := h.observe(b, k, c.table)
				defer end()
				var took []time.Duration
				for b.Loop() {
					b.StopTimer()
					end := h.keep(b, v, everything()) // a keeper without repairs behind it, whose budget is full
					settled := time.Second + time.Duration(others)*time.Millisecond/2
					kerneltest.Eventually(b, time.Minute, after(time.Now().Add(settled+rand.N(phase+1))))
					hurt := h.command("iptables-"+string(k)+"-restore", "--noflush")
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

// observe reads an IPv4 table, and returns a function that waits until the table is
// the same again and returns when that was. It takes little processor time from the
// keeper.
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
	return func() time.Time {
		next := time.Time{}
		kerneltest.Eventually(b, 2*time.Minute, func() error {
			if err := after(next)(); err != nil {
				return err
			}
			next = time.Now().Add(50 * time.Millisecond)
			return same()
		})
		return time.Now()
	}, func() {}
}

// table returns what iptables-save shows of an IPv4 table.
func (h *host) table(t testing.TB, k Kind, name string) string {
	t.Helper()
	out, err := h.command("iptables-"+string(k)+"-save", "-t", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return counters.ReplaceAllString(dates.ReplaceAllString(string(out), ""), "[0:0]")
}

// after returns an error until a time has come.
func after(at time.Time) func() error {
	return func() error {
		if time.Now().Before(at) {
			return fmt.Errorf("not yet")
		}
		return nil
	}
}
