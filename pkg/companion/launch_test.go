package companion

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func TestOnlyAServiceAsksSystemd(t *testing.T) {
	for _, test := range []struct {
		groups string
		parent int
		booted bool
		want   bool
	}{
		{"0::/system.slice/tulled.service\n", 1, true, true},
		{"12:pids:/system.slice\n1:name=systemd:/system.slice/tulled.service\n", 1, true, true},
		{"0::/system.slice/system-tulled.slice/tulled@one.service\n", 1, true, true},
		{"0::/system.slice/tulled.service\n", 1, false, false},
		{"0::/system.slice/runner.service\n", 4711, true, false},
		{"0::/user.slice/user-0.slice/session-1.scope\n", 1, true, false},
		{"12:pids:/system.slice/tulled.service\n", 1, true, false},
		{"0::/\n", 0, true, false},
		{"", 1, true, false},
		{"nonsense\n0:\n", 1, true, false},
	} {
		if got := isService(test.groups, test.parent, test.booted); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// script makes a program of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnitGetsItsSettingsBeforeItStarts(t *testing.T) {
	dir := t.TempDir()
	folder, said := filepath.Join(dir, "run/tulle"), filepath.Join(dir, "said")
	file, odd := filepath.Join(folder, "tulle-test.env"), spec("/d")
	u := unit{folder, script(t, fmt.Sprintf("cat %s >%s\necho \"$*\" >>%s\n", file, said, said))}
	if err := u.start(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(said)
	if want := odd.Environment + "--no-ask-password --no-block start tulle-test.service\n"; err != nil || string(got) != want {
		t.Errorf("%v: %s\nwant %s", err, got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestUnitThatDoesNotStartSaysWhatToDo(t *testing.T) {
	folder := t.TempDir()
	for text, want := range map[string]string{
		"echo 'Failed to start tulle-test.service: Unit tulle-test.service not found.' >&2; exit 5": "copy it from dist/systemd",
		"echo 'Unit tulle-test.service is masked.' >&2; exit 1":                                     "start tulle-test.service: Unit tulle-test.service is masked.",
		"exit 1": "start tulle-test.service with systemctl: exit status 1",
	} {
		if err := (unit{folder, script(t, text)}).start(t.Context(), spec("/d")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := (unit{folder, "/nowhere/systemctl"}).start(t.Context(), spec("/d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without systemctl: %v", err)
	}
}

// A child has a session of its own, its settings as flags, none of the variables
// that may hold a password, and a log of limited size.
func TestChild(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "a b"))
	c := child{func(Spec) (string, error) {
		return script(t, "echo $$ $(cut -d' ' -f6 /proc/$$/stat)\npwd\nenv\necho \"$*\"\necho end\n"), nil
	}}
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.log(s), make([]byte, mostLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TULLED_ETCD_PASSWORD", "secret")
	t.Setenv("GOTRACEBACK", "all")
	if err := c.start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var said string
	kerneltest.Eventually(t, time.Minute, func() error {
		text, err := os.ReadFile(c.log(s))
		if said = string(text); err == nil && !strings.HasSuffix(said, "end\n") {
			err = fmt.Errorf("it said %q", text)
		}
		return err
	})
	ids, rest, _ := strings.Cut(said, "\n")
	if id := strings.Fields(ids); len(id) != 2 || id[0] != id[1] {
		t.Errorf("process and session are %s", ids)
	}
	if !strings.HasPrefix(rest, "/\n") || strings.Contains(said, "secret") || !strings.Contains(said, "GOTRACEBACK=all\n") ||
		!strings.Contains(said, "--dir="+s.Dir+"\nend\n") {
		t.Errorf("it said\n%s", said)
	}
	if info, err := os.Stat(c.log(s) + ".1"); err != nil || info.Size() != mostLog+1 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestMissingProgramSaysWhatToInstall(t *testing.T) {
	self, _ := os.Executable()
	err := child{beside}.start(t.Context(), spec(t.TempDir()))
	if want := fmt.Sprintf("there is no %s/tulle-test, which --own needs; install that program there", filepath.Dir(self)); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
