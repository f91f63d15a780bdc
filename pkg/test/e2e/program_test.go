package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestProgramHasEveryBackend checks that the program knows each documented backend, and
// lists them all in the error for an unknown one.
func TestProgramHasEveryBackend(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(tulled.Argv[0], "check-config")
	cmd.Stdin = strings.NewReader(`{"Network": "10.5.0.0/16", "Backend": {"Type": "pigeon"}}`)
	const want = "set it to one of alloc, cloud, extension, host-gw, ipip, udp, vxlan, wireguard"
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("exits with %v and prints %q, which lacks %q", err, out, want)
	}
}
