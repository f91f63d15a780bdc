package runner

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// env is the environment of the tests' commands.
func env() []string { return []string{"PATH=" + os.Getenv("PATH")} }

func TestProcessGetsItsTextVariablesAndInput(t *testing.T) {
	for name, test := range map[string]struct{ text, stdin, want string }{
		"input":     {"cat", "data", "data\n"},
		"no input":  {"cat", "", "\n"},
		"variables": {`printf %s "$SUBNET"`, "", "10.5.2.0/24"},
		"a shell":   {`for i in 1 2; do printf "$i,"; done | tr , ';'`, "", "1;2;"},
		"hostile":   {"cat", "$(touch hostile) `touch hostile`\n'; touch hostile; '", "$(touch hostile) `touch hostile`\n'; touch hostile; '\n"},
		"zero":      {"cat", "a\x00b", "a\x00b\n"},
		"unread":    {"echo done", strings.Repeat("x", 1<<20), "done\n"},
		"much":      {"wc -c | tr -d ' \\n'", strings.Repeat("x", 1<<20), "1048577"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			o := start(t.Context(), process{text: test.text, env: append(env(), "SUBNET=10.5.2.0/24"), stdin: test.stdin, limit: time.Minute, most: 1 << 10})
			if o.err != nil || o.output != test.want || o.excess || o.killed {
				t.Errorf("got %+v, want %q", o, test.want)
			}
			if _, err := os.Stat("hostile"); err == nil {
				t.Error("data reached a shell")
			}
		})
	}
}

func TestFailedProcessQuotesTheEndOfItsOutput(t *testing.T) {
	long := strings.Repeat("x", 10000)
	for name, test := range map[string]struct{ text, want string }{
		"both outputs": {"echo out; echo err >&2; exit 3", `exit status 3, output "out err"`},
		"silent":       {"exit 4", "exit status 4"},
		"terminal":     {`printf 'a\033[2Jb\nc\0'; exit 1`, `exit status 1, output "a·[2Jb c·"`},
		"not UTF-8":    {`printf 'a\377b'; exit 1`, `exit status 1, output "a·b"`},
		"long":         {"echo begin " + long + " end; exit 1", `exit status 1, output "` + strings.Repeat("x", mostTail-5) + ` end"`},
		"unknown":      {"no-such-command-here", "exit status 127"},
		"killed":       {"kill -9 $$", "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			o := start(t.Context(), process{text: test.text, env: env(), limit: time.Minute})
			if o.err == nil || !strings.HasPrefix(o.err.Error(), test.want) {
				t.Errorf("got %v, want %q", o.err, test.want)
			}
			if o.killed {
				t.Error("it counts as killed at its limit")
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	o := start(t.Context(), process{text: "yes | head -c 10000000", env: env(), limit: time.Minute, most: 7})
	if o.err != nil || o.output != "y\ny\ny\ny" || !o.excess {
		t.Errorf("got %+v", o)
	}
}

// TestHungProcessIsKilledWithItsGroup starts a tree of processes that ignore signals and
// hold the output open.
func TestHungProcessIsKilledWithItsGroup(t *testing.T) {
	dir := t.TempDir()
	text := `trap '' TERM INT HUP; sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 60; done' & echo $$ > leader; echo hangs; wait`
	begin := time.Now()
	o := start(t.Context(), process{text: "cd " + dir + " && " + text, env: env(), limit: 300 * time.Millisecond})
	if o.err == nil || !o.killed || !strings.Contains(o.err.Error(), "did not end within 300ms and was killed") || !strings.Contains(o.err.Error(), `"hangs"`) {
		t.Errorf("it ended with %+v", o)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, name := range []string{"leader", "child"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // killed before it began
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, name, pid)
	}
}

// awaitEnd waits until a process is gone, or only its parent has not noticed.
func awaitEnd(t *testing.T, name string, pid int) {
	t.Helper()
	await(t, "the "+name+" to end", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") || strings.Contains(string(stat), ") X ")
	})
}

// await waits until a condition holds.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick, limit := time.NewTicker(time.Millisecond), time.NewTimer(20*time.Second)
	defer tick.Stop()
	defer limit.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// TestBackgroundProcessMayStay leaves one that keeps the output open.
func TestBackgroundProcessMayStay(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	o := start(t.Context(), process{text: "sleep 600 & echo $! > " + pidfile + "; echo ready", env: env(), limit: time.Minute, most: 100})
	if o.err != nil || o.output != "ready\n" {
		t.Errorf("got %+v", o)
	}
	text, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process in the background: %v", err)
	}
}

func TestProcessEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := filepath.Join(t.TempDir(), "began")
	done := make(chan outcome, 1)
	go func() {
		done <- start(ctx, process{text: "touch " + began + "; sleep 600", env: env(), limit: time.Hour})
	}()
	await(t, "the command to begin", func() bool {
		_, err := os.Stat(began)
		return err == nil
	})
	cancel()
	if o := <-done; o.err == nil || o.killed {
		t.Errorf("it ended with %+v", o)
	}
}

// TestOutputFitsALease: JSON writes some bytes as six.
func TestOutputFitsALease(t *testing.T) {
	for _, c := range []struct {
		output string
		more   bool
		want   string
	}{
		{"", false, ""},
		{strings.Repeat("x", MostOutput), false, ""},
		{strings.Repeat("x", MostOutput), true, "more than the 8192 bytes"},
		{strings.Repeat("<", 2000), false, ""},
		{strings.Repeat("<", 2100), false, "12602 bytes as JSON"},
	} {
		switch err := checkOutput(c.output, c.more); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%d bytes of %.1q: %v, want %q", len(c.output), c.output, err, c.want)
		}
	}
}
