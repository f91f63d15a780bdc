package kubetest

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// process is a program that runs until it is killed, at the latest with this one.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	said  log
}

// log is the end of what a program says.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 64<<10 {
		l.text.Next(32 << 10)
	}
	return l.text.Write(text)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func launch(t testing.TB, command []string) *process {
	t.Helper()
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

// over says whether it has ended, and what it said.
func (p *process) over() (bool, string) {
	select {
	case <-p.ended:
		return true, p.said.String()
	default:
		return false, p.said.String()
	}
}
