package wireguardprocess

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/flags"
)

// parse reads a command line and an environment with the flags of the settings.
func parse(args, environ []string) (s Settings, err error) {
	given, err := flags.Program{Name: "tulle-wireguard", Prefixes: []string{Prefix}, Flags: s.Flags("")}.Read(args, environ)
	if err == nil {
		err = given.Apply()
	}
	return s, err
}

// TestSpecParsesToTheSameSettings reads the arguments, and the variables as a shell does.
func TestSpecParsesToTheSameSettings(t *testing.T) {
	for _, want := range []Settings{Defaults, {Dir: "/var/lib/a $HOME/\"b\"\\c`d`", Interface: "tulle6-wg"}} {
		spec := want.Spec("")
		if got, err := parse(spec.Arguments, nil); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		out, err := exec.Command("env", "-i", "sh", "-c", "set -a\n"+spec.Environment+"exec env -0").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parse(nil, strings.Split(string(out), "\x00")); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
	if spec := Defaults.Spec("x"); spec.Unit != "tulle-wireguard@tulle-wg.service" || spec.By != "x" || spec.Dir != Defaults.Dir {
		t.Errorf("the spec is %+v", spec)
	}
}

func TestDefaultsHold(t *testing.T) {
	if got, err := parse(nil, nil); err != nil || got != Defaults {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestFlagsRefuse(t *testing.T) {
	for args, want := range map[string]string{
		"--data-dir=etc": "not an absolute path", "--interface=": "empty", "--interface=a/b": "not the name of a device", "--interface=..": "not the name of a device",
	} {
		if _, err := parse([]string{args}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", args, err, want)
		}
	}
}
