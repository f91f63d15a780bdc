package systemd

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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
}

func (d *fakeDaemon) set(ready, stuck bool, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready, d.stuck, d.text = ready, stuck, text
}

func (d *fakeDaemon) Condition(context.Context) (bool, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ready, d.text
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

func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	d := &fakeDaemon{}
	s, changed := start(t, d)
	changed <- struct{}{}
	s.Stop()
}
