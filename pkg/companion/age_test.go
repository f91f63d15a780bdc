package companion

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// The clock of the day may have been set since.
func TestStartedAtIgnoresClockOfTheDay(t *testing.T) {
	before := time.Now()
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{PID: cmd.Process.Pid, Started: before.Add(-10 * 365 * 24 * time.Hour).Round(0)}
	now := time.Now()
	if at := p.StartedAt(now); at.Before(before.Add(-2*tick)) || at.After(now.Add(2*tick)) {
		t.Errorf("started at %v, want between %v and %v", at, before, now)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if at := p.StartedAt(now); !at.Equal(p.Started) {
		t.Errorf("without the process: %v, want %v", at, p.Started)
	}
}

func FuzzStartedAfter(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 0"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, stat []byte) { _, _ = startedAfter(stat) })
}

func TestNameMayHoldParentheses(t *testing.T) {
	after, err := startedAfter([]byte("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 0"))
	if err != nil || after != 42420*time.Millisecond {
		t.Errorf("%v, %v", after, err)
	}
}
