package demotest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// sources are the packages of the programs that the demo runs.
var sources = map[string]string{
	"tulled":     "github.com/tulle-net/tulle",
	"tulle-etcd": "github.com/tulle-net/tulle/pkg/cmd/tulle-etcd",
}

// built is the folder of the programs, built from this tree.
var built string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tulle-demotest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = dir
	for name, source := range sources {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), source).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v: %s", name, err, out)
			return 1
		}
	}
	return m.Run()
}

// TestHeldDemoSurvivesSecondOne starts a second demo while one is held. The second
// names the process to end. Ctrl-C ends the held demo, and make then exits with code 0.
func TestHeldDemoSurvivesSecondOne(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	terminal, err := newTerminal()
	if err != nil {
		t.Fatal(err)
	}
	held := l.start(terminal, "make", "-C", l.tree, "-f", l.makefile, "-o", "go", "-o", "demo-deps", "-o", "build", "demo", "HOLD=1")
	held.await("Enter or Ctrl-C removes it all.")
	before := l.namespaces()
	if len(before) != 7 {
		t.Fatalf("the demo has %d namespaces, want 7: %v", len(before), before)
	}

	second := l.start(nil, l.script)
	if code := second.end(); code != 1 {
		t.Errorf("the second demo exited with code %d, want 1", code)
	}
	process := l.owner()
	for _, want := range []string{"Another demo is up, process " + process, "run: kill " + process} {
		if said := second.said(); !strings.Contains(said, want) {
			t.Errorf("the second demo prints %q, which lacks %q", said, want)
		}
	}
	if after := l.namespaces(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("a second demo changed the namespaces from %v to %v", before, after)
	}

	if _, err := terminal.keyboard.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := held.end(); code != 0 {
		t.Errorf("after Ctrl-C, make exited with code %d, want 0; it printed:\n%s", code, held.said())
	}
	l.checkNothingLeft()
}

// TestDemoCleansUpAfterKilledOne checks that the next demo removes exactly what a
// killed demo left behind.
func TestDemoCleansUpAfterKilledOne(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.start(nil, l.script)
	first.await("$ ip -n tulle-demo-host2 link delete tulle.1") // a ping also runs then
	bystander := l.start(nil, "ip", "netns", "exec", "tulle-demo-host1", "cat")
	kerneltest.Eventually(t, patience, func() error { return l.runs("tulled", "tulle-etcd", "ping") })
	first.signal(syscall.SIGKILL)
	first.end()
	if err := l.runs("tulled", "tulle-etcd", "ping"); err != nil {
		t.Fatalf("this test proves nothing: %v", err)
	}

	second := l.start(nil, l.script)
	second.await("Removing what a demo left behind that was killed")
	second.await("Three hosts on a switch")
	for _, program := range []string{"tulled", "tulle-etcd", "ping"} {
		if l.runs(program) == nil {
			t.Errorf("%s outlives the cleanup", program)
		}
	}
	second.signal(syscall.SIGTERM)
	if code := second.end(); code != 143 {
		t.Errorf("after SIGTERM, the demo exited with code %d, want 143; it printed:\n%s", code, second.said())
	}
	if bystander.ended() {
		t.Error("the demo ended a process that it had not started")
	}
	bystander.signal(syscall.SIGKILL)
	bystander.end()
	l.checkNothingLeft()
}

// TestDemoLeavesForeignNamespace checks that the demo recognises its namespaces by more
// than their names.
func TestDemoLeavesForeignNamespace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const name = "tulle-demo-host2"
	if p := l.start(nil, "ip", "netns", "add", name); p.end() != 0 {
		t.Fatal(p.said())
	}
	before := l.namespaces()
	p := l.start(nil, l.script)
	if code, want := p.end(), "ip netns delete "+name; code != 1 || !strings.Contains(p.said(), want) {
		t.Errorf("the demo exited with code %d and printed %q, which lacks %q", code, p.said(), want)
	}
	if after := l.namespaces(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the demo changed the namespaces from %v to %v", before, after)
	}
	if p := l.start(nil, "ip", "netns", "delete", name); p.end() != 0 {
		t.Fatal(p.said())
	}
	l.checkNothingLeft()
}

const patience = 5 * time.Minute

// lab is a source tree with the programs and the script, and a /run of its own.
type lab struct {
	t                      *testing.T
	tree, script, makefile string
	temporary              string // where the demos create their folders
	holder                 int    // the process that holds the mount namespace
}

func newLab(t *testing.T) *lab {
	t.Helper()
	makefile, err := filepath.Abs("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, tree: t.TempDir(), temporary: t.TempDir(), makefile: makefile}
	t.Cleanup(func() {
		for id := range l.processes() {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
	})
	l.script = filepath.Join(l.tree, "dist/demo/demo.sh")
	script, err := os.ReadFile("../../../dist/demo/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(l.script), 0o755), os.WriteFile(l.script, script, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(l.tree, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name := range sources {
		if err := os.Link(filepath.Join(built, name), filepath.Join(l.tree, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	holder := l.start(nil, "unshare", "--mount", "sh", "-c", "mount -t tmpfs tulle-test /run && echo mounted && exec cat")
	holder.await("mounted")
	l.holder = holder.cmd.Process.Pid
	return l
}

// namespaces returns the names of the namespaces and their inodes.
func (l *lab) namespaces() map[string]uint64 {
	found := make(map[string]uint64)
	folder := fmt.Sprintf("/proc/%d/root/run/netns/", l.holder)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		var s syscall.Stat_t
		if err := syscall.Stat(folder+e.Name(), &s); err != nil {
			l.t.Fatal(err)
		}
		found[e.Name()] = s.Ino
	}
	return found
}

// owner returns the process ID of the demo that is up.
func (l *lab) owner() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/run/tulle-demo", l.holder))
	if err != nil {
		l.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "=")
	process, _, _ := strings.Cut(rest, "-")
	return process
}

// processes returns the programs that demos of this lab started, by process ID.
func (l *lab) processes() map[int]string {
	found := make(map[int]string)
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, folder := range all {
		id, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || id == l.holder {
			continue
		}
		program, _ := os.Readlink(folder + "/exe") // it may have ended meanwhile
		environment, _ := os.ReadFile(folder + "/environ")
		if strings.HasPrefix(program, l.tree) || bytes.Contains(environment, []byte("TMPDIR="+l.temporary+"\x00")) {
			found[id] = filepath.Base(program)
		}
	}
	return found
}

// runs fails the test unless each of the programs runs.
func (l *lab) runs(programs ...string) error {
	found := slices.Collect(maps.Values(l.processes()))
	for _, want := range programs {
		if !slices.Contains(found, want) {
			return fmt.Errorf("no %s among the processes %q", want, found)
		}
	}
	return nil
}

func (l *lab) checkNothingLeft() {
	l.t.Helper()
	if found := l.processes(); len(found) > 0 {
		l.t.Errorf("left behind: processes %v", found)
	}
	if found := l.namespaces(); len(found) > 0 {
		l.t.Errorf("left behind: namespaces %v", found)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/tulle-demo", l.holder)); !errors.Is(err, os.ErrNotExist) {
		l.t.Errorf("left behind: the lock of the machine (%v)", err)
	}
	if found, err := os.ReadDir(l.temporary); err != nil || len(found) > 0 {
		l.t.Errorf("left behind: folders %v (%v)", found, err)
	}
}
