package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/etcdflags"
)

// TestExposed names each setting whose file every user may read.
func TestExposed(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, token, google := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "token"), filepath.Join(dir, "google.json")
	key, password := filepath.Join(dir, "key.pem"), filepath.Join(dir, "password")
	for path, text := range map[string]string{
		kubeconfig: `{"users": [{"name": "a", "user": {"tokenFile": "token"}}]}`, token: "", google: "", key: "", password: "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(googleFile, google)
	s := settings{kubeconfig: kubeconfig, etcd: etcdflags.Etcd{KeyFile: key, PasswordFile: password}}
	if is := s.exposed(); len(is) > 0 {
		t.Errorf("with mode 0600: %q", is)
	}
	for path, want := range map[string]string{
		kubeconfig: "--kubeconfig: ", token: "--kubeconfig: ", google: googleFile + ": ", key: "--etcd-keyfile: ", password: "--etcd-password-file: ",
	} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(s.exposed(), func(w string) bool { return strings.HasPrefix(w, want+path) }) {
			t.Errorf("%s is open to every user: %q", path, s.exposed())
		}
	}
}
