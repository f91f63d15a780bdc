package budget

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Meter starts to measure a cost. stop returns the cost so far.
type Meter func() (stop func() time.Duration)

// Processor measures the processor time of the calling goroutine, including the kernel's
// work for it. Waiting costs nothing.
func Processor() (stop func() time.Duration) {
	runtime.LockOSThread()
	begin := threadTime()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return threadTime() - begin
	}
}

// Commands measures what Processor does, and the processor time of all commands that end
// meanwhile, whichever goroutine ran them.
func Commands() (stop func() time.Duration) {
	begin := childrenTime()
	thread := Processor()
	return func() time.Duration { return thread() + childrenTime() - begin }
}

// Elapsed measures the time that passes. It also counts the time in which a disk is busy.
func Elapsed() (stop func() time.Duration) {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0 // no Linux lacks this clock
	}
	return time.Duration(ts.Nano())
}

func childrenTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
