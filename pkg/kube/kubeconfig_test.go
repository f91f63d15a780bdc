package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSecretFiles: a kubeconfig's key and token files are found, also where the
// kubeconfig names them relative to itself.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	for text, want := range map[string][]string{
		`{"users": [
			{"name": "a", "user": {"client-key": "a.key", "client-certificate": "a.pem"}},
			{"name": "b", "user": {"tokenFile": "/run/token"}},
			{"name": "c", "user": {"tokenFile": "/run/token", "client-key": "` + dir + `/a.key"}},
			{"name": "d", "user": {"token": "text", "client-key-data": "a2V5"}}]}`: {filepath.Join(dir, "a.key"), "/run/token"},
		`{}`:           nil,
		`users: [`:     nil,
		`{"users": 7}`: nil,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if got := SecretFiles(path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := SecretFiles(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("a missing kubeconfig names %q", got)
	}
}

// TestUnusableKubeconfigIsNamed checks that an error names the file and the fix.
func TestUnusableKubeconfigIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	for text, want := range map[string]string{
		"":                   "no such file or directory; name a file that this program may read",
		"{}":                 "has no cluster; name the file of an admin",
		"a: [":               "did not find expected node content",
		"current-context: x": "context was not found for specified context: x",
	} {
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		_, err := NewClient(Options{Kubeconfig: path})
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("kubeconfig %q: ", path)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
