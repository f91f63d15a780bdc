package companion

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// StartedAt returns when p started. Where /proc shows it, it goes by a clock that
// is not set, while p.Started is what the clock of the day showed then.
func (p *Process) StartedAt(now time.Time) time.Time {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return p.Started
	}
	after, err := startedAfter(stat)
	if err != nil {
		return p.Started
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return p.Started
	}
	return now.Add(after - time.Duration(up.Nano()))
}

const (
	// tick is the unit of times in /proc, on every architecture.
	tick = time.Second / 100
	// startField is the starttime's place behind the command's name.
	startField = 19
)

// startedAfter returns how long after boot the process of a /proc/PID/stat started.
func startedAfter(stat []byte) (time.Duration, error) {
	// The name is in parentheses, and may have some itself.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startField {
		return 0, fmt.Errorf("stat %.100q: too few fields", stat)
	}
	ticks, err := strconv.ParseInt(string(fields[startField]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stat %.100q: %w", stat, err)
	}
	return time.Duration(ticks) * tick, nil
}
