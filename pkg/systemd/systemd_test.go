package systemd

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// manager is systemd's end of the socket.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T) manager {
	t.Helper()
	path := t.TempDir() + "/notify"
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return manager{t, conn}
}

// next is the next message that is none of those.
func (m manager) next(but ...string) string {
	m.t.Helper()
	b := make([]byte, 4096)
	for {
		if err := m.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			m.t.Fatal(err)
		}
		n, err := m.conn.Read(b)
		if err != nil {
			m.t.Fatal(err)
		}
		if text := string(b[:n]); len(but) == 0 || text != but[0] {
			return text
		}
	}
}

type fakeDaemon struct {
	mu    sync.Mutex
	ready bool
	text  string
	stuck bool
	times int // that its condition was asked for
}

func (d *fakeDaemon) set(ready, stuck bool, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready, d.stuck, d.text = ready, stuck, text
}

func (d *fakeDaemon) Condition(context.Context) (bool, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times++
	return d.ready, d.text
}

// asked returns how often the daemon was asked for its condition.
func (d *fakeDaemon) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.times
}

func (d *fakeDaemon) Alive(ctx context.Context) bool {
	d.mu.Lock()
	stuck := d.stuck
	d.mu.Unlock()
	if stuck {
		<-ctx.Done()
	}
	return !stuck
}

// start runs a service until the test ends, and returns what wakes it.
func start(t *testing.T, d Daemon) (*Service, chan<- struct{}) {
	s, changed := New(d), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx, changed) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, changed
}

func TestReportsOnlyChanges(t *testing.T) {
	m, d := newManager(t), &fakeDaemon{text: "no subnet yet"}
	s, changed := start(t, d)
	s.Reload(func() {}) // not before it is ready
	for _, step := range []struct {
		ready bool
		text  string
		want  []string
	}{
		{false, "no subnet yet", []string{"STATUS=no subnet yet"}},
		{true, "10.5.34.0-24", []string{"READY=1", "STATUS=10.5.34.0-24"}},
		{false, "trouble\nREADY=1", []string{"STATUS=trouble READY=1"}},
		{true, "10.5.34.0-24", []string{"STATUS=10.5.34.0-24"}}, // ready is said once
	} {
		d.set(step.ready, false, step.text)
		changed <- struct{}{}
		for _, want := range step.want {
			if got := m.next(); got != want {
				t.Errorf("systemd received %q, not %q", got, want)
			}
		}
	}
	s.Reload(func() {
		if got := m.next(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("a reload begins with %q", got)
		}
	})
	s.Stop()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if got := m.next(); got != want {
			t.Errorf("systemd received %q, not %q", got, want)
		}
	}
}

// TestWatchdogOnlyWhileAlive waits for signs of life, which come only while the daemon turns.
func TestWatchdogOnlyWhileAlive(t *testing.T) {
	m, d := newManager(t), &fakeDaemon{text: "well"}
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "30000")
	start(t, d)
	for _, want := range []string{"STATUS=well", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := m.next(); got != want {
			t.Errorf("systemd received %q, not %q", got, want)
		}
	}
	d.set(false, true, "stuck")
	if got := m.next("WATCHDOG=1"); got != "STATUS=stuck" {
		t.Errorf("systemd received %q", got)
	}
	d.set(false, true, "still stuck")
	if got := m.next(); got != "STATUS=still stuck" {
		t.Errorf("of a stuck daemon systemd received %q", got)
	}
}

// TestAsksNothingWithoutSystemd: a daemon that systemd did not start is not asked for its
// state, which may cost more than the change that it follows.
func TestAsksNothingWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	d := &fakeDaemon{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	s := New(d)
	go func() { defer close(ended); s.Run(ctx, changed) }()
	s.Stop()
	cancel()
	<-ended
	if d.asked() > 0 {
		t.Errorf("the daemon was asked %d times", d.asked())
	}
}

// TestBusyDaemonIsAskedAtIntervals: a ready daemon that changes all the time is not asked
// for its state at every change, and its last state is reported.
func TestBusyDaemonIsAskedAtIntervals(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		t.Setenv("NOTIFY_SOCKET", t.TempDir()+"/no-socket")
		d, changed := &fakeDaemon{ready: true}, make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		s := New(d)
		go func() { defer close(ended); s.Run(ctx, changed) }()
		const changes = 1000
		for i := range changes {
			d.set(true, false, strconv.Itoa(i))
			select {
			case changed <- struct{}{}:
			default:
			}
			<-time.After(time.Millisecond)
		}
		<-time.After(changePause)
		synctest.Wait()
		if n, most := d.asked(), int(changes*time.Millisecond/changePause)+2; n > most {
			t.Errorf("the daemon was asked %d times in %d changes, more than %d", n, changes, most)
		}
		if s.text != strconv.Itoa(changes-1) {
			t.Errorf("the last report is %q", s.text)
		}
		cancel()
		<-ended
	})
}
