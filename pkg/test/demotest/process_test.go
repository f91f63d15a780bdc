package demotest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// process is a program that runs in a lab.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	text strings.Builder // the output so far
}

// start starts a command in the lab's mount namespace, as soon as that exists. on is
// its terminal, or nil.
func (l *lab) start(on *terminal, command ...string) *process {
	l.t.Helper()
	if l.holder != 0 {
		command = append([]string{"nsenter", "--mount", "--target", strconv.Itoa(l.holder)}, command...)
	}
	p := &process{t: l.t, cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+l.temporary)
	p.cmd.WaitDelay = time.Second // children of a killed demo keep its output open
	if on == nil {
		stdin, err := p.cmd.StdinPipe() // never ends
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { stdin.Close() })
		p.cmd.Stdout, p.cmd.Stderr = p, p
	} else {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = on.screen, on.screen, on.screen
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	err := kerneltest.Spawn(p.cmd, func() {
		_ = p.cmd.Wait() // its state says how it ended
		close(p.done)
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		<-p.done
	})
	if on != nil {
		on.screen.Close()
		go func() { _, _ = io.Copy(p, on.keyboard) }() // until the last process closes the screen
	}
	return p
}

// Write implements io.Writer for what the process writes.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// await waits until the process has written text.
func (p *process) await(text string) {
	p.t.Helper()
	kerneltest.Eventually(p.t, patience, func() error {
		ended := p.ended()
		said := p.said()
		if strings.Contains(said, text) {
			return nil
		}
		if ended {
			p.t.Fatalf("ended without %q in its output:\n%s", text, said)
		}
		return fmt.Errorf("no %q in its output:\n%s", text, said)
	})
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits until the process has ended and returns its exit code, which is -1 if a
// signal killed it.
func (p *process) end() int {
	p.t.Helper()
	kerneltest.Eventually(p.t, patience, func() error {
		if !p.ended() {
			return fmt.Errorf("%s has not ended; its output:\n%s", p.cmd, p.said())
		}
		return nil
	})
	return p.cmd.ProcessState.ExitCode()
}

// terminal is a pseudo-terminal: the process reads what is written to keyboard.
type terminal struct{ keyboard, screen *os.File }

func newTerminal() (*terminal, error) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(keyboard.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		keyboard.Close()
		return nil, err
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		keyboard.Close()
		return nil, err
	}
	return &terminal{keyboard, screen}, nil
}
