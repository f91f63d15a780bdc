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

// TestExposedKeysOfAWS names the files in the home folder, or those of the variables.
func TestExposedKeysOfAWS(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	elsewhere := filepath.Join(home, "config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "")
	t.Setenv("AWS_CONFIG_FILE", elsewhere)
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	var s settings
	s.cloud.provider = onAWS().name
	if is := s.exposed(); len(is) > 0 {
		t.Errorf("without files: %q", is)
	}
	for variable, path := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, ".aws/credentials"), "AWS_CONFIG_FILE": elsewhere} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if is := s.exposed(); len(is) > 0 {
			t.Errorf("with mode 0600: %q", is)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if is := s.exposed(); len(is) != 1 || !strings.HasPrefix(is[0], variable+": "+path) {
			t.Errorf("%s is open to every user: %q", path, is)
		}
		s.cloud.provider = ""
		if is := s.exposed(); len(is) > 0 {
			t.Errorf("without AWS: %q", is)
		}
		s.cloud.provider = onAWS().name
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
