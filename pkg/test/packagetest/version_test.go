package packagetest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestVersionsFollowGit checks the package versions that come from git's descriptions.
func TestVersionsFollowGit(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"v1.2.3-4-g0abcdef":       "1.2.3+4.g0abcdef",
		"v1.2.3-4-g0abcdef-dirty": "1.2.3+4.g0abcdef+dirty",
		"v1.2.3-rc.1":             "1.2.3~rc.1",
		"v1.2.3-rc.1-4-g0abcdef":  "1.2.3~rc.1+4.g0abcdef",
		"v1.2.3-rc.1-dirty":       "1.2.3~rc.1+dirty",
		"0abcdef":                 "0.0.0+1234567890.0abcdef",
		"1234567-dirty":           "0.0.0+1234567890.1234567+dirty",
		"v1.2.3_x":                "",
		"v1.2.3 x":                "",
	} {
		out, err := exec.Command("../../../dist/packages/version.sh", described, "1234567890").Output()
		if got := strings.TrimSpace(string(out)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v, not %q", described, got, err, want)
		}
	}
}
