package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
)

// TestPasswordMayChange: the store goes on after a new password and after lost
// tokens, and no output shows the password.
func TestPasswordMayChange(t *testing.T) {
	l, cluster := newCluster(t, 1)
	log := logtest.Capture(t, 0)
	l.SetConfig(network)
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first secret\n")
	var c counter
	s := l.openWith(func(o *Options) {
		o.Username, o.PasswordFile, o.dial = "node", file, c.options()
	})
	if _, err := s.Config(t.Context(), subnet.Config{}); err != nil {
		t.Fatalf("before etcd asks for names: %v", err)
	}
	cluster.Protect(prefix, map[string]string{"node": "first secret"})
	l.client = cluster.Client(t)
	l.Store = nil // it has no user name
	c.take()

	own := l.acquire(s, claim(1))
	l.hold(s, own)
	f := l.follow(s)
	f.await("the lease", f.has(own))
	l.goesOn(s, f, own)
	calls := c.take()
	if n := strings.Count(calls, "Authenticate"); n != 1 {
		t.Errorf("asked for %d tokens: %s", n, calls)
	}

	cluster.Member(0).Restart() // it forgets all tokens
	l.goesOn(s, f, own)

	changed, err := l.client.UserChangePassword(t.Context(), "node", "second secret")
	l.do("change the password", changed, err)
	l.Delete(own.Key())
	awaitStatus(t, s, false)
	t.Log(s.Status().Failing)
	write("wrong secret")
	if err := s.Reload(); err != nil {
		t.Error(err)
	}
	write("second secret\r\n")
	f.await("the lease", f.has(own))
	awaitStatus(t, s, true)
	l.goesOn(s, f, own)

	if n := log.Count("refuses the name or the password"); n != 1 {
		t.Errorf("reported the wrong password %d times", n)
	}
	if log.Count("secret") > 0 {
		t.Error("reported a secret")
	}
	if f.lists > 2 { // the restart may have lost the last write that we saw
		t.Errorf("%d lists", f.lists)
	}

	wrong := l.openWith(func(o *Options) { o.Username, o.Password = "node", "guessed secret" })
	refuses := func(s *Store, key, why string) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error { // a busy etcd may take longer to answer
			_, err := s.client.Get(briefly(t), key)
			if err == nil || strings.Contains(words(err), "secret") {
				t.Fatalf("%s: %v", key, err)
			}
			if !strings.Contains(words(err), why) {
				return fmt.Errorf("%s: %w, want %q", key, err, why)
			}
			return nil
		})
	}
	refuses(wrong, prefix, "refuses the name or the password")
	refuses(l.open(), prefix, "set the user name and the password file")
	// A node's role allows only what a node does.
	if _, err := s.client.Put(t.Context(), prefix+"/config", "{}"); err == nil || !strings.Contains(words(err), "readwrite") {
		t.Errorf("a node may write the config: %v", err)
	}
	outside := l.openWith(func(o *Options) { o.Username, o.PasswordFile, o.Prefix = "node", file, "/other" })
	refuses(outside, "/other", "readwrite")
}

func TestPasswordFileIsChecked(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := func(username, password, file string) error {
		s, err := Open(Options{Endpoints: []string{"http://127.0.0.1:1"}, Username: username, Password: password, PasswordFile: file})
		if err == nil {
			s.Close()
		}
		return err
	}
	for name, test := range map[string]struct {
		username, password, file, want string
	}{
		"nothing":          {},
		"a password":       {username: "u", password: "secret"},
		"a file":           {username: "u", file: file("good", "secret\n")},
		"the longest":      {username: "u", file: file("longest", strings.Repeat("s", longestPassword))},
		"spaces are of it": {username: "u", file: file("spaces", "  sec ret \n")},
		"need a user name": {password: "secret", want: "needs the user name"},
		"not a password":   {username: "u", want: "needs the password file"},
		"both":             {username: "u", password: "secret", file: file("both", "secret"), want: "one of"},
		"missing":          {username: "u", file: filepath.Join(dir, "missing"), want: "no such file"},
		"a folder":         {username: "u", file: dir, want: "is a directory"},
		"empty":            {username: "u", file: file("empty", "\n"), want: "is empty"},
		"too long":         {username: "u", file: file("long", strings.Repeat("s", longestPassword+1)), want: "more than 4096 bytes"},
		"two lines":        {username: "u", file: file("two", "secret\nsecret\n"), want: "more than one line"},
	} {
		err := open(test.username, test.password, test.file)
		if test.want == "" != (err == nil) || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := passwordIn(filepath.Join(dir, "spaces")); p != "  sec ret " {
		t.Errorf("%q, %v", p, err)
	}
}
