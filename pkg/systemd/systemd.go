// Package systemd reports the state of the daemon to systemd, if systemd has started
// it.
package systemd

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"
)

// Daemon is what a Service reports on.
type Daemon interface {
	// Condition reports, within ctx, whether the daemon does its work, and returns its
	// state in one line.
	Condition(ctx context.Context) (ready bool, text string)
	// Alive reports, within ctx, whether the daemon's main loop still runs.
	Alive(ctx context.Context) bool
}

// Service is a daemon that systemd may have started.
type Service struct {
	daemon   Daemon
	watchdog time.Duration // how often systemd wants a sign of life; 0 is never

	mu    sync.Mutex
	ready bool   // READY was sent
	text  string // of the last STATUS
}

// New returns the Service of d.
func New(d Daemon) *Service {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		klog.ErrorS(err, "Ignoring systemd's invalid watchdog interval")
	}
	return &Service{daemon: d, watchdog: interval}
}

const (
	// statusInterval is how long the status may lag behind what sends no notification.
	statusInterval = 5 * time.Second
	// changePause is the shortest time between two reports of changes, once the daemon is
	// ready. A busy daemon changes all the time.
	changePause = 100 * time.Millisecond
)

// Run reports the daemon's state whenever changed signals, and at intervals, until
// ctx ends: READY once, STATUS when it changes, and WATCHDOG as long as the daemon is
// alive, if the unit asks for it. Without systemd, it does not ask the daemon anything.
func (s *Service) Run(ctx context.Context, changed <-chan struct{}) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		<-ctx.Done()
		return
	}
	interval := statusInterval
	if s.watchdog > 0 {
		interval = min(interval, s.watchdog/3)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		ready := s.notifyChange(ctx)
		if s.watchdog > 0 {
			s.live(ctx, interval)
		}
		if ready {
			sleep(ctx, min(changePause, interval))
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// notifyChange sends what has changed to systemd. It reports whether the daemon is ready.
func (s *Service) notifyChange(ctx context.Context) (ready bool) {
	ready, text := s.daemon.Condition(ctx)
	text = line(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ready && !s.ready {
		s.ready = true
		notify(daemon.SdNotifyReady)
	}
	if text != s.text {
		s.text = text
		notify("STATUS=" + text)
	}
	return ready
}

// live sends a sign of life if the daemon's main loop answers within limit. Without
// one, systemd ends the daemon.
func (s *Service) live(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if s.daemon.Alive(ctx) {
		notify(daemon.SdNotifyWatchdog)
	}
}

// Reload runs f, between a RELOADING and a READY if the daemon is ready. It sends
// neither before that, because a READY reports a daemon as ready.
func (s *Service) Reload(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		f()
		return
	}
	notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	f()
	notify(daemon.SdNotifyReady)
}

// Stop reports that the daemon ends.
func (s *Service) Stop() { notify(daemon.SdNotifyStopping) }

// line returns text as one line of limited length. systemd takes another line for
// another message.
func line(text string) string {
	const enough = 1000
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return text
}

// notify sends state to systemd, if systemd has started the daemon.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		klog.V(1).ErrorS(err, "Failed to notify systemd", "state", state)
	}
}
