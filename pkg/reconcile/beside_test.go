package reconcile

import (
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestRouteBesideOursSettlesInAResync: another program puts routes before ours to the
// same destination, so that the kernel refuses to replace ours. A resync finds ours in
// place, also if the other program changes its route at any time meanwhile.
func TestRouteBesideOursSettlesInAResync(t *testing.T) {
	theirs := foreign(direct(1), 4)
	beside := func(l *lab) { l.r.event(netstate.Event{Object: theirs}) }
	for when, change := range map[string]func(*lab){
		"once":  beside,
		"twice": func(l *lab) { beside(l); l.wait(lead); beside(l) },
		"again during the resync": func(l *lab) {
			release := l.f.BlockDump()
			beside(l)
			l.wait(lead)
			beside(l)
			release()
		},
		"again during the resync and the retry": func(l *lab) {
			release := l.f.BlockDump()
			beside(l)
			l.wait(lead)
			beside(l)
			retried := l.f.BlockApply()
			release()
			l.wait(budget.Turn)
			beside(l)
			retried()
		},
	} {
		t.Run(when, func(t *testing.T) {
			running(t, host(), func(l *lab) {
				l.setPeers(1, 2)
				l.quiet()
				defer l.f.Fail(-1, kerneltest.OfKey(theirs.Key()), syscall.EEXIST)()
				change(l)
				l.wait(5 * time.Second)
				if s := l.r.Status(); !s.InSync || len(s.Failing) > 0 {
					l.Error(l.dumpStatus())
				}
				l.holdsDesired()
				l.healed(0, 0, 0, 0, 0, 0)
				if lines := log.Take(); len(lines) > 0 {
					l.Errorf("logged %q", lines)
				}
			})
		})
	}
}
