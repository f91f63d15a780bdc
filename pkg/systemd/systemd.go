// Package systemd tells systemd how the daemon is, where it is run by one.
package systemd

import (
	"context"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Daemon is what there is to tell about.
type Daemon interface {
	// Condition is whether the daemon does its work, and how it is in a line.
	Condition() (ready bool, text string)
	// Alive says, within ctx, whether the daemon still turns.
	Alive(ctx context.Context) bool
}

// Run tells of d whenever changed says that there may be news, and now and then
// besides, until ctx ends: READY once, STATUS when it is another, and WATCHDOG as
// long as d is alive, if the unit asks for it.
func Run(ctx context.Context, d Daemon, changed <-chan struct{}) {
	s := service{daemon: d}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		klog.ErrorS(err, "Systemd's watchdog interval is of no use")
	}
	s.watchdog = interval > 0
	if interval == 0 || interval/3 > often {
		interval = 3 * often
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		s.tell(ctx, interval/3)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// often is how long the status may lag behind what nobody tells of.
const often = 5 * time.Second

type service struct {
	daemon   Daemon
	watchdog bool
	ready    bool   // READY was sent
	text     string // sent last
}

// tell sends what is news. A daemon that does not turn within limit gets no
// sign of life, and is ended by systemd before long.
func (s *service) tell(ctx context.Context, limit time.Duration) {
	ready, text := s.daemon.Condition()
	if ready && !s.ready {
		s.ready = true
		Notify(daemon.SdNotifyReady)
	}
	if text != s.text {
		s.text = text
		Notify("STATUS=" + text)
	}
	if !s.watchdog {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if s.daemon.Alive(ctx) {
		Notify(daemon.SdNotifyWatchdog)
	}
}

// Reloading tells that the daemon reads its files anew, until done is called.
func Reloading() (done func()) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		Notify(daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10))
	}
	return func() { Notify(daemon.SdNotifyReady) }
}

// Stopping tells that the daemon ends.
func Stopping() { Notify(daemon.SdNotifyStopping) }

// Notify sends state to systemd, if it is there.
func Notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		klog.V(1).ErrorS(err, "Could not tell systemd", "state", state)
	}
}
