package cniplugins

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plugins makes a folder with programs, and a licence.
func plugins(t *testing.T, namesAndTexts ...string) string {
	t.Helper()
	folder := t.TempDir()
	for pair := range slices.Chunk(namesAndTexts, 2) {
		put(t, filepath.Join(folder, pair[0]), pair[1], 0o755)
	}
	put(t, filepath.Join(folder, "LICENSE"), "licence", 0o644)
	return folder
}

func put(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func install(t *testing.T, from, to string) map[string]Outcome {
	t.Helper()
	done, err := Install(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes(done, to)
}

func outcomes(done []Plugin, to string) map[string]Outcome {
	all := make(map[string]Outcome)
	for _, p := range done {
		name, _ := filepath.Rel(to, p.Path)
		all[name] = p.Outcome
	}
	return all
}

func want(t *testing.T, what string, got map[string]Outcome, namesAndOutcomes ...string) {
	t.Helper()
	want := make(map[string]Outcome)
	for pair := range slices.Chunk(namesAndOutcomes, 2) {
		want[pair[0]] = Outcome(pair[1])
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// has holds what is in a folder, but for the list, against what should be.
func has(t *testing.T, what, folder string, namesAndTexts ...string) {
	t.Helper()
	want := make(map[string]string)
	for pair := range slices.Chunk(namesAndTexts, 2) {
		want[pair[0]] = pair[1]
	}
	got := make(map[string]string)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == listName {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(text)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: there is %q, want %q", what, got, want)
	}
}

// TestInstallsAndUpgradesPlugins follows a host through the versions that are installed there.
func TestInstallsAndUpgradesPlugins(t *testing.T) {
	to := filepath.Join(t.TempDir(), "cni", "bin")
	first := plugins(t, "bridge", "bridge 1", "portmap", "portmap 1")
	want(t, "at first", install(t, first, to), "bridge", "installed", "portmap", "installed")
	has(t, "at first", to, "bridge", "bridge 1", "portmap", "portmap 1")
	want(t, "again", install(t, first, to), "bridge", "unchanged", "portmap", "unchanged")
	if info, err := os.Stat(filepath.Join(to, "bridge")); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	check := exec.Command("sha256sum", "--check", "--strict", listName)
	check.Dir = to
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}

	// Another version takes the place of ours, and of ours alone.
	put(t, filepath.Join(to, "portmap"), "foreign", 0o755)
	put(t, filepath.Join(to, "flannel"), "flannel's", 0o755)
	second := plugins(t, "bridge", "bridge 2", "portmap", "portmap 2", "loopback", "loopback 2")
	want(t, "upgraded", install(t, second, to), "bridge", "replaced", "portmap", "foreign", "loopback", "installed")
	has(t, "upgraded", to, "bridge", "bridge 2", "portmap", "foreign", "loopback", "loopback 2", "flannel", "flannel's")
	want(t, "back", install(t, first, to), "bridge", "replaced", "portmap", "foreign")
	has(t, "back", to, "bridge", "bridge 1", "portmap", "foreign", "loopback", "loopback 2", "flannel", "flannel's")

	// Without the list all that is there is another's, but for what is the same.
	put(t, filepath.Join(to, listName), "garbled\n", 0o644)
	want(t, "without the list", install(t, second, to), "bridge", "foreign", "portmap", "foreign", "loopback", "unchanged")
	if err := os.Remove(filepath.Join(to, "bridge")); err != nil {
		t.Fatal(err)
	}
	want(t, "one deleted", install(t, second, to), "bridge", "installed", "portmap", "foreign", "loopback", "unchanged")
}

// TestPluginPathThatIsNoFile puts something else than a file where a plugin belongs.
func TestPluginPathThatIsNoFile(t *testing.T) {
	from := plugins(t, "bridge", "1", "portmap", "1", "loopback", "1", "host-local", "1")
	to, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "mine")
	put(t, elsewhere, "mine", 0o755)
	for _, err := range []error{
		os.Symlink(elsewhere, filepath.Join(to, "bridge")),
		os.Symlink("nowhere", filepath.Join(to, "portmap")),
		os.Mkdir(filepath.Join(to, "loopback"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	done, err := Install(from, to)
	if err == nil || !strings.Contains(err.Error(), "portmap: a symbolic link that leads to no file") || !strings.Contains(err.Error(), "loopback: not a regular file") {
		t.Errorf("got %v", err)
	}
	want(t, "in the way", outcomes(done, to), "bridge", "foreign", "host-local", "installed")
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "mine" {
		t.Errorf("what a link leads to is %q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(to, "nowhere")); err == nil {
		t.Error("a link was followed")
	}
}

func TestRefusesBadSource(t *testing.T) {
	empty := plugins(t)
	linked := plugins(t)
	if err := os.Symlink("/bin/true", filepath.Join(linked, "bridge")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "", 0o644)
	list := t.TempDir()
	if err := os.Mkdir(filepath.Join(list, listName), 0o755); err != nil {
		t.Fatal(err)
	}
	good := plugins(t, "bridge", "1")
	for _, c := range []struct{ from, to, want string }{
		{filepath.Join(empty, "none"), t.TempDir(), "find CNI plugins"},
		{empty, t.TempDir(), "no CNI plugins in"},
		{linked, t.TempDir(), "no CNI plugins in"}, // a link is not followed out of the folder
		{good, file, "not a directory"},
		{good, list, "read the list of installed CNI plugins"},
	} {
		if done, err := Install(c.from, c.to); err == nil || !strings.Contains(err.Error(), c.want) || len(done) > 0 {
			t.Errorf("%s to %s: %v, %v; want %s", c.from, c.to, done, err, c.want)
		}
	}
}

// FuzzList checks that no listed name leads to another folder, and that a list is
// read as it was written.
func FuzzList(f *testing.F) {
	sum := strings.Repeat("0f", 32)
	for _, text := range []string{"", sum + "  bridge\n", sum + "  ../bridge\n", sum + " bridge", "x  y\n" + sum + "  a  b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sums := parseList([]byte(text))
		for name := range sums {
			if !isName(name) || strings.Contains(name, "\n") {
				t.Errorf("the name %q", name)
			}
		}
		if again := parseList(formatList(sums)); !maps.Equal(sums, again) {
			t.Errorf("%q is %q when written and read again", sums, again)
		}
	})
}
