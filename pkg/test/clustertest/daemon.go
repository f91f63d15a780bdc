package clustertest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// Command is a program with its first arguments, and environment variables
// ("NAME=value") in addition to the test's own.
type Command struct {
	Argv []string
	Env  []string
}

// Daemon is a process on a host.
type Daemon struct {
	Name string // of its host and its program
	PID  int

	c      *Cluster
	cmd    *exec.Cmd
	log    *output
	before time.Duration // CPU time that the launcher used
	ended  chan struct{} // closed at its end
	clock  clock

	mu    sync.Mutex
	asked bool // the test asked the process to end
	cpu   time.Duration
	peak  int64
}

// launch creates the view of a daemon that ip netns exec has put into its host's
// namespaces. Descriptor 3 is closed just before the daemon itself runs.
const launch = `set -e
mount --bind "$1/run" /run
[ ! -e /etc/machine-id ] || mount --bind "$1/machine-id" /etc/machine-id
echo "$2" >/proc/sys/kernel/hostname
shift 2
exec "$@" 3>&-`

// Start runs a command with more arguments on the host. It returns when the launcher
// has started the program; only the program's output shows whether it works.
func (h *Host) Start(command Command, args ...string) *Daemon {
	t := h.c.t
	t.Helper()
	argv := append(append([]string(nil), command.Argv...), args...)
	d := &Daemon{Name: h.Name + " " + filepath.Base(argv[0]), c: h.c, ended: make(chan struct{}), log: newOutput()}
	d.cmd = h.NS.Command(append([]string{"sh", "-c", launch, "sh", h.Dir, h.Name}, argv...)...)
	d.cmd.Env = append(os.Environ(), command.Env...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	// Processes that a daemon leaves behind may keep its output open.
	d.cmd.WaitDelay = time.Second
	ready, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	d.cmd.ExtraFiles = []*os.File{w}
	err = kerneltest.Spawn(d.cmd, d.reap)
	w.Close()
	if err != nil {
		t.Fatalf("start %s: %v", d.Name, err)
	}
	d.PID = d.cmd.Process.Pid
	h.c.mu.Lock()
	h.c.daemons = append(h.c.daemons, d)
	h.c.mu.Unlock()
	if err := ready.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := ready.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("start %s: %v", d.Name, err)
	}
	d.before = d.CPU()
	return d
}

// reap waits for the end, and reads the CPU time while the process still exists.
func (d *Daemon) reap() {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, d.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	d.readCPU()
	// The state shows how the process ended. Output that it left open is not an error.
	_ = d.cmd.Wait()
	d.log.close()
	close(d.ended)
}

// Running reports whether the process runs.
func (d *Daemon) Running() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// Log returns everything that the process has written so far.
func (d *Daemon) Log() string { return d.log.String() }

// WaitLog waits until the process has written text. It fails the test if the process
// ends first.
func (d *Daemon) WaitLog(text string) {
	d.c.t.Helper()
	if !d.log.wait(text, patience) {
		d.c.t.Fatalf("%s has not written %q", d.Name, text)
	}
}

// Signal sends a signal.
func (d *Daemon) Signal(s syscall.Signal) {
	d.c.t.Helper()
	d.readPeak()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.c.t.Fatalf("send %s to %s: %v", s, d.Name, err)
	}
}

// Kill ends the process as a crash would, and waits for its end.
func (d *Daemon) Kill() {
	d.c.t.Helper()
	d.end(syscall.SIGKILL)
}

// Stop asks the process to end, waits for its end, and returns its exit code. If a
// signal ended it, that is 128 plus the signal's number.
func (d *Daemon) Stop() int {
	d.c.t.Helper()
	return d.end(syscall.SIGTERM)
}

func (d *Daemon) end(s syscall.Signal) int {
	d.c.t.Helper()
	if !d.Running() {
		d.c.t.Fatalf("%s had already ended, %s", d.Name, d.cmd.ProcessState)
	}
	d.expectEnd()
	d.Signal(s)
	return d.Wait()
}

// Wait waits for the end of a process that is expected to end on its own. It returns
// its exit code as Stop does.
func (d *Daemon) Wait() int {
	d.c.t.Helper()
	d.expectEnd()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-d.ended:
	case <-timer.C:
		d.c.t.Fatalf("%s does not end", d.Name)
	}
	status := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func (d *Daemon) expectEnd() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = true
}

// Freeze stops the process, as if its host hung, and returns when all its threads are
// stopped. Thaw continues it.
func (d *Daemon) Freeze() {
	d.c.t.Helper()
	d.Signal(syscall.SIGSTOP)
	kerneltest.AwaitStopped(d.c.t, d.PID)
}

// Thaw continues a frozen process.
func (d *Daemon) Thaw() {
	d.c.t.Helper()
	d.Signal(syscall.SIGCONT)
}

func (d *Daemon) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", d.PID, name) }

// CPU returns the processor time that the process has used, without that of its
// children.
func (d *Daemon) CPU() time.Duration {
	if d.Running() {
		d.readCPU()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cpu - d.before
}

func (d *Daemon) readCPU() {
	// clock_getcpuclockid(3) describes the clock of a process's CPU time.
	const scheduled = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^d.cmd.Process.Pid<<3|scheduled), &ts); err != nil {
		return // it has just ended
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cpu = max(d.cpu, time.Duration(ts.Nano()))
}

// PeakMemory returns the largest resident memory of the process so far, in bytes. Once
// it has ended, the value is that of the last signal sent to it.
func (d *Daemon) PeakMemory() int64 {
	d.readPeak()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

// readPeak reads the peak from /proc. wait4 would return too much: its count includes
// the memory of the process that forked this one.
func (d *Daemon) readPeak() {
	if !d.Running() {
		return
	}
	status, err := os.ReadFile(d.proc("status"))
	if err != nil {
		return // it has just ended
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err == nil {
		d.mu.Lock()
		d.peak = max(d.peak, kib<<10)
		d.mu.Unlock()
	}
}

// finish ends the process when its test has ended.
func (d *Daemon) finish() {
	if !d.Running() {
		return
	}
	d.expectEnd()
	// It may have just ended.
	_ = d.cmd.Process.Kill()
	<-d.ended
}

// judge fails the test for each fault of a process that has ended.
func (d *Daemon) judge() {
	d.mu.Lock()
	asked := d.asked
	d.mu.Unlock()
	if !asked {
		d.c.t.Errorf("%s ended without being asked to, %s", d.Name, d.cmd.ProcessState)
	}
	if strings.Contains(d.Log(), "WARNING: DATA RACE") {
		d.c.t.Errorf("%s reported a data race", d.Name)
	}
}
