package reconcile

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

const (
	// prompt is how long a key may be wrong while healing is cheap, and bound when it is
	// not.
	prompt = 50 * time.Millisecond
	bound  = budget.Turn + prompt
	// What the fake kernel takes for a dump, and for a step.
	dumpTakes = 300 * time.Microsecond
	stepTakes = 100 * time.Microsecond
)

// disturber changes something repeatedly, with a clock for each key of how long it
// stays wrong.
type disturber struct {
	l     *lab
	right *netstate.State

	mu      sync.Mutex
	wrong   map[netstate.Key]time.Time // since when
	longest map[netstate.Key]time.Duration
	spent   time.Duration // by the kernel, for us
}

// disturb watches l, whose kernel is in sync and takes its time from now on.
func disturb(l *lab) *disturber {
	d := &disturber{l: l, right: l.f.Snapshot(), wrong: make(map[netstate.Key]time.Time), longest: make(map[netstate.Key]time.Duration)}
	take := func(t time.Duration) {
		<-time.After(t)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.spent += t
	}
	l.f.SetHooks(kerneltest.Hooks{
		AfterDump: func() { take(dumpTakes) },
		AfterOp: func(op netstate.Op, _ error) {
			d.look(op.Object.Key())
			take(stepTakes)
		},
	})
	return d
}

// look reads the clocks of keys.
func (d *disturber) look(keys ...netstate.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		has, _ := d.l.f.Get(k)
		want, _ := d.right.Get(k)
		since, wrong := d.wrong[k]
		if wrong {
			d.longest[k] = max(d.longest[k], time.Since(since))
		}
		switch {
		case wrong && has == want:
			delete(d.wrong, k)
		case !wrong && has != want:
			d.wrong[k] = time.Now()
		}
	}
}

// act disturbs keys at an interval for a time. It returns the longest time that one
// was wrong.
func (d *disturber) act(every, during time.Duration, f func(), keys ...netstate.Key) (longest time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); <-time.After(every) {
		f()
		d.look(keys...)
	}
	d.look(keys...)
	waited := d.waited()
	for _, k := range keys {
		longest = max(longest, waited[k])
	}
	return longest
}

// waited returns the longest time that each key was wrong.
func (d *disturber) waited() map[netstate.Key]time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.longest)
}

// load returns the part of a core that healing took since begin.
func (d *disturber) load(begin time.Time) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spent.Seconds() / time.Since(begin).Seconds()
}

// acts returns what another program may do repeatedly, with the name of the fight.
func acts(l *lab) map[string]struct {
	key netstate.Key
	do  func()
} {
	return map[string]struct {
		key netstate.Key
		do  func()
	}{
		"route":    {route(1).Key(), func() { l.f.Delete(route(1).Key()) }},
		"replaced": {route(1).Key(), func() { l.f.Put(foreign(direct(1), 4)) }},
		"neigh":    {neigh(1).Key(), func() { l.f.Delete(neigh(1).Key()) }},
		"MAC":      {neigh(1).Key(), func() { l.f.Put(netstate.Neigh{Link: "tulle.1", IP: neigh(1).IP, MAC: hw(99)}) }},
		"fdb":      {fdb(1).Key(), func() { l.f.Delete(fdb(1).Key()) }},
		"stray":    {fdb(77).Key(), func() { l.f.Put(fdb(77)) }},
		"addr":     {addr.Key(), func() { l.f.Delete(addr.Key()) }},
		"settings": {setting.Key(), func() { l.f.Put(netstate.Sysctl{Path: setting.Path, Value: "1"}) }},
		"deleted":  {link.Key(), func() { l.f.DeleteLink("tulle.1") }},
		"down":     {link.Key(), func() { l.f.LinkDown("tulle.1") }},
		"flap": {link.Key(), func() {
			l.f.LinkDown("tulle.1")
			l.f.LinkUp("tulle.1")
		}},
	}
}

// TestFightIsBoundedAndReportedOnce checks that a fight of any kind and rate leaves
// nothing wrong for longer than the bound, and costs no more than its limit. The
// fight is logged once, and everything is restored within a second of its end.
func TestFightIsBoundedAndReportedOnce(t *testing.T) {
	rates := []time.Duration{10 * time.Second, 5 * time.Second, time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond}
	for what := range acts(&lab{}) {
		for _, every := range rates {
			t.Run(fmt.Sprintf("%s every %v", what, every), func(t *testing.T) {
				running(t, host(), func(l *lab) {
					l.setPeers(1, 2)
					l.quiet()
					d := disturb(l)
					begin := time.Now()
					act := acts(l)[what]
					during := 25 * time.Second
					if every > time.Second {
						during = 60 * every // it must not get worse with time
					}
					longest := d.act(every, during, act.do, act.key)
					load := d.load(begin)
					s := l.r.Status()
					if limit := bound; longest > limit || every >= time.Second && longest > prompt {
						l.Errorf("wrong for %v", longest)
					}
					// A turn a second for a link costs two dumps and some ten steps.
					if load > 0.03+0.01+0.5/time.Since(begin).Seconds() {
						l.Errorf("took %.1f%% of a core", 100*load)
					}
					if len(s.Fights) != 1 || s.Fights[0].Key != act.key || len(s.Failing) > 0 && every >= time.Second {
						l.Errorf("fights %v, failing %q", s.Fights, l.failing())
					}
					end := time.Now()
					l.synced()
					if took := time.Since(end); took > bound {
						l.Errorf("right only %v after the end", took)
					}
					l.wait(budget.Quiet + 15*time.Second)
					if fights := l.r.Status().Fights; len(fights) > 0 {
						l.Errorf("still fights: %v", fights)
					}
					begun, over, restored := 0, 0, 0
					for _, line := range log.Take() {
						switch {
						case strings.HasPrefix(line, `"Another program keeps changing an object; restoring it each time" key="`+act.key.String()):
							begun++
						case strings.HasPrefix(line, `"Other programs no longer change the object" key="`+act.key.String()):
							over++
						case strings.HasPrefix(line, `"Restored what others had changed"`):
							restored++
						default:
							l.Errorf("logged %q", line)
						}
					}
					if begun != 1 || over != 1 || restored > 25 {
						l.Errorf("logged %d times that it began, %d that it ended, %d that something was restored", begun, over, restored)
					}
				})
			})
		}
	}
}

// TestFightsShareTheBudget runs the most expensive fight. Each key still gets its
// turns, and more important classes come first: an address that disappears now and
// then is back promptly.
func TestFightsShareTheBudget(t *testing.T) {
	running(t, host(), func(l *lab) {
		const peers = 100
		l.setPeers(1, peers)
		l.quiet()
		d := disturb(l)
		keys := []netstate.Key{addr6.Key()}
		for n := 1; n <= peers; n++ {
			keys = append(keys, route(n).Key())
		}
		begin, n := time.Now(), 0
		d.act(10*time.Millisecond, time.Minute, func() {
			for _, k := range keys[1:] {
				l.f.Delete(k)
			}
			if n++; n%300 == 0 {
				l.f.Delete(keys[0])
			}
		}, keys...)
		waited := d.waited()
		for k, wait := range waited {
			if k.Kind == netstate.KindAddr && wait > prompt || wait > bound {
				l.Errorf("%s was gone for %v", k, wait)
			}
		}
		if len(waited) != peers+1 {
			l.Errorf("%d keys were restored", len(waited))
		}
		if load := d.load(begin); load < 0.02 || load > 0.05 {
			l.Errorf("took %.1f%% of a core", 100*load)
		}
		l.wait(bound)
		l.synced()
	})
}

// TestRefusedStepIsRetriedOnDrift checks that a step that the kernel refused
// repeatedly is retried soon when another program changes the key: the obstacle may
// be gone.
func TestRefusedStepIsRetriedOnDrift(t *testing.T) {
	running(t, host(), func(l *lab) {
		undo := l.f.Fail(-1, kerneltest.OfKey(neigh(1).Key()), errTest)
		l.setPeers(1, 1)
		l.wait(10 * time.Minute)
		undo()
		l.f.Put(netstate.Neigh{Link: "tulle.1", IP: neigh(1).IP, MAC: hw(99)})
		l.wait(bound)
		l.has(neigh(1))
		l.synced()
	})
}

// TestUnannouncedSettingIsRestored checks that a setting whose change the kernel does
// not announce is restored within a second, and that a fight over it is reported like
// any other.
func TestUnannouncedSettingIsRestored(t *testing.T) {
	silent := netstate.Sysctl{Path: "net/ipv6/conf/tulle.1/accept_ra", Value: "0"}
	running(t, append(host(), silent), func(l *lab) {
		for range 30 {
			l.f.Put(netstate.Sysctl{Path: silent.Path, Value: "1"})
			l.wait(time.Second + prompt)
			l.has(silent)
			l.wait(10 * time.Second)
		}
		if c := l.f.Counts(); c.Dumps > 0 {
			l.Errorf("%d resyncs", c.Dumps)
		}
		if s := l.r.Status(); len(s.Fights) != 1 || s.Fights[0].Key != silent.Key() {
			l.Errorf("fights %v", s.Fights)
		}
	})
}

// TestLinkIsMadeWhenTheForeignOneGoes checks that a link that a foreign device blocks
// is created as soon as that disappears.
func TestLinkIsMadeWhenTheForeignOneGoes(t *testing.T) {
	other := link
	other.Name = "vxlan7"
	run(t, kerneltest.NewFake(eth0, other), func(l *lab) {
		l.set("host", host()...)
		l.setPeers(1, 2)
		l.complete()
		l.wait(20 * time.Minute)
		if got := l.failing(); !strings.Contains(got, "link tulle.1 of \"host\": file exists") {
			l.Fatalf("failing %q", got)
		}
		l.f.DeleteLink(other.Name)
		l.wait(prompt)
		l.synced()
	})
}
