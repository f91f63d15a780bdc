package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
)

// TestHealsThroughFights changes each thing on a node far more often than a fight
// needs. The daemon restores it repeatedly and reports the fight. At the end,
// everything is restored. How long nothing works meanwhile is only logged, because a
// busy machine distorts it. TestBenchHeal measures that.
func TestHealsThroughFights(t *testing.T) {
	t.Parallel()
	d := newDisturbed(t, tulled)
	d.awaitReady(d.here)
	before := d.whole()
	for _, c := range disturbances() {
		act := c.make(d)
		stop := disturb(100*time.Millisecond, act)
		known := d.restored(c.kind, 0)
		measure := c.watch(d, time.Millisecond)
		d.restored(c.kind, known+20)
		lost, longest := measure()
		n := stop()
		took := d.right(before)
		t.Logf("%s: %d times, lost %.3g %%, longest gap %v, restored %v after the end", c.name, n, 100*lost, longest, took)
		if lost == 1 {
			t.Errorf("%s: nothing worked", c.name)
		}
	}
	for _, begin := range []string{"keeps changing an object", "keeps changing the firewall's rules", "keeps changing a file"} {
		if !strings.Contains(d.daemon.Log(), begin) {
			t.Errorf("the log has no %q", begin)
		}
	}
}

// restored waits until the first node's daemon reports a fight over an object of that
// name, and has restored it at least so many times. It returns how often it has.
func (d *disturbed) restored(what string, times int) (restored int) {
	d.t.Helper()
	d.eventually(func() error {
		var r status.Report
		if err := d.commandJSON(d.here, &r, "status"); err != nil {
			return err
		}
		for _, f := range r.Fights {
			if strings.Contains(f.What, what) && f.Restored >= times {
				restored = f.Restored
				return nil
			}
		}
		return fmt.Errorf("no fight over %s, restored %d times: %+v", what, times, r.Fights)
	})
	return restored
}
