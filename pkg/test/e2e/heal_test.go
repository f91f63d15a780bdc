package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
)

// TestHealsThroughFights changes each thing on a node far more often than makes a
// fight. The network works all along, the fight is reported, and everything is
// restored at its end.
func TestHealsThroughFights(t *testing.T) {
	t.Parallel()
	d := newDisturbed(t, tulled)
	d.daemon.WaitLog("Kernel in sync with all peers")
	before := d.whole()
	for _, c := range disturbances() {
		act := c.make(d)
		stop := disturb(100*time.Millisecond, act)
		d.eventually(func() error { return d.fights(c.kind) })
		// From here on the fight is known.
		measure := c.watch(d, time.Millisecond)
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

// fights returns an error unless the first node's daemon reports a fight over an
// object of that name.
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
