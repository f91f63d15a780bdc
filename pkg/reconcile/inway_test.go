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

// TestRouteInTheWayIsLeftAlone checks that a foreign route in the way stays and is
// reported, and that ours takes its place as soon as it disappears.
func TestRouteInTheWayIsLeftAlone(t *testing.T) {
	theirs := foreign(direct(1), 4)
	check := func(l *lab) {
		l.wait(5 * time.Minute)
		l.has(theirs)
		l.has(peer(2)...)
		l.failsOnly(`route 10.0.1.0/24 of "peer-1": file exists`)
		if lines := log.Take(); len(lines) != 1 || !strings.HasPrefix(lines[0], `"Kernel refused a step; retrying" err="file exists" step="create route 10.0.1.0/24`) {
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
			l.wait(backoff.Last)
			l.synced()
		})
	})
	t.Run("flannel's is taken over", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.Put(foreign(direct(1), netstate.ProtocolBoot))
			l.f.Put(foreign(direct(2), netstate.ProtocolBoot))
			synctest.Wait()
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
