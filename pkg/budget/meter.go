package budget

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Meter starts to measure a cost; stop returns what it came to.
type Meter func() (stop func() time.Duration)

// Processor measures the processor time of the calling goroutine, the kernel's
// work for it included. Waiting for a lock costs nothing.
func Processor() (stop func() time.Duration) {
	runtime.LockOSThread()
	begin := threadTime()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return threadTime() - begin
	}
}

// Commands is Processor with the processor time of the commands that end
// meanwhile, whichever goroutine ran them.
func Commands() (stop func() time.Duration) {
	begin := childrenTime()
	thread := Processor()
	return func() time.Duration { return thread() + childrenTime() - begin }
}

// Elapsed measures the time that passes: to keep a disk busy is a cost too.
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
