package flags

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExposedFilesGetAWarning: a warning names each file that every user may read or write,
// with its mode and the fix.
func TestExposedFilesGetAWarning(t *testing.T) {
	dir := t.TempDir()
	file, folder, link := filepath.Join(dir, "key.pem"), filepath.Join(dir, "state"), filepath.Join(dir, "link")
	for _, err := range []error{os.WriteFile(file, nil, 0o600), os.Mkdir(folder, 0o700), os.Symlink(file, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		mode fs.FileMode
		want string
	}{
		{file, 0o600, ""}, {file, 0o640, ""}, {file, 0o400, ""}, {file, 0o601, ""},
		{file, 0o644, "has mode 0644, so every user of this host may read it; run: chmod o-rwx " + file},
		{file, 0o602, "has mode 0602, so every user of this host may write it"},
		{file, 0o666, "has mode 0666, so every user of this host may read and write it"},
		{folder, 0o700, ""}, {folder, 0o750, ""}, {folder, 0o711, ""},
		{folder, 0o755, "has mode 0755, so every user of this host may read in it; run: chmod o-rwx " + folder},
		{folder, 0o777, "may read and write in it"},
		{link, 0o644, "--setting: " + link + " has mode 0644"},
	} {
		if err := os.Chmod(c.path, c.mode); err != nil {
			t.Fatal(err)
		}
		got := Exposed("--setting", c.path)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s of mode %o: got %q, want %q", c.path, c.mode, got, c.want)
		}
	}
	t.Chdir(dir)
	if got := Exposed("--setting", "link"); !strings.HasSuffix(got, "run: chmod o-rwx "+link) {
		t.Errorf("a relative path: got %q", got)
	}
	for _, path := range []string{"", os.DevNull, filepath.Join(dir, "missing"), filepath.Join(file, "below")} {
		if got := Exposed("--setting", path); got != "" {
			t.Errorf("%q: got %q", path, got)
		}
	}
}
