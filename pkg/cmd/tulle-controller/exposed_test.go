package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExposed names each setting whose file every user may read.
func TestExposed(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, token, google := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "token"), filepath.Join(dir, "google.json")
	for path, text := range map[string]string{kubeconfig: `{"users": [{"name": "a", "user": {"tokenFile": "token"}}]}`, token: "", google: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(googleFile, google)
	s := settings{kubeconfig: kubeconfig}
	if is := s.exposed(); len(is) > 0 {
		t.Errorf("with mode 0600: %q", is)
	}
	for path, want := range map[string]string{kubeconfig: "--kubeconfig: ", token: "--kubeconfig: ", google: googleFile + ": "} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(s.exposed(), func(w string) bool { return strings.HasPrefix(w, want+path) }) {
			t.Errorf("%s is open to every user: %q", path, s.exposed())
		}
	}
}
