package kerneltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// AwaitStopped waits until all threads of a process that was sent SIGSTOP are
// stopped: until then it may answer.
func AwaitStopped(t testing.TB, pid int) {
	t.Helper()
	Eventually(t, time.Minute, func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("process %d has no threads: %w", pid, err)
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(string(text[strings.LastIndexByte(string(text), ')')+1:]), " T") {
				return fmt.Errorf("process %d has not stopped: %s", pid, text)
			}
		}
		return nil
	})
}
