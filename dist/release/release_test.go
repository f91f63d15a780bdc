package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cniconf"
	"github.com/tulle-net/tulle/pkg/test/archivetest"
)

const (
	version = "v1.2.3-4-gabcdef0"
	epoch   = "1234567890"
)

// TestReleaseIsReproducible builds this processor's archive twice, in two places,
// with the compiler's cache. make release-check builds all of them, without a cache.
func TestReleaseIsReproducible(t *testing.T) {
	folder := t.TempDir()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command("./check.sh", folder)
	check.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH="+epoch, "ARCHES="+runtime.GOARCH,
		"CACHE="+strings.TrimSpace(string(cache)))
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sums := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = folder
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}

	name := "tulle-" + version + "-linux-" + runtime.GOARCH
	files := unpack(t, filepath.Join(folder, name+".tar.gz"), name+"/")
	want := make(map[string]string)
	for _, name := range []string{"tulled", "tulle-etcd", "tulle-wireguard", "tulle-controller"} {
		program := install(t, files, name)
		if out := output(t, program, "version"); out != version+"\n" {
			t.Errorf("%s version: %s", name, out)
		}
		for path, command := range map[string]string{
			name + ".8": "man", "completions/" + name: "completion bash", "completions/_" + name: "completion zsh", "completions/" + name + ".fish": "completion fish",
		} {
			want[path] = output(t, program, strings.Fields(command)...)
		}
	}
	for path, source := range map[string]string{
		"LICENSE": "../../LICENSE", "README.md": "../../README.md",
		"systemd/tulled.service": "../systemd/tulled.service", "systemd/tulle-etcd.service": "../systemd/tulle-etcd.service", "systemd/tulle-wireguard@.service": "../systemd/tulle-wireguard@.service",
		"systemd/tulle-controller.service": "../systemd/tulle-controller.service", "systemd/tulle-controller.default": "../systemd/tulle-controller.default", "docker/mk-docker-opts.sh": "../docker/mk-docker-opts.sh",
		"prometheus/tulle.rules.yml": "../prometheus/tulle.rules.yml", "prometheus/tulle-controller.rules.yml": "../prometheus/tulle-controller.rules.yml",
		"grafana/tulle.json": "../grafana/tulle.json",
	} {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		want[path] = string(text)
	}
	for _, name := range []string{"tulle.yaml", "tulle-controller.yaml"} {
		manifest, err := os.ReadFile("../kubernetes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		want["kubernetes/"+name] = strings.ReplaceAll(string(manifest), "v0.1.0", version)
	}
	for _, name := range []string{"tulle.rules.yml", "tulle-controller.rules.yml"} {
		want["kubernetes/chart/tulle/files/"+name] = want["prometheus/"+name]
	}
	for path, text := range want {
		if got, ok := files[path]; !ok || got != text {
			t.Errorf("%s is in the archive: %t; it differs from the file of the tree", path, ok)
		}
	}

	for program, most := range map[string]int{"tulled": 22e6, "tulle-wireguard": 6e6, "tulle-controller": 40e6} {
		if n := len(files[program]); n > most {
			t.Errorf("%s has %d bytes, more than %d; go tool nm -size -sort size shows what is new", program, n, most)
		}
	}
	chart := files["kubernetes/chart/tulle/Chart.yaml"]
	for _, line := range []string{"version: 1.2.3+4.gabcdef0", fmt.Sprintf("appVersion: %q", version)} {
		if !strings.Contains(chart, "\n"+line+"\n") {
			t.Errorf("the chart has no line %q:\n%s", line, chart)
		}
	}
	if !strings.Contains(files["kubernetes/tulle.yaml"], "tulle:"+version) {
		t.Error("tulle.yaml names the image of another version")
	}
	testPlugins(t, files)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tulled", "tulle-etcd", "tulle-wireguard", "tulle-controller", "cni/bridge"} {
		if strings.Contains(files[name], root+"/") {
			t.Errorf("%s names the folder that it was built in", name)
		}
	}
}

// install puts a program of the archive into a folder of its own.
func install(t *testing.T, files map[string]string, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(files[name]), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// output returns what a program writes. It removes this machine's variables for its
// own tulled from the environment.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	command := exec.Command(program, args...)
	command.Env = []string{"PATH="}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v: %s", program, args, err, out)
	}
	return string(out)
}

// testPlugins checks that the archive has the CNI plugins that a host needs, that
// they run, and that their version is known.
func testPlugins(t *testing.T, files map[string]string) {
	t.Helper()
	folder := t.TempDir()
	var names []string
	for path, text := range files {
		name, ok := strings.CutPrefix(path, "cni/")
		if !ok || name == "" || name == "README.md" {
			continue
		}
		names = append(names, name)
		program := filepath.Join(folder, name)
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]string{"": "CNI " + name + " plugin v1.", "VERSION": `"1.0.0"`} {
			asked := exec.Command(program)
			asked.Env = []string{"CNI_COMMAND=" + command}
			asked.Stdin = strings.NewReader(`{"cniVersion":"1.0.0"}`)
			if out, err := asked.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s, asked %q: %v: %s", name, command, err, out)
			}
		}
	}
	slices.Sort(names)
	want := []string{"loopback"} // which runtimes also need
	for _, plugin := range regexp.MustCompile(`"type": "(.*)"`).FindAllStringSubmatch(string(cniconf.Format(cniconf.Conf{})), -1) {
		want = append(want, plugin[1])
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the archive has the plugins %q, want %q", names, want)
	}
}

// unpack returns the files below top in an archive. It checks that all belong to
// root, have the release's time, and only root can change them.
func unpack(t *testing.T, path, top string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, f := range archivetest.Unpack(t, path) {
		name, ok := strings.CutPrefix(f.Name, top)
		if !ok || f.Uid != 0 || f.Gid != 0 || f.Mode&0o7022 != 0 || !f.ModTime.Equal(time.Unix(1234567890, 0)) {
			t.Errorf("%s has the owner %d:%d, mode %o, time %s", f.Name, f.Uid, f.Gid, f.Mode, f.ModTime)
		}
		files[name] = f.Text
	}
	return files
}

// TestVersion checks that the build rejects versions that could be paths elsewhere,
// before it builds anything.
func TestVersion(t *testing.T) {
	for _, version := range []string{"../v1", "v1/2", "-v1", "v1 2", "v1\n", "$(id)"} {
		build := exec.Command("./build.sh", t.TempDir())
		build.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH="+epoch)
		if out, err := build.CombinedOutput(); err == nil || !strings.Contains(string(out), "invalid version") {
			t.Errorf("%q: %v: %s", version, err, out)
		}
	}
}

// TestChartVersion checks the chart's versions that git's descriptions become.
func TestChartVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"v1.2":                    "1.2.0",
		"v1.2.3-4-g0abcdef":       "1.2.3+4.g0abcdef",
		"v1.2.3-4-g0abcdef-dirty": "1.2.3+4.g0abcdef.dirty",
		"v1.2.3-rc.1":             "1.2.3-rc.1",
		"v1.2.3-rc.1-4-g0abcdef":  "1.2.3-rc.1+4.g0abcdef",
		"v1.2.3-rc.1-dirty":       "1.2.3-rc.1+dirty",
		"v1.2.3+mine":             "1.2.3+mine",
		"0abcdef":                 "0.0.0+1234567890.0abcdef",
		"1234567":                 "0.0.0+1234567890.1234567",
		"1234567-dirty":           "0.0.0+1234567890.1234567.dirty",
		"v1.2.3-rc.01":            "0.0.0+1234567890.v1.2.3-rc.01",
		"v1.2.3_x~":               "0.0.0+1234567890.v1.2.3-x-",
		"devel":                   "0.0.0+1234567890.devel",
	} {
		out, err := exec.Command("./chart-version.sh", described, epoch).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s is %q, %v, not %q", described, got, err, want)
		}
	}
}

// TestChartOfTheTree checks that the chart has one version, also where nothing was
// released from.
func TestChartOfTheTree(t *testing.T) {
	text, err := os.ReadFile("../kubernetes/chart/tulle/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^version: (\S+)\nappVersion: v(\S+)$`).FindStringSubmatch(string(text))
	if found == nil || found[1] != found[2] {
		t.Errorf("version and appVersion differ:\n%s", text)
	}
}
