package clustertest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// recorder records the failures of a test.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said []string
	bad  bool
}

func (r *recorder) say(bad bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said, r.bad = append(r.said, text), r.bad || bad
}

func (r *recorder) Errorf(format string, args ...any) { r.say(true, fmt.Sprintf(format, args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.say(false, fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// said runs f on a host as a test. It returns what that test writes, and whether it
// fails.
func said(t *testing.T, f func(h *Host)) (text string, failed bool) {
	t.Helper()
	r := &recorder{TB: t}
	c := New(r, Options{Hosts: 1})
	var wg sync.WaitGroup
	wg.Go(func() { f(c.Hosts[0]) })
	wg.Wait()
	c.end()
	return strings.Join(r.said, "\n"), r.Failed()
}

func TestDaemonFailsItsTest(t *testing.T) {
	sh := Command{Argv: []string{"sh", "-c"}}
	for name, test := range map[string]struct {
		f    func(h *Host)
		want []string // empty for a test that does not fail
	}{
		"no fault": {f: func(h *Host) { h.Start(sh, "echo up; sleep 1000").WaitLog("up") }},
		"it ends without being asked to": {
			func(h *Host) { <-h.Start(sh, "echo alas; exit 3").ended },
			[]string{"host1 sh ended without being asked to, exit status 3", "host1 sh ended with:\nalas\n"}},
		"it ends as expected": {f: func(h *Host) { h.Start(sh, "exit 3").Wait() }},
		"it ends before it is stopped": {
			func(h *Host) { d := h.Start(sh, "exit 3"); <-d.ended; d.Stop() },
			[]string{"host1 sh had already ended, exit status 3"}},
		"it cannot be started": {
			func(h *Host) { <-h.Start(Command{Argv: []string{"/no/such/file"}}).ended },
			[]string{"exit status 127", "/no/such/file: not found"}},
		"a data race": {
			func(h *Host) { h.Start(sh, "echo WARNING: DATA RACE; sleep 1000").WaitLog("RACE") },
			[]string{"host1 sh reported a data race"}},
		"it never logs the text": {
			func(h *Host) { h.Start(sh, "echo something else").WaitLog("up") },
			[]string{`host1 sh has not written "up"`, "something else"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, failed := said(t, test.f)
			if failed != (len(test.want) > 0) {
				t.Errorf("failed: %v, writing %s", failed, text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
		})
	}
}

// TestStragglersEnd checks that processes that a daemon leaves behind end with the
// test.
func TestStragglersEnd(t *testing.T) {
	var left *Daemon
	text, failed := said(t, func(h *Host) {
		left = h.Start(Command{Argv: []string{"sh", "-c", "sleep 1000 & echo $!; exec sleep 1000"}})
		left.WaitLog("\n")
		left.Kill()
	})
	if failed {
		t.Error(text)
	}
	var pid int
	if _, err := fmt.Sscan(left.Log(), &pid); err != nil {
		t.Fatal(err)
	}
	kerneltest.Eventually(t, patience, func() error {
		if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process %d is still there: %v", pid, err)
		}
		return nil
	})
}
