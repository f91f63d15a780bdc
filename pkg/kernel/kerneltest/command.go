package kerneltest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Try runs a command. Its error names the command, and has its output.
func Try(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// Run runs a command that must succeed, and returns its output without the space around.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s%s", strings.Join(cmd.Args, " "), err, out, &complaint)
	}
	return strings.TrimSpace(string(out))
}
