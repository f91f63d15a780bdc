package e2e

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

var (
	healThings = flag.String("heal", "", "measure what is lost while another program keeps changing these things (all, or names with commas between), and print a table")
	healSlow   = flag.Duration("heal-slow", 5*time.Minute, "how long to measure where the other program acts rarely")
)

// healRate is how often a disturber acts, and how long that is measured.
type healRate struct {
	name   string
	every  time.Duration
	before time.Duration // how long it acts before the measurement, until the budget's reserve is spent
	during time.Duration // 0: -heal-slow
	sample time.Duration
}

// The benchmark measures healRates in these groups, each on separate hosts. The groups
// of seldom are measured at the same time, for all things.
var seldom, often = [][]healRate{
	{{"1 a second", time.Second, 0, 20 * time.Second, 5 * time.Millisecond}, {"one in 5 s", 5 * time.Second, 0, 0, 5 * time.Millisecond}},
	{{"10 a second", 100 * time.Millisecond, 3 * time.Second, 20 * time.Second, 5 * time.Millisecond}, {"one in 10 s", 10 * time.Second, 0, 0, 5 * time.Millisecond}},
}, [][]healRate{
	{{"100 a second", 10 * time.Millisecond, 10 * time.Second, 12 * time.Second, time.Millisecond}, {"1,000 a second", time.Millisecond, 10 * time.Second, 12 * time.Second, time.Millisecond}},
}

// healed is a line of the table.
type healed struct {
	thing, rate string
	lost        float64
	longest     time.Duration
	share       float64 // of a core, that the daemon used
	right       time.Duration
	actual      float64 // changes a second
	parts       []float64
}

// TestBenchHeal prints the packet loss while another program changes each thing, for several
// rates of changes. It measures rare changes for a long time, because their cost must not grow.
func TestBenchHeal(t *testing.T) {
	if *healThings == "" {
		return // a benchmark
	}
	program := clustertest.Command{Argv: []string{installed(t)}}
	things := slices.DeleteFunc(disturbances(), func(c disturbance) bool {
		return *healThings != "all" && !slices.Contains(strings.Split(*healThings, ","), c.name)
	})
	var setup, mu sync.Mutex
	var lines []healed
	measure := func(t *testing.T, c disturbance, rates []healRate, ready func()) {
		d, before := benchHosts(t, program, &setup, ready)
		for _, r := range rates {
			line := d.benchHeal(c, r, before)
			mu.Lock()
			lines = append(lines, line)
			mu.Unlock()
		}
	}
	t.Run("seldom", func(t *testing.T) {
		var all sync.WaitGroup // of the groups that are ready to be measured
		all.Add(len(things) * len(seldom))
		for _, c := range things {
			for _, rates := range seldom {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					done := sync.OnceFunc(all.Done)
					defer done()
					measure(t, c, rates, func() { done(); all.Wait() })
				})
			}
		}
	})
	t.Run("often", func(t *testing.T) {
		for _, c := range things {
			for _, rates := range often {
				t.Run(c.name, func(t *testing.T) { measure(t, c, rates, func() {}) })
			}
		}
	})
	rows := [][]string{{"what another program does", "how often", "lost, %", "longest gap, ms", "processor time of a core, %", "restored after, ms"}}
	for _, c := range things {
		for _, name := range []string{"one in 10 s", "one in 5 s", "1 a second", "10 a second", "100 a second", "1,000 a second"} {
			for _, l := range lines {
				if l.thing == c.name && l.rate == name {
					rows = append(rows, l.row())
				}
			}
		}
	}
	fmt.Fprintf(os.Stdout, "\n%s", tabletest.Markdown(rows...))
}

// benchHosts sets up hosts, one group after the other, and waits until ready returns.
// It also returns the first host's initial state.
func benchHosts(t *testing.T, program clustertest.Command, setup *sync.Mutex, ready func()) (d *disturbed, before string) {
	func() {
		setup.Lock()
		defer setup.Unlock()
		d = newDisturbed(t, program)
		d.daemon.WaitLog("Kernel in sync with all peers")
	}()
	ready()
	return d, d.whole()
}

func (l healed) row() []string {
	return []string{l.thing, l.rate, fmt.Sprintf("%.3g", 100*l.lost), fmt.Sprint(l.longest.Milliseconds()), fmt.Sprintf("%.2g", 100*l.share), fmt.Sprint(l.right.Milliseconds())}
}

// benchHeal measures one thing at one rate.
func (d *disturbed) benchHeal(c disturbance, r healRate, before string) healed {
	act := c.make(d)
	stop := disturb(r.every, act)
	begin := time.Now()
	<-time.After(r.before)
	during, parts := r.during, 1
	if during == 0 {
		during, parts = *healSlow, 5
	}
	l := healed{thing: c.name, rate: r.name}
	used, began := d.daemon.CPU(), time.Now()
	for range parts {
		measure := c.watch(d, r.sample)
		<-time.After(during / time.Duration(parts))
		lost, longest := measure()
		l.parts, l.lost, l.longest = append(l.parts, lost), l.lost+lost/float64(parts), max(l.longest, longest)
	}
	l.share = (d.daemon.CPU() - used).Seconds() / time.Since(began).Seconds()
	l.actual = float64(stop()) / time.Since(begin).Seconds()
	act()
	l.right = d.right(before)
	fmt.Fprintf(os.Stderr, "%s, %s (%.3g a second): lost %.3g %% (%.3g), longest %v, %.2g %% of a core, restored after %v\n",
		c.name, r.name, l.actual, 100*l.lost, l.parts, l.longest.Round(time.Millisecond), 100*l.share, l.right.Round(time.Millisecond))
	if first, last := l.parts[0], l.parts[parts-1]; last > 2*first+0.005 {
		d.t.Errorf("%s, %s: lost %.3g %% first, and %.3g %% last", c.name, r.name, 100*first, 100*last)
	}
	if l.right > time.Second {
		d.t.Errorf("%s, %s: restored only %v after the end", c.name, r.name, l.right)
	}
	return l
}
