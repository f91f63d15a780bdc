package etcdflags

import (
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/flags"
)

// set sets flags, and returns the result.
func set(t *testing.T, given map[string]string) Etcd {
	t.Helper()
	var e Etcd
	for _, f := range e.Flags("etcd") {
		if value := given[f.Name]; value != "" {
			if err := f.Set(value); err != nil {
				t.Fatalf("--%s=%s: %v", f.Name, value, err)
			}
		}
	}
	e.Finish()
	return e
}

func dashed(flag string) string { return "--" + flag }

// TestEveryFlagReachesTheStore: each flag sets an option of the store, whose errors name the
// flag.
func TestEveryFlagReachesTheStore(t *testing.T) {
	e := set(t, map[string]string{
		"etcd-endpoints": "h:1, unix:///s", "etcd-prefix": "/a//b/", "etcd-cafile": "/ca", "etcd-certfile": "/cert", "etcd-keyfile": "/key",
		"etcd-username": "u", "etcd-password": "p", "etcd-password-file": "/password",
	})
	o := e.Options(dashed)
	if !slices.Equal(o.Endpoints, []string{"https://h:1", "unix:///s"}) || o.Prefix != "/a/b" || o.CAFile != "/ca" || o.CertFile != "/cert" ||
		o.KeyFile != "/key" || o.Username != "u" || o.Password != "p" || o.PasswordFile != "/password" {
		t.Errorf("the store gets %+v", o)
	}
	for want, given := range map[string]map[string]string{
		"--etcd-password: conflicts with --etcd-password-file": {"etcd-username": "u", "etcd-password": "p", "etcd-password-file": "/password"},
		"--etcd-password-file: needs --etcd-username":          {"etcd-password-file": "/password"},
		"--etcd-certfile: needs --etcd-keyfile":                {"etcd-certfile": "/cert"},
	} {
		if err := set(t, given).Check(dashed); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %s", given, err, want)
		}
	}
}

// TestProgramReplacesTextAndDefault: a program may replace the default and the text of a
// flag. The other flags stay.
func TestProgramReplacesTextAndDefault(t *testing.T) {
	var e Etcd
	own := e.Flags("Store", flags.Flag{Name: "etcd-endpoints", Default: "http://127.0.0.1:2379"}, flags.Flag{Name: "etcd-certfile", About: "a text"})
	for i, f := range e.Flags("Store") {
		switch f.Name {
		case "etcd-endpoints":
			f.Default = "http://127.0.0.1:2379"
		case "etcd-certfile":
			f.About = "a text"
		}
		if got := own[i]; got.Name != f.Name || got.Default != f.Default || got.About != f.About || got.Group != "Store" {
			t.Errorf("--%s: %+v", f.Name, got)
		}
	}
}
