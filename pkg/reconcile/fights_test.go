package reconcile

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// What others keep changing is put right at once a few times, then ever more
// seldom, and is told of.
func TestFight(t *testing.T) {
	fights := map[string]struct {
		key   netstate.Key
		act   func(*lab)
		heals int
	}{
		"route":    {route(1).Key(), func(l *lab) { l.f.Delete(route(1).Key()) }, 1},
		"neigh":    {neigh(1).Key(), func(l *lab) { l.f.Put(netstate.Neigh{Link: "tulle.1", IP: neigh(1).IP, MAC: hw(99)}) }, 1},
		"stray":    {fdb(77).Key(), func(l *lab) { l.f.Put(fdb(77)) }, 1},
		"link":     {link.Key(), func(l *lab) { l.f.DeleteLink("tulle.1") }, 12},
		"down":     {link.Key(), func(l *lab) { l.f.LinkDown("tulle.1") }, 8},
		"settings": {setting.Key(), func(l *lab) { l.f.Put(netstate.Sysctl{Path: setting.Path, Value: "1"}) }, 1},
	}
	for what, fight := range fights {
		t.Run(what, func(t *testing.T) {
			running(t, host(), func(l *lab) {
				l.setPeers(1, 2)
				l.quiet()
				right := l.f.Snapshot()
				// The stranger acts as soon as he sees ours.
				var rounds []time.Time
				applied := make(chan struct{}, 1000)
				l.f.SetHooks(kerneltest.Hooks{AfterApply: func(netstate.Plan, error) { applied <- struct{}{} }})
				end := time.Now().Add(30 * time.Minute)
				for time.Now().Before(end) {
					if l.f.Snapshot().Equal(right) {
						rounds = append(rounds, time.Now())
						fight.act(l)
					}
					synctest.Wait()
					if l.r.Status().InSync {
						l.Fatalf("in sync in round %d", len(rounds))
					}
					select {
					case <-applied:
					case <-time.After(time.Minute):
					}
					synctest.Wait()
				}
				l.f.SetHooks(kerneltest.Hooks{})
				if l.f.Snapshot().Equal(right) {
					fight.act(l)
					l.wait(2 * settle)
				}
				if len(rounds) < patience+5 || len(rounds) > patience+65 {
					l.Errorf("%d rounds", len(rounds))
				}
				for i := 1; i < len(rounds); i++ {
					wait := rounds[i].Sub(rounds[i-1])
					if i <= patience && wait > 50*time.Millisecond || i > patience+10 && wait < lastRetry/2-time.Second {
						l.Errorf("round %d came after %v", i, wait)
					}
				}
				found := false
				for _, f := range l.r.Status().Failing {
					found = found || f.Key == fight.key && errors.Is(f.Err, errFought)
				}
				if !found {
					l.Errorf("not among the failing: %q", l.failing())
				}
				told := 0
				for _, line := range log.Take() {
					if strings.HasPrefix(line, `"Leaving to others for a while what they keep changing" err="another program`) {
						told++
					}
				}
				if told != 1 {
					l.Errorf("told %d times", told)
				}
				var healed uint64
				for _, n := range l.r.Status().Healed {
					healed += n
				}
				if healed > uint64(fight.heals*(patience+3)) {
					l.Errorf("healed %d", healed)
				}

				// Peace: it is put right, and the next change at once again.
				l.wait(lastRetry)
				l.synced()
				l.wait(peace + time.Second)
				fight.act(l)
				l.wait(5 * settle)
				l.synced()
			})
		})
	}
}

// Another's route in the way is left alone and told of, and its place taken as
// soon as it goes.
func TestInTheWay(t *testing.T) {
	theirs := foreign(direct(1), 4)
	check := func(l *lab) {
		l.wait(5 * time.Minute)
		l.has(theirs)
		l.has(peer(2)...)
		l.failsOnly(`route 10.0.1.0/24 of "peer-1": file exists`)
		if lines := log.Take(); len(lines) != 1 || !strings.HasPrefix(lines[0], `"The kernel refuses a step; trying again" err="file exists" step="create route 10.0.1.0/24`) {
			l.Errorf("logged %q", lines)
		}
		changed := route(1)
		changed.MTU = 1400
		l.set(name(1), neigh(1), fdb(1), changed)
		l.wait(2 * interval)
		l.has(theirs)
		if s := l.r.Status(); s.InSync {
			l.Error("in sync")
		}
		l.f.Delete(theirs.Key())
		l.wait(2 * settle)
		l.has(changed)
		l.synced()
		l.healed(0, 0, 0, 0, 0, 0)
	}
	t.Run("from the start", func(t *testing.T) {
		run(t, kerneltest.NewFake(eth0, theirs), func(l *lab) {
			log.Take()
			l.set("host", host()...)
			l.setPeers(1, 2)
			l.complete()
			check(l)
		})
	})
	t.Run("before the peer", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.Put(theirs)
			l.setPeers(1, 2)
			check(l)
		})
	})
	t.Run("changed while it is found out", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.Put(theirs)
			l.f.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, err error) {
				if op.Object.Key() == theirs.Key() && errors.Is(err, syscall.EEXIST) {
					changed := route(1)
					changed.MTU = 1300
					l.set(name(1), neigh(1), fdb(1), changed)
					l.f.SetHooks(kerneltest.Hooks{})
				}
			}})
			l.setPeers(1, 2)
			check(l)
		})
	})
	t.Run("gone while it is found out", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.Put(theirs)
			l.setPeers(1, 2)
			l.wait(5 * time.Minute)
			l.f.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, err error) {
				if op.Object.Key() == theirs.Key() && errors.Is(err, syscall.EEXIST) {
					l.f.SetHooks(kerneltest.Hooks{})
					l.f.Delete(theirs.Key())
					synctest.Wait()
				}
			}})
			l.wait(lastRetry)
			l.synced()
		})
	})
	t.Run("flannel's is taken over", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.Put(foreign(direct(1), netstate.ProtocolBoot))
			l.f.Put(foreign(direct(2), netstate.ProtocolBoot))
			l.set(name(1), direct(1))
			l.wait(2 * settle)
			l.synced()
			l.has(direct(1), foreign(direct(2), netstate.ProtocolBoot))
			if lines := log.Take(); len(lines) > 0 {
				l.Errorf("logged %q", lines)
			}
			l.healed(0, 0, 0, 0, 0, 0)
		})
	})
}
