package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

func TestRecordKeepsEveryByte(t *testing.T) {
	dir := t.TempDir()
	six := peer(2, "$(reboot) `reboot`\n\x00\xff\x1b[2J\"'\\")
	six.Subnet, six.Limit = pfx("fd00:5:0:2::/64"), 7*time.Second
	for _, c := range []netstate.Command{peer(1, ""), peer(2, strings.Repeat("x", MostOutput)), six} {
		if err := save(dir, c); err != nil {
			t.Fatal(err)
		}
	}
	commands, bad, err := load(dir)
	if len(commands) != 3 || bad != nil || err != nil {
		t.Fatalf("loaded %d, %v, %v", len(commands), bad, err)
	}
	six.Stale = true
	if commands[2] != six {
		t.Errorf("loaded %+v, want %+v", commands[2], six)
	}
	info, err := os.Stat(recordsIn(dir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if err := forget(dir, six); err != nil {
		t.Error(err)
	}
	if err := forget(dir, six); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if commands, _, _ := load(dir); len(commands) != 2 {
		t.Errorf("%d are left", len(commands))
	}
}

func TestNoFolderHasNoRecords(t *testing.T) {
	if commands, bad, err := load(filepath.Join(t.TempDir(), "none")); commands != nil || bad != nil || err != nil {
		t.Errorf("%v, %v, %v", commands, bad, err)
	}
}

// TestUnusableRecordsAreLeftAlone plants files of which root would run the text.
func TestUnusableRecordsAreLeftAlone(t *testing.T) {
	const good = `{"version":1,"name":"SubnetAddCommand","subnet":"10.5.2.0/24","run":"add","undo":"remove","env":"","limit":1}`
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		file string
		want string
	}{
		"writable by others": {good, 0o666, "", "other users can write it"},
		"writable by group":  {good, 0o660, "", "other users can write it"},
		"another name":       {good, 0o600, "10.5.3.0-24.json", "it is of 10.5.2.0/24"},
		"no JSON":            {`{"version":1`, 0o600, "", "not valid JSON"},
		"another version":    {strings.Replace(good, ":1,", ":2,", 1), 0o600, "", "version is 2"},
		"no subnet":          {strings.Replace(good, "10.5.2.0/24", "", 1), 0o600, "", "has no subnet"},
		"host bits":          {strings.Replace(good, "10.5.2.0/24", "10.5.2.1/24", 1), 0o600, "", "has no subnet"},
		"nothing to undo":    {strings.Replace(good, "remove", "", 1), 0o600, "", "nothing to undo"},
		"no limit":           {strings.Replace(good, `"limit":1`, `"limit":-1`, 1), 0o600, "", "no limit"},
		"zero byte":          {strings.Replace(good, "remove", `a\u0000b`, 1), 0o600, "", "zero byte"},
		"too large":          {strings.Replace(good, "remove", strings.Repeat("x", mostRecord), 1), 0o600, "", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(recordsIn(dir), 0o700); err != nil {
				t.Fatal(err)
			}
			file := "10.5.2.0-24.json"
			if test.file != "" {
				file = test.file
			}
			path := filepath.Join(recordsIn(dir), file)
			if err := os.WriteFile(path, []byte(test.text), test.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			commands, bad, err := load(dir)
			if len(commands) != 0 || len(bad) != 1 || err != nil || !strings.Contains(bad[0].Error(), test.want) || len(bad[0].Error()) > 500 {
				t.Errorf("got %v, %v, %v; want %q", commands, bad, err, test.want)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the file: %v", err)
			}
		})
	}
	t.Run("not a file", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"10.5.2.0-24.json", "10.5.3.0-24"} {
			if err := os.MkdirAll(filepath.Join(recordsIn(dir), name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(recordsIn(dir), "10.5.4.0-24.json")); err != nil {
			t.Fatal(err)
		}
		if commands, bad, err := load(dir); len(commands) != 0 || len(bad) != 2 || err != nil {
			t.Errorf("%v, %v, %v", commands, bad, err)
		}
	})
}

// TestCommandWaitsForItsRecord has a folder that cannot be written.
func TestCommandWaitsForItsRecord(t *testing.T) {
	run(t, func(l *lab) {
		if err := os.WriteFile(recordsIn(l.dir), nil, 0o600); err != nil {
			l.Fatal(err)
		}
		if err := l.resync(peer(2, "")); err == nil || !strings.Contains(err.Error(), "record the command") {
			l.Errorf("without a record: %v", err)
		}
		l.wantRuns("without a record")
		if err := os.Remove(recordsIn(l.dir)); err != nil {
			l.Fatal(err)
		}
		l.settle(peer(2, ""))
		l.wantRuns("with a record", "add 10.5.2.0/24")
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"name":"SubnetAddCommand","subnet":"10.5.2.0/24","run":"add","undo":"remove","env":"","limit":1}`))
	f.Add([]byte(`{"version":1,"name":"x","subnet":"fd00::%eth0/64","run":"","undo":"x","stdin":"AA==","limit":9223372036854775807}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		if !c.Stale || !c.Subnet.IsValid() || c.Undo == "" || c.Limit <= 0 || filepath.Dir(file("/state", c)) != "/state/commands" {
			t.Errorf("%q is %+v", text, c)
		}
	})
}
