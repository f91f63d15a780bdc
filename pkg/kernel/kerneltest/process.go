package kerneltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Spawn starts a command that ends with this process at the latest. Then it calls
// reap, which waits for its end. It returns when the command was started.
func Spawn(cmd *exec.Cmd, reap func()) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		// The kernel kills the command when the thread that started it ends, and Go
		// ends threads: this one stays as long as the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			reap()
		}
	}()
	return <-started
}

// Process is a server that a test runs. Only one goroutine may call its methods.
type Process struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
	said  words
}

// Launch runs a command with more variables ("NAME=value"), in a named network
// namespace or in this process's.
func Launch(t testing.TB, namespace string, env []string, command ...string) *Process {
	t.Helper()
	if namespace != "" {
		// ip becomes the program: there is one process, with one ID.
		command = append([]string{"ip", "netns", "exec", namespace}, command...)
	}
	p := &Process{t: t, cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	err := Spawn(p.cmd, func() {
		_ = p.cmd.Wait() // its state says how it ended
		close(p.ended)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// PID returns its process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Spent returns the processor time that the running process has used, to ten milliseconds.
func (p *Process) Spent() time.Duration {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		p.t.Fatal(err)
	}
	// The name of the program is in brackets, and may contain spaces and brackets.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // in user mode, and in the kernel
		n, err := strconv.Atoi(f)
		if err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to %s: %v", s, p.cmd, err)
	}
}

// Freeze stops it until Thaw. Its kernel still accepts connections.
func (p *Process) Freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	AwaitStopped(p.t, p.PID())
}

// Thaw ends Freeze.
func (p *Process) Thaw() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

// End ends it by a signal, frozen or not, and returns how it ended.
func (p *Process) End(by syscall.Signal) *os.ProcessState {
	_ = p.cmd.Process.Signal(by) // it may have ended before, which its state shows
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	<-p.ended
	return p.cmd.ProcessState
}

// Over reports whether it has ended.
func (p *Process) Over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Said returns the end of what it has written.
func (p *Process) Said() string { return p.said.String() }

// words are the end of what a program writes.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *words) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 64<<10 {
		l.text.Next(32 << 10)
	}
	return l.text.Write(text)
}

func (l *words) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
