// Package systemd tells systemd how the daemon is, where it is run by one.
package systemd

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"
)

// Daemon is what there is to tell about.
type Daemon interface {
	// Condition returns, within ctx, whether the daemon does its work, and how it is
	// in a line.
	Condition(ctx context.Context) (ready bool, text string)
	// Alive says, within ctx, whether the daemon still turns.
	Alive(ctx context.Context) bool
}

// Service is a daemon that systemd may have started.
type Service struct {
	daemon   Daemon
	watchdog time.Duration // how often a sign of life is due; 0 is never

	mu    sync.Mutex
	ready bool   // READY was sent
	text  string // of the STATUS sent last
}

// New makes a service of d.
func New(d Daemon) *Service {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		klog.ErrorS(err, "Ignoring systemd's invalid watchdog interval")
	}
	return &Service{daemon: d, watchdog: interval}
}

// statusInterval is how long the status may lag behind what sends no notification.
const statusInterval = 5 * time.Second

// Run reports the daemon's state whenever changed signals, and at intervals, until
// ctx ends: READY once, STATUS when it changes, and WATCHDOG as long as the daemon is
// alive, if the unit asks for it.
func (s *Service) Run(ctx context.Context, changed <-chan struct{}) {
	interval := statusInterval
	if s.watchdog > 0 {
		interval = min(interval, s.watchdog/3)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		s.notifyChange(ctx)
		if s.watchdog > 0 {
			s.live(ctx, interval)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// notifyChange tells systemd what has changed.
func (s *Service) notifyChange(ctx context.Context) {
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
}

// live sends a sign of life. A daemon that does not turn within limit gets none,
// and is ended by systemd before long.
func (s *Service) live(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if s.daemon.Alive(ctx) {
		notify(daemon.SdNotifyWatchdog)
	}
}

// Reload runs f, between a RELOADING and a READY if systemd knows that the daemon
// is ready: a READY makes it so.
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

// Stop tells that the daemon ends.
func (s *Service) Stop() { notify(daemon.SdNotifyStopping) }

// line is text on one line, of a length for people: another line would be a
// message of its own.
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

// notify sends state to systemd, if it is there.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		klog.V(1).ErrorS(err, "Failed to notify systemd", "state", state)
	}
}
