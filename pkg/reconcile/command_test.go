package reconcile

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// slow is a kernel whose only object is under way until err is set.
type slow struct {
	mu    sync.Mutex
	asked int
	err   error
	tell  func(netstate.Event)
}

func (*slow) Dump(context.Context, netstate.Scope) ([]netstate.Object, error) { return nil, nil }

func (s *slow) Apply(_ context.Context, p netstate.Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err == nil {
		return nil
	}
	return netstate.Failures{{Op: p[0], Err: s.err}}
}

func (s *slow) Watch(ctx context.Context, to func(netstate.Event)) error {
	s.mu.Lock()
	s.tell = to
	s.mu.Unlock()
	to(netstate.Event{})
	<-ctx.Done()
	return ctx.Err()
}

// fails sets how steps fail, and returns how many were asked for.
func (s *slow) fails(err error) (asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	return s.asked
}

// TestUnfinishedStepIsPendingAndNotFailing asks again for a step that is under way, at
// the latest after a second, and at once after the event of its end.
func TestUnfinishedStepIsPendingAndNotFailing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		command := netstate.Command{Name: "SubnetAddCommand", Subnet: pfx("10.5.2.0/24")}
		s := &slow{err: netstate.ErrUnfinished}
		r := New(s, interval, budget.New().Account(budget.KernelLimit, budget.Elapsed))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Run(ctx)
		}()
		after := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		log.Take()
		r.Update(func(d *Desired) {
			d.Set("peer", []netstate.Object{command})
			d.Complete()
		})
		after(20 * time.Second)
		if status := r.Status(); len(status.Failing) != 0 || status.Pending != 1 || status.InSync {
			t.Errorf("while it is under way: %+v", status)
		}
		if lines := log.Take(); len(lines) != 0 {
			t.Errorf("it logs %q", lines)
		}
		if asked := s.fails(errors.New("exit status 1")); asked < 15 || asked > 25 {
			t.Errorf("asked %d times in 20 seconds", asked)
		}
		after(2 * time.Second)
		if status := r.Status(); len(status.Failing) != 1 || status.Failing[0].Owner != "peer" || status.Pending != 0 {
			t.Errorf("after a failure: %+v", status)
		}
		if lines := log.Take(); len(lines) != 1 {
			t.Errorf("it logs %q", lines)
		}
		after(5 * time.Minute)
		asked := s.fails(nil)
		s.tell(netstate.Event{Object: netstate.Command{Name: command.Name, Subnet: command.Subnet}})
		after(time.Millisecond)
		if status, more := r.Status(), s.fails(nil)-asked; more != 1 || len(status.Failing) != 0 || !status.InSync {
			t.Errorf("after the event: asked %d times, %+v", more, status)
		}
		if status := r.Status(); status.Healed[netstate.KindCommand] != 0 {
			t.Errorf("it counts as healed: %+v", status)
		}
		cancel()
		<-done
	})
}
