package network

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

const offloadAuto = `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "Offload": "auto"}}`

// card is the network card of a life's host, which may break the checksums that the
// tunnel leaves to it. It is also the prober's Echoer.
type card struct {
	*life
	broken atomic.Bool
	silent atomic.Bool // no peer answers
}

// newCard returns a host with a broken card and two peers. The caller starts it.
func newCard(t *testing.T, config string) *card {
	l := newLife(t, config)
	c := &card{life: l}
	c.broken.Store(true)
	c.peer(2)
	c.peer(3)
	return c
}

func (c *card) start() {
	c.t.Helper()
	c.prober = &probe.Prober{Interval: 5 * time.Second, Echoer: c}
	c.life.start()
}

// Echo implements probe.Echoer.
func (c *card) Echo(ctx context.Context, t probe.Try) (probe.Answer, error) {
	lost := c.silent.Load() || c.broken.Load() && (t.Kind == probe.UDP || t.Kind == probe.HalfBare) && c.offload() == "on"
	if lost {
		<-ctx.Done()
		return probe.Answer{}, context.Cause(ctx)
	}
	return probe.Answer{RTT: time.Millisecond}, nil
}

// offload returns the setting of the tunnel device.
func (c *card) offload() string {
	o, ok := c.host.Snapshot().Get(netstate.TxChecksum("tulle.1", "").Key())
	if !ok {
		return "on" // as a device has it at first
	}
	return o.(netstate.Sysctl).Value
}

func (c *card) wants(offload string) {
	c.t.Helper()
	if got := c.offload(); got != offload {
		c.t.Errorf("offload is %s, want %s", got, offload)
	}
}

// logged checks how often the log has a line.
func (c *card) logged(text string, want int) {
	c.t.Helper()
	if got := c.log.Count(text); got != want {
		c.t.Errorf("the log has %q %d times, want %d:\n%s", text, got, want, c.log)
	}
}

// reports returns what the status reports about offload.
func (c *card) reports() *status.Offload { return c.view().Report().Network.Offload }

// awaitTrial waits until a trial has enabled offload.
func (c *card) awaitTrial() {
	c.t.Helper()
	c.after(time.Until(*c.reports().Next) - time.Second)
	for range 1000 { // a round of probes comes first
		if c.after(10 * time.Millisecond); c.offload() == "on" {
			return
		}
	}
	c.t.Error("no trial at its time")
}

// watches returns how long offload is enabled within d.
func (c *card) watches(d time.Duration) (on time.Duration) {
	const step = 10 * time.Millisecond
	for range d / step {
		c.after(step)
		if c.offload() == "on" {
			on += step
		}
	}
	return on
}

// TestOffloadIsTriedAgain checks that offload is enabled again on a host whose card was
// repaired. On a host that stays broken, offload is enabled only for moments, and ever
// more rarely.
func TestOffloadIsTriedAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newCard(t, offloadAuto)
		c.start()
		c.after(2 * time.Minute)
		c.wants("off")
		r := c.reports()
		if r == nil || r.Trial || r.Next == nil || r.Trials != 0 || c.view().At.Sub(r.Since) > 2*time.Minute {
			t.Fatalf("status reports %+v", r)
		}
		pause := 10 * time.Minute
		for trials := 1; trials <= 3; trials++ {
			due := time.Until(*c.reports().Next)
			if due > pause || due < pause/2-2*time.Minute {
				t.Errorf("trial %d is due in %s, and the pause is %s", trials, due, pause)
			}
			c.after(due - time.Second)
			c.wants("off")
			if on := c.watches(8 * time.Second); on == 0 || on > time.Second {
				t.Errorf("in trial %d offload is enabled for %s", trials, on)
			}
			c.wants("off")
			if got := c.reports().Trials; got != trials {
				t.Errorf("status reports %d trials, want %d", got, trials)
			}
			pause *= 2
		}
		if s := c.prober.Summary(); len(s.Failing) > 0 {
			t.Errorf("after trials, probes fail: %+v", s.Failing)
		}
		c.logged("Tunnel still breaks checksums; disabled its checksum offload again", 3)

		c.broken.Store(false)
		c.after(time.Until(*c.reports().Next) + 8*time.Second)
		c.wants("on")
		if r := c.reports(); r != nil {
			t.Errorf("status reports %+v", r)
		}
		c.after(3 * time.Hour)
		c.wants("on")
		c.logged("Checksums in the tunnel are right again; leaving its checksum offload enabled", 1)
		c.logged("Trying the tunnel's checksum offload again", 4)

		c.broken.Store(true)
		c.after(time.Minute)
		c.wants("off")
		if due := time.Until(*c.reports().Next); due < time.Hour/2 {
			t.Errorf("offload that broke again is tried in %s", due)
		}
	})
}

// TestNoTrialWithoutPeers checks that offload stays disabled while no peer answers,
// because there is no verdict. It is tried once peers answer.
func TestNoTrialWithoutPeers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newCard(t, offloadAuto)
		c.start()
		c.after(2 * time.Minute)
		c.broken.Store(false)
		c.silent.Store(true)
		c.after(25 * time.Minute)
		c.logged("Trying", 0)
		c.silent.Store(false)
		c.after(15 * time.Minute)
		c.wants("on")
	})
}

// TestTrialHeedsTheConfig checks that there is no trial if the config sets offload on
// or off, even if the config changes during a trial.
func TestTrialHeedsTheConfig(t *testing.T) {
	config := func(offload string) string { return strings.Replace(offloadAuto, "auto", offload, 1) }
	for _, offload := range []string{"on", "off"} {
		bubbletest.Test(t, func(t *testing.T) {
			c := newCard(t, offloadAuto)
			c.start()
			c.after(2 * time.Minute)
			c.wants("off")
			c.store.SetConfig(config(offload))
			c.after(20 * time.Minute)
			c.wants(offload)
			if r := c.reports(); r == nil || r.Next != nil || r.Trials != 0 {
				t.Errorf("with %s, status reports %+v", offload, r)
			}
			c.store.SetConfig(offloadAuto)
			c.soon()
			if c.log.Count("Trying") == 0 { // the next trial may have been due just then
				c.wants("off")
				c.awaitTrial()
			}
			c.store.SetConfig(config(offload))
			c.after(10 * time.Second)
			c.wants(offload)
			c.store.SetConfig(offloadAuto)
			c.soon()
			c.wants("off")
		})
	}
}

// TestRestartDuringTrial checks that offload does not stay enabled when the daemon ends
// during a trial, and that the next run tries it again.
func TestRestartDuringTrial(t *testing.T) {
	dir := t.TempDir()
	bubbletest.Test(t, func(t *testing.T) {
		c := newCard(t, offloadAuto)
		c.out.StateDir = dir
		c.start()
		c.after(3 * time.Minute)
		c.awaitTrial()
		c.stop()
		c.wants("off")

		c.start()
		c.soon()
		c.wants("off")
		c.awaitTrial()
		c.host.Put(netstate.TxChecksum("tulle.1", "on")) // as a killed daemon leaves it
		c.stop()
		c.host.Put(netstate.TxChecksum("tulle.1", "on"))
		c.start()
		c.soon()
		c.wants("off")
		if r := c.reports(); r == nil || r.Next == nil {
			t.Errorf("status reports %+v", r)
		}

		c.broken.Store(false)
		c.awaitTrial()
		c.after(time.Minute)
		c.stop()
		c.start()
		c.soon()
		if r := c.reports(); r != nil {
			t.Errorf("after a restart of a sound host, status reports %+v", r)
		}
		c.wants("on")
	})
}
