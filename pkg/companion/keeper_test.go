package companion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// fake starts processes that are no more than a Control.
type fake struct {
	t *testing.T

	mu     sync.Mutex
	fails  error  // of start
	ill    string // why a process fails after its start
	last   *Control
	starts int
}

func (f *fake) start(_ context.Context, s Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	if f.fails != nil {
		return f.fails
	}
	c, err := Claim(s, "v1")
	if err != nil {
		return err
	}
	if f.last = c; f.ill != "" {
		c.Set(Failed, f.ill)
		go func() {
			c.AwaitHeard(f.t.Context())
			c.Close()
		}()
		return nil
	}
	c.Set(Running, "")
	go serveControl(c)
	return nil
}

// serveControl ends a process when a client asks for it.
func serveControl(c *Control) {
	<-c.Asked()
	c.Set(Stopping, "")
	c.Close()
}

func (f *fake) log(Spec) string  { return "the log" }
func (f *fake) stop(Spec) string { return "stop it" }

// process returns the last process, and how many there were.
func (f *fake) process() (*Control, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.starts
}

func (f *fake) set(fails error, ill string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.ill = fails, ill
}

// keep runs a keeper until the test ends, or until stop is called.
func keep(t *testing.T, s Spec, l launcher) (k *Keeper, stop func()) {
	t.Helper()
	k = NewKeeper(s, "v1", func() {})
	k.launcher = l
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return k, stop
}

func (k *Keeper) await(t *testing.T, what string, ok func(Status) bool) {
	t.Helper()
	kerneltest.Eventually(t, time.Minute, func() error {
		if s := k.Status(); !ok(s) {
			return fmt.Errorf("%s: %+v, %+v", what, s, s.Process)
		}
		return nil
	})
}

func running(s Status) bool { return s.Process != nil && s.Process.State == Running && s.Problem == "" }

func TestKeeperStartsOneAndLeavesItRunning(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, f := spec(t.TempDir()), &fake{t: t}
	k, stop := keep(t, s, f)
	<-k.Settled()
	k.await(t, "started", running)
	stop()
	first, _ := f.process()
	k, stop = keep(t, s, f)
	<-k.Settled()
	k.await(t, "found", running)
	stop()
	if again, starts := f.process(); again != first || starts != 1 {
		t.Errorf("%d were started", starts)
	}
	if _, err := Stop(t.Context(), s.Dir); err != nil {
		t.Error(err)
	}
}

func TestKeeperStartsAnotherAfterACrash(t *testing.T) {
	s, f := spec(t.TempDir()), &fake{t: t}
	k, _ := keep(t, s, f)
	for n := 1; n <= 3; n++ {
		kerneltest.Eventually(t, time.Minute, func() error {
			if _, starts := f.process(); starts != n || !running(k.Status()) {
				return fmt.Errorf("%d started, %+v", starts, k.Status())
			}
			return nil
		})
		last, _ := f.process()
		last.Close() // without a word
	}
}

// A person stopped it: that is not undone, and a process that the person starts is used.
func TestKeeperLeavesAStoppedOneAlone(t *testing.T) {
	s, f := spec(t.TempDir()), &fake{t: t}
	k, _ := keep(t, s, f)
	k.await(t, "started", running)
	if _, err := Stop(t.Context(), s.Dir); err != nil {
		t.Fatal(err)
	}
	k.await(t, "stopped", func(s Status) bool { return s.Process == nil && s.Problem == "it was stopped" })
	c := claim(t, s)
	c.Set(Running, "")
	k.await(t, "started by another", running)
	if _, starts := f.process(); starts != 1 {
		t.Errorf("%d were started", starts)
	}
	c.Close() // a crash
	kerneltest.Eventually(t, time.Minute, func() error {
		if _, starts := f.process(); starts != 2 {
			return errors.New("not started after its crash")
		}
		return nil
	})
}

// A process that was ending when the keeper came is followed by another one: an operator may
// stop the process, and restart the daemon before it has ended.
func TestKeeperFollowsUpOneThatWasEnding(t *testing.T) {
	s, f := spec(t.TempDir()), &fake{t: t}
	c := claim(t, s)
	c.Set(Stopping, "")
	k, _ := keep(t, s, f)
	k.await(t, "found", func(s Status) bool { return s.Process != nil && s.Process.State == Stopping })
	c.Close()
	k.await(t, "started", running)
}

func TestKeeperRestartsOneWithOtherSettings(t *testing.T) {
	s := spec(t.TempDir())
	c := claim(t, s)
	c.Set(Running, "")
	go serveControl(c)
	f := &fake{t: t}
	s.Settings = SettingsOf("others")
	k, _ := keep(t, s, f)
	k.await(t, "restarted", func(st Status) bool { return running(st) && st.Process.Settings == s.Settings })
}

// TestKeeperRestartsOnce: the program runs with other settings even after a restart, for
// example because a unit sets them. A second restart would not help.
func TestKeeperRestartsOnce(t *testing.T) {
	s, f := spec(t.TempDir()), &fake{t: t}
	other := s
	other.Settings = SettingsOf("others")
	c := claim(t, other)
	go serveControl(c)
	k, _ := keep(t, s, stubborn{f, other})
	k.await(t, "followed", func(st Status) bool { return running(st) && st.Process.Settings == other.Settings })
	if _, starts := f.process(); starts != 1 {
		t.Errorf("%d were started", starts)
	}
}

// stubborn starts with settings of its own.
type stubborn struct {
	*fake
	settings Spec
}

func (s stubborn) start(ctx context.Context, _ Spec) error { return s.fake.start(ctx, s.settings) }

// TestKeeperTriesAgain: the reason of a failed start is known at once, and the keeper
// retries.
func TestKeeperTriesAgain(t *testing.T) {
	s, f := spec(t.TempDir()), &fake{t: t}
	f.set(errors.New("no such program"), "")
	k, _ := keep(t, s, f)
	<-k.Settled()
	k.await(t, "no program", func(s Status) bool { return s.Problem == "no such program" })
	f.set(nil, "the disk is full")
	k.await(t, "ill", func(s Status) bool { return strings.Contains(s.Problem, "the disk is full") })
	f.set(nil, "")
	k.await(t, "well", running)
}
