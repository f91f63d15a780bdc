package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// textSoFar is what a process has written so far.
type textSoFar struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *textSoFar) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *textSoFar) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until a process has written a text, and fails the test if the process ends before.
func (w *textSoFar) await(t testing.TB, text string, ended <-chan struct{}) {
	t.Helper()
	for !strings.Contains(w.String(), text) {
		select {
		case <-ended:
			t.Fatalf("the process ended, and did not write %q:\n%s", text, w)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ends returns a channel that is closed when a process has ended.
func ends(c *exec.Cmd) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		c.Wait()
		close(ended)
	}()
	return ended
}

// TestNetworkCommandEndsAtOnceOnASecondSignal: a call without an answer does not hold the program.
func TestNetworkCommandEndsAtOnceOnASecondSignal(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/small.yaml")
	reached := make(chan struct{})
	l.fake.Inject(awstest.Fault{Action: "CreateVpc", Times: 1, Hang: true, When: func(awstest.Call) bool {
		select {
		case <-reached:
		default:
			close(reached)
		}
		return true
	}})
	c, _, said := l.start("apply")
	ended := ends(c)
	<-reached
	c.Process.Signal(syscall.SIGINT)
	said.await(t, "a second signal ends the program at once", ended)
	c.Process.Signal(syscall.SIGINT)
	<-ended
	if is, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || is.Signal() != syscall.SIGINT {
		t.Errorf("%s: %s", c.ProcessState, said)
	}
}

// TestNetworkDestroyAsksAPerson: on a terminal, destroy asks for the cluster's name. Any other
// answer deletes nothing.
func TestNetworkDestroyAsksAPerson(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/private.yaml")
	l.want(0, nil, "apply")
	before := l.fake.Counts()["DeleteVpc"]
	if out, shown, code := l.answer("yes"); code != 2 || !strings.Contains(shown, "nothing was deleted") || !strings.Contains(out, "delete  vpc/main") {
		t.Errorf("%d\n%s\n%s", code, out, shown)
	}
	if n := l.fake.Counts()["DeleteVpc"]; n != before {
		t.Errorf("the VPC was deleted")
	}
	if out, shown, code := l.answer("prod"); code != 0 || !strings.Contains(out, "the network is deleted") {
		t.Errorf("%d\n%s\n%s", code, out, shown)
	}
}

// answer runs aws destroy on a terminal, and types a line when it asks. shown is what the terminal
// shows.
func (l *networkLab) answer(line string) (out, shown string, code int) {
	l.Helper()
	must := func(err error) {
		if err != nil {
			l.Helper()
			l.Fatal(err)
		}
	}
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	defer keyboard.Close()
	must(unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	must(err)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	self, err := os.Executable()
	must(err)
	var stdout, stderr textSoFar
	c := exec.Command(self, "aws", "destroy", "-f", l.file, "--aws-api-share=1000")
	c.Env = append(append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0"), l.fake.Env()...)
	c.Stdin, c.Stdout, c.Stderr = screen, &stdout, screen
	must(c.Start())
	screen.Close() // the process has its own
	l.Cleanup(func() { c.Process.Kill() })
	drained := make(chan struct{})
	go func() { // a full terminal would stop the process; a read fails once it has ended
		io.Copy(&stderr, keyboard)
		close(drained)
	}()
	ended := ends(c)
	stderr.await(l, "to go on: ", ended)
	_, err = fmt.Fprintln(keyboard, line)
	must(err)
	<-ended
	<-drained
	return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
}
