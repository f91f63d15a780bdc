package kubetest

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// process is a program that runs until it is killed, at the latest with this one.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	said  words
}

// words are the end of what a program says.
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

// launch runs a command, in the namespace of a name or in this process's.
func launch(t testing.TB, namespace string, command []string) *process {
	t.Helper()
	if namespace != "" {
		// It becomes the program: there is one process, with one id.
		command = append([]string{"ip", "netns", "exec", namespace}, command...)
	}
	p := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// What the kernel has the program die with is this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it is killed, or says why
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) freeze(t testing.TB) error {
	t.Helper()
	err := p.cmd.Process.Signal(syscall.SIGSTOP)
	if err == nil {
		kerneltest.AwaitStopped(t, p.cmd.Process.Pid)
	}
	return err
}

func (p *process) thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// over says whether it has ended, and what it said.
func (p *process) over() (bool, string) {
	select {
	case <-p.ended:
		return true, p.said.String()
	default:
		return false, p.said.String()
	}
}
