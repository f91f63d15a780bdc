package e2e

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

var healTable = flag.String("heal", "", "measure what is lost while a stranger keeps changing these things (all, or names with commas between), and print a table")

// TestHealsThroughFights changes each thing on a node far more often than makes a
// fight: the network works all along, the fight is reported, and all is restored at its
// end.
func TestHealsThroughFights(t *testing.T) {
	t.Parallel()
	d := newDisturbed(t, tulled)
	d.daemon.WaitLog("Kernel in sync with all peers")
	before := d.whole()
	for _, c := range disturbances() {
		act := c.make(d)
		watch := (*disturbed).pinged
		if c.watch != nil {
			watch = c.watch
		}
		stop := disturb(100*time.Millisecond, act)
		d.eventually(func() error { return d.fights(c.kind) })
		// From here on a fight is known.
		measure := watch(d)
		<-time.After(3 * time.Second)
		_, longest := measure()
		n := stop()
		took := d.right(before)
		t.Logf("%s: %d times, nothing for %v at the longest, right %v after the end", c.name, n, longest, took)
		if longest > 2500*time.Millisecond {
			t.Errorf("%s: nothing for %v", c.name, longest)
		}
	}
	for _, begin := range []string{"keeps changing an object", "keeps changing the firewall's rules", "keeps changing a file"} {
		if !strings.Contains(d.daemon.Log(), begin) {
			t.Errorf("the log has no %q", begin)
		}
	}
}

// fights returns an error unless the first node's daemon reports a fight over
// something of that name.
func (d *disturbed) fights(what string) error {
	var r status.Report
	if err := d.asks(d.here, &r, "status"); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.Fights, func(f status.Fight) bool { return strings.Contains(f.What, what) }) {
		return fmt.Errorf("no fight over %s: %+v", what, r.Fights)
	}
	return nil
}

// TestBenchHeal prints what is lost to a stranger, by what he changes and how often.
func TestBenchHeal(t *testing.T) {
	if *healTable == "" {
		return // a benchmark
	}
	program := newScale(t).programs[0].command
	rows := [][]string{{"what a stranger does", "one in 10 s", "1 a second", "10 a second", "100 a second", "1,000 a second", "right after the last"}}
	for _, c := range disturbances() {
		if *healTable != "all" && !slices.Contains(strings.Split(*healTable, ","), c.name) {
			continue
		}
		rows = append(rows, benchHeal(t, program, c))
	}
	fmt.Fprintf(os.Stdout, "\nLost, and the daemon's processor time:\n\n%s", markdown(rows))
}

// healRates are how often a stranger acts, and for how long that is measured after
// how long.
var healRates = []struct{ every, before, during time.Duration }{
	{10 * time.Second, 0, 60 * time.Second},
	{time.Second, 0, 20 * time.Second},
	{100 * time.Millisecond, 5 * time.Second, 15 * time.Second},
	{10 * time.Millisecond, 20 * time.Second, 15 * time.Second}, // what was saved up is spent first
	{time.Millisecond, 20 * time.Second, 15 * time.Second},
}

func benchHeal(t *testing.T, program clustertest.Command, c disturbance) []string {
	row := []string{c.name}
	var slowest time.Duration
	d := newDisturbed(t, program)
	d.daemon.WaitLog("Kernel in sync with all peers")
	before := d.whole()
	watch := (*disturbed).pinged
	if c.watch != nil {
		watch = c.watch
	}
	for _, rate := range healRates {
		stop := disturb(rate.every, c.make(d))
		<-time.After(rate.before)
		measure, used, began := watch(d), d.daemon.CPU(), time.Now()
		<-time.After(rate.during)
		used = d.daemon.CPU() - used
		share := used.Seconds() / time.Since(began).Seconds()
		lost, longest := measure()
		n := stop()
		slowest = max(slowest, d.right(before))
		cell := fmt.Sprintf("%.3g %%, %.2g %%", 100*lost, 100*share)
		if asked := float64(rate.before+rate.during) / float64(rate.every); float64(n) < 0.8*asked {
			cell += fmt.Sprintf(" (%.0f a second)", float64(n)/(rate.before+rate.during).Seconds())
		}
		fmt.Fprintf(os.Stderr, "%s every %v: %d times, %s, longest %v\n", c.name, rate.every, n, cell, longest.Round(time.Millisecond))
		row = append(row, cell)
	}
	return append(row, fmt.Sprintf("%.2f s", slowest.Seconds()))
}
