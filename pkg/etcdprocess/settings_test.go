package etcdprocess

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/flags"
)

var odd = Settings{
	Dir: "/var/lib/a $HOME/\"b\"\\c`d`", Listen: "https://[fd00::1]:2379",
	CertFile: "/etc/tulle/host's.pem", KeyFile: "/etc/tulle/key %n.pem", CAFile: "/etc/tulle/ca.pem", AnyClient: true, Verbosity: 3,
}

// parse reads a command line and an environment with the flags of the settings.
func parse(args, environ []string) (s Settings, err error) {
	given, err := flags.Program{Name: "tulle-etcd", Prefixes: []string{Prefix}, Flags: s.Flags("")}.Read(args, environ)
	if err == nil {
		err = given.Apply()
	}
	return s, err
}

func TestArgumentsParseToTheSameSettings(t *testing.T) {
	for _, want := range []Settings{odd, Defaults, {Dir: "/d", Listen: "unix:///s"}} {
		if got, err := parse(want.Arguments(), nil); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
}

// A shell reads such a file as systemd does.
func TestEnvironmentParsesToTheSameSettings(t *testing.T) {
	script := "set -a\n" + odd.Environment() + "exec env -0"
	out, err := exec.Command("env", "-i", "sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(nil, strings.Split(string(out), "\x00")); err != nil || got != odd {
		t.Errorf("%+v became %+v, %v", odd, got, err)
	}
}

func TestFlagBeatsVariable(t *testing.T) {
	environ := []string{"TULLE_ETCD_LISTEN=http://127.0.0.1:1", "TULLE_ETCD_CAFILE=/ca", "TULLE_ETCD_DATA_DIR="}
	got, err := parse([]string{"--listen", "http://127.0.0.1:2"}, environ)
	if want := (Settings{Dir: Defaults.Dir, Listen: "http://127.0.0.1:2", CAFile: "/ca"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFlagsRefuse(t *testing.T) {
	for want, given := range map[string]struct{ args, environ []string }{
		`-v is "x": not a whole number`: {args: []string{"-v", "x"}},
		`TULLE_ETCD_V is "-1"`:          {environ: []string{"TULLE_ETCD_V=-1"}},
		"TULLE_ETCD_DATADIR: unknown variable; did you mean TULLE_ETCD_DATA_DIR?": {environ: []string{"TULLE_ETCD_DATADIR=/x"}},
		`--data-dir is "etcd": not an absolute path`:                              {args: []string{"--data-dir=etcd"}},
		"--listen: a URL with a user or a password in it":                         {args: []string{"--listen=http://root:hunter2@[::1]:1"}},
	} {
		if _, err := parse(given.args, given.environ); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, not %q", given, err, want)
		}
	}
}

// What listens at all addresses is found on loopback by clients on this host.
func TestEndpoint(t *testing.T) {
	for listen, want := range map[string]string{
		"http://192.0.2.1:2379": "http://192.0.2.1:2379",
		"https://0.0.0.0:2379":  "https://127.0.0.1:2379",
		"https://[::]:2379":     "https://127.0.0.1:2379",
		"https://:2379":         "https://127.0.0.1:2379",
		"http://localhost:4711": "http://localhost:4711",
		"unix:///run/etcd.sock": "unix:///run/etcd.sock",
	} {
		if got := (Settings{Listen: listen}).Endpoint(); got != want {
			t.Errorf("%s: %s", listen, got)
		}
	}
}

// FuzzFlags checks that every accepted command line gives usable settings.
func FuzzFlags(f *testing.F) {
	f.Add("--data-dir=/d\x00--listen", "TULLE_ETCD_V=1")
	f.Add("stop\x00-v=2", "")
	f.Fuzz(func(t *testing.T, args, variable string) {
		s, err := parse(strings.Split(args, "\x00"), []string{variable})
		if err == nil && (!filepath.IsAbs(s.Dir) || s.Verbosity < 0) {
			t.Errorf("%+v", s)
		}
	})
}
