package etcdprocess

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var odd = Settings{
	Dir: "/var/lib/a $HOME/\"b\"\\c`d`", Listen: "https://[fd00::1]:2379",
	CertFile: "/etc/tulle/host's.pem", KeyFile: "/etc/tulle/key %n.pem", CAFile: "/etc/tulle/ca.pem", Verbosity: 3,
}

func TestArgumentsParseToTheSameSettings(t *testing.T) {
	for _, want := range []Settings{odd, Defaults, {Dir: "/d", Listen: "unix:///s"}} {
		got, words, err := Parse(want.Arguments(), nil)
		if err != nil || got != want || len(words) > 0 {
			t.Errorf("%+v became %+v, %q, %v", want, got, words, err)
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
	got, _, err := Parse(nil, strings.Split(string(out), "\x00"))
	if err != nil || got != odd {
		t.Errorf("%+v became %+v, %v", odd, got, err)
	}
}

func TestFlagBeatsVariable(t *testing.T) {
	environ := []string{"TULLE_ETCD_LISTEN=http://127.0.0.1:1", "TULLE_ETCD_CAFILE=/ca", "TULLE_ETCD_DATA_DIR="}
	got, words, err := Parse([]string{"stop", "--listen", "http://127.0.0.1:2", "now"}, environ)
	want := Settings{Dir: Defaults.Dir, Listen: "http://127.0.0.1:2", CAFile: "/ca"}
	if err != nil || got != want || strings.Join(words, " ") != "stop now" {
		t.Errorf("%+v, %q, %v", got, words, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for want, told := range map[string]struct{ args, environ []string }{
		"-nonsense":                       {args: []string{"--nonsense"}},
		`invalid value "x" for flag -v`:   {args: []string{"-v", "x"}},
		`TULLE_ETCD_V is "-1"`:            {environ: []string{"TULLE_ETCD_V=-1"}},
		`--data-dir is "etcd"`:            {args: []string{"--data-dir=etcd"}},
		"flag needs an argument: -listen": {args: []string{"--listen"}},
	} {
		if _, _, err := Parse(told.args, told.environ); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, not %q", told, err, want)
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

func TestHelpShowsEveryDefault(t *testing.T) {
	help := Help()
	for _, want := range []string{"--data-dir DIR", Defaults.Dir, "--listen URL", Defaults.Listen, "-v LEVEL"} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q in\n%s", want, help)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("--data-dir=/d\x00--listen", "TULLE_ETCD_V=1")
	f.Add("stop\x00-v=2", "")
	f.Fuzz(func(t *testing.T, args, variable string) {
		s, _, err := Parse(strings.Split(args, "\x00"), []string{variable})
		if err == nil && (!filepath.IsAbs(s.Dir) || s.Verbosity < 0) {
			t.Errorf("%+v", s)
		}
	})
}
