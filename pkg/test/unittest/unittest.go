// Package unittest reads the files of systemd units for tests.
package unittest

import (
	"os"
	"strings"
	"testing"
)

// Settings returns the variables ("NAME=value") in a unit's file of settings, including
// those in comments, and the words of its variable OPTIONS.
func Settings(t *testing.T, path string) (environ, options []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "#"), "=")
		switch {
		case !found || strings.Contains(name, " "):
		case name == "OPTIONS":
			options = strings.Fields(strings.Trim(value, `"`))
		default:
			environ = append(environ, name+"="+value)
		}
	}
	return environ, options
}
