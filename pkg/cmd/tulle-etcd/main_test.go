package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// asProgram is the variable that makes this test's binary the program.
const asProgram = "TEST_RUNS_TULLE_ETCD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

var addresses atomic.Uint32

// newSettings returns those of an etcd with a loopback address of its own.
func newSettings(t *testing.T, scheme string) etcdprocess.Settings {
	t.Helper()
	pid := os.Getpid()
	return etcdprocess.Settings{
		Dir:    filepath.Join(t.TempDir(), "etcd"),
		Listen: fmt.Sprintf("%s://127.%d.%d.%d:2379", scheme, 1+pid>>8%200, pid%256, 1+addresses.Add(1)),
	}
}

// execute runs the program with arguments, which ends with the test.
func execute(t *testing.T, variables []string, args ...string) *kerneltest.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := kerneltest.Launch(t, "", append(variables, asProgram+"=1", "GORACE=atexit_sleep_ms=0"), append([]string{self}, args...)...)
	t.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

func launch(t *testing.T, s etcdprocess.Settings) *kerneltest.Process {
	t.Helper()
	return execute(t, nil, s.Arguments()...)
}

// awaitState waits until a process says that it is in a state.
func awaitState(t *testing.T, p *kerneltest.Process, s etcdprocess.Settings, want companion.State) (said companion.Process) {
	t.Helper()
	kerneltest.Eventually(t, time.Minute, func() error {
		c, now, err := companion.Dial(t.Context(), s.Dir)
		if err != nil {
			return fmt.Errorf("%w; it wrote %s", err, p.Said())
		}
		defer c.Close()
		if said = now; said.State != want {
			return fmt.Errorf("%+v", said)
		}
		return nil
	})
	if said.PID != p.PID() {
		t.Errorf("process %d answers, not %d", said.PID, p.PID())
	}
	return said
}

// wantEnd waits for the end of a process, which has to write something.
func wantEnd(t *testing.T, p *kerneltest.Process, code int, said string) {
	t.Helper()
	kerneltest.Eventually(t, time.Minute, func() error {
		if !p.Over() {
			return errors.New("it has not ended")
		}
		return nil
	})
	if state := p.End(0); state.ExitCode() != code || !strings.Contains(p.Said(), said) {
		t.Errorf("%v, and it wrote %s", state, p.Said())
	}
}

// Data of the etcd that former versions ran inside tulled go on.
func TestTakesOverAFolder(t *testing.T) {
	s := newSettings(t, "http")
	server, err := etcdserver.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcdtest.Dial(t, s.Listen).Put(t.Context(), "x", "y"); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	// Such an etcd left this when it crashed.
	if err := os.WriteFile(filepath.Join(s.Dir, "peer.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, s)
	awaitState(t, p, s, companion.Running)
	r, err := etcdtest.Dial(t, s.Listen).Get(t.Context(), "x")
	if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "y" {
		t.Errorf("%v, %v", r, err)
	}
}

func TestOneProcessAFolder(t *testing.T) {
	s := newSettings(t, "http")
	first := launch(t, s)
	awaitState(t, first, s, companion.Running)
	other := newSettings(t, "http")
	other.Dir = s.Dir
	wantEnd(t, launch(t, other), 1, "another tulle-etcd uses "+s.Dir)
	awaitState(t, first, s, companion.Running)
}

func TestStopCommand(t *testing.T) {
	s := newSettings(t, "http")
	p := launch(t, s)
	awaitState(t, p, s, companion.Running)
	wantEnd(t, execute(t, nil, "stop", "--data-dir="+s.Dir), 0, fmt.Sprintf("stopped tulle-etcd, process %d\n", p.PID()))
	wantEnd(t, p, 0, "Stopping etcd")
	wantEnd(t, execute(t, []string{"TULLE_ETCD_DATA_DIR=" + s.Dir}, "stop"), 0, "no tulle-etcd runs on "+s.Dir)
}

// A process that cannot start reports the reason to its parent, and ends.
func TestFailureIsToldBeforeTheEnd(t *testing.T) {
	s := newSettings(t, "http")
	l, err := net.Listen("tcp", strings.TrimPrefix(s.Listen, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := launch(t, s)
	var c *companion.Client
	var said companion.Process
	kerneltest.Eventually(t, time.Minute, func() (err error) {
		c, said, err = companion.Dial(t.Context(), s.Dir)
		return err
	})
	defer c.Close()
	for err == nil && said.State == companion.Starting {
		said, err = c.Next()
	}
	if err != nil || said.State != companion.Failed || !strings.Contains(said.Problem, "another process listens") {
		t.Errorf("%+v, %v", said, err)
	}
	wantEnd(t, p, 1, "another process listens")
}

func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"version": "devel", "--version --data-dir=x": "devel", "--help": "Usage:", "stop --help": "Usage:",
		"man": ".TH TULLE\\-ETCD 8", "completion bash": "# bash completion for tulle-etcd", "completion fish": "__tulle_etcd_needs_command",
	} {
		wantEnd(t, execute(t, nil, strings.Fields(args)...), 0, want)
	}
	for args, want := range map[string]string{
		"stopp":                             `unknown command "stopp"; did you mean "stop"?`,
		"stop now":                          "unexpected argument 2, not counting flags; quote a value with spaces, and see tulle-etcd --help",
		"completion":                        "completion needs a shell; use one of bash, zsh, fish",
		"--dir=/x":                          "--dir: unknown flag; see tulle-etcd --help",
		"--listen":                          "--listen: needs a value, as in --listen=URL",
		"--data-dir=x":                      "not an absolute path",
		"--listen=http://0.0.0.0:2379":      "beyond loopback anybody could read and change the network",
		"--listen=https://127.0.0.1:1":      "https needs a certificate",
		"--listen=nonsense":                 "give a URL like http://127.0.0.1:2379",
		"--listen=http://r:hunter2@[::1]:1": "a user or a password in it",
	} {
		if strings.HasPrefix(args, "--listen") {
			args += " --data-dir=" + t.TempDir()
		}
		p := execute(t, nil, strings.Fields(args)...)
		wantEnd(t, p, 1, want)
	}
}

func TestTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	hear := func(want string) {
		t.Helper()
		for text := make([]byte, 4096); ; {
			n, err := l.Read(text)
			if err != nil {
				t.Fatalf("no %s: %v", want, err)
			}
			if string(text[:n]) == want {
				return
			}
		}
	}
	s := newSettings(t, "http")
	p := execute(t, []string{"NOTIFY_SOCKET=" + path}, s.Arguments()...)
	hear("READY=1")
	awaitState(t, p, s, companion.Running)
	c, _, err := companion.Dial(t.Context(), s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.AskToStop(); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
	wantEnd(t, p, 0, "")
}

// Whatever its umask was, only its own user reaches its sockets and its data.
func TestNothingIsForOthers(t *testing.T) {
	s := newSettings(t, "http")
	s.Listen = "unix://" + filepath.Join(t.TempDir(), "etcd.sock")
	old := syscall.Umask(0)
	p := launch(t, s)
	syscall.Umask(old)
	awaitState(t, p, s, companion.Running)
	for _, path := range []string{s.Dir, strings.TrimPrefix(s.Listen, "unix://")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestStopsDuringTheStart: a program that waits for a folder stops at once. An etcd
// without our lock uses the folder.
func TestStopsDuringTheStart(t *testing.T) {
	s := newSettings(t, "http")
	server, err := etcdserver.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	other := newSettings(t, "http")
	other.Dir = s.Dir
	p := launch(t, other)
	awaitState(t, p, other, companion.Starting)
	ctx, cancel := context.WithTimeout(t.Context(), mostToStop)
	defer cancel()
	if _, err := companion.Stop(ctx, s.Dir); err != nil {
		t.Error(err)
	}
	wantEnd(t, p, 0, "")
}

// TestExposedFilesAreNamed: the key and the data are for root alone.
func TestExposedFilesAreNamed(t *testing.T) {
	s := etcdprocess.Settings{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "key.pem")}
	if err := os.WriteFile(s.KeyFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]int{0o700: 0, 0o755: 2} {
		for _, path := range []string{s.Dir, s.KeyFile} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		if got := exposed(s); len(got) != want || want > 0 && (!strings.HasPrefix(got[0], "--keyfile: ") || !strings.HasPrefix(got[1], "--data-dir: ")) {
			t.Errorf("mode %o: %q", mode, got)
		}
	}
}
