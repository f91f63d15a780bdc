package housetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeNamesTheGoThatItNeeds runs make with a Go of each version. One that is too
// old ends it with one line, where the compiler would complain about go.mod.
func TestMakeNamesTheGoThatItNeeds(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\ngo ")
	needed, _, _ := strings.Cut(rest, "\n")
	for version, found := range map[string]string{
		"go1.19.8":                    "1.19.8",
		"go1.9":                       "1.9",
		"":                            "none",
		"go" + needed:                 "",
		"go" + needed + " X:synctest": "",
		"go1.100rc1":                  "",
		"devel go1.100-cafe1234":      "",
	} {
		t.Run(version, func(t *testing.T) {
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "go"), fmt.Appendf(nil, "#!/bin/sh\necho '%s'\n", version), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("make", "--no-print-directory", "-C", "../../..", "go")
			cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C"}
			out, err := cmd.CombinedOutput()
			if found == "" {
				if err != nil || len(out) > 0 {
					t.Fatalf("%v\n%s", err, out)
				}
				return
			}
			line, _, _ := strings.Cut(string(out), "\n")
			if want := fmt.Sprintf("this needs Go %s and found %s: install it from https://go.dev/dl", needed, found); err == nil || !strings.HasPrefix(line, want) {
				t.Errorf("%v\n%s\nwant the first line to begin with %q", err, out, want)
			}
		})
	}
}
