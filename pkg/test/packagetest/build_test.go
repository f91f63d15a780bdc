//go:build packages

package packagetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// built are the packages of a version.
type built struct{ deb, rpm string }

// build builds the packages of a tree.
func build(t *testing.T, tree, version string) built {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(tree, "dist/packages/build.sh"), dir)
	cmd.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH=1234567890", "ARCH=amd64")
	kerneltest.Run(t, cmd)
	return built{only(t, dir+"/*.deb"), only(t, dir+"/*.rpm")}
}

func only(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s: %q, %v", pattern, paths, err)
	}
	return paths[0]
}

// copyTree copies the tree's files that git knows or would add to another place, with
// other times.
func copyTree(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	list := exec.Command("git", "ls-files", "-co", "--exclude-standard", "--deduplicate", "-z")
	list.Dir = "../../.."
	cp := exec.Command("xargs", "-0", "cp", "--parents", "-t", to)
	cp.Dir = "../../.."
	cp.Stdin = strings.NewReader(kerneltest.Run(t, list))
	kerneltest.Run(t, cp)
	return to
}

// TestBuildsAreReproducible builds in two places, and compares the packages byte by
// byte.
func TestBuildsAreReproducible(t *testing.T) {
	t.Parallel()
	one, other := build(t, "../../..", "v1.0.0"), build(t, copyTree(t), "v1.0.0")
	for _, pair := range [][2]string{{one.deb, other.deb}, {one.rpm, other.rpm}} {
		a, err := os.ReadFile(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s is not the same when it is built again", filepath.Base(pair[0]))
		}
	}
	contents(t, one)
}

// contents checks which files are in the packages, and that both packages contain the
// same.
func contents(t *testing.T, b built) {
	t.Helper()
	inRPM := make(map[string]string) // path to mode and kind
	for line := range strings.Lines(kerneltest.Run(t, exec.Command("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]", b.rpm))) {
		// A deb includes the folders of its files automatically.
		if path, rest, _ := strings.Cut(strings.TrimSpace(line), " "); rest[0] != 'd' || path == "/etc/cni/net.d" {
			inRPM[path] = strings.TrimSpace(rest)
		}
	}
	inDeb := make(map[string]string)
	for line := range strings.Lines(kerneltest.Run(t, exec.Command("dpkg-deb", "-c", b.deb))) {
		f := strings.Fields(line) // mode, owner, size, date, time, path
		if path := strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/"); f[0][0] != 'd' || path == "/etc/cni/net.d" {
			inDeb[path] = f[0] + " " + f[1]
		}
	}
	for path, want := range map[string]string{
		"/usr/bin/tulled":                                                       "-rwxr-xr-x root/root",
		"/usr/bin/tulle-etcd":                                                   "-rwxr-xr-x root/root",
		"/usr/bin/tulle-wireguard":                                              "-rwxr-xr-x root/root",
		"/usr/share/man/man8/tulle-wireguard.8.gz":                              "-rw-r--r-- root/root",
		"/usr/lib/systemd/system/tulle-wireguard@.service":                      "-rw-r--r-- root/root",
		"/usr/bin/tulle-controller":                                             "-rwxr-xr-x root/root",
		"/usr/share/man/man8/tulle-controller.8.gz":                             "-rw-r--r-- root/root",
		"/usr/share/bash-completion/completions/tulle-controller":               "-rw-r--r-- root/root",
		"/usr/lib/systemd/system/tulle-controller.service":                      "-rw-r--r-- root/root",
		"/etc/default/tulle-controller":                                         "-rw-r--r-- root/root",
		"/usr/bin/mk-docker-opts.sh":                                            "-rwxr-xr-x root/root",
		"/usr/lib/systemd/system/tulled.service":                                "-rw-r--r-- root/root",
		"/usr/lib/systemd/system/tulle-etcd.service":                            "-rw-r--r-- root/root",
		"/usr/lib/tmpfiles.d/tulle.conf":                                        "-rw-r--r-- root/root",
		"/usr/lib/systemd/networkd.conf.d/50-tulle.conf":                        "-rw-r--r-- root/root",
		"/usr/lib/systemd/network/05-tulle.network":                             "-rw-r--r-- root/root",
		"/usr/lib/NetworkManager/conf.d/50-tulle.conf":                          "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/Documentation/running.md":                         "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/copyright":                                        "-rw-r--r-- root/root",
		"/etc/default/tulled":                                                   "-rw------- root/root",
		"/etc/cni/net.d":                                                        "drwxr-xr-x root/root",
		"/usr/share/doc/tulle/examples/docker.service.d/tulle.conf":             "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/examples/tulle-controller.service.d/00-etcd.conf": "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/examples/tulle-controller.service.d/aws.conf":     "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/examples/prometheus/tulle.rules.yml":              "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/examples/prometheus/tulle-controller.rules.yml":   "-rw-r--r-- root/root",
		"/usr/share/doc/tulle/examples/grafana/tulle.json":                      "-rw-r--r-- root/root",
	} {
		if inDeb[path] != want {
			t.Errorf("in the deb %s is %q, not %q", path, inDeb[path], want)
		}
	}
	for path, deb := range inDeb {
		if strings.HasPrefix(path, "/etc/default/") {
			deb += " cn" // config, noreplace
		}
		if inRPM[path] != deb {
			t.Errorf("%s is %q in the deb and %q in the rpm", path, deb, inRPM[path])
		}
	}
	if len(inRPM) != len(inDeb) {
		t.Errorf("the rpm has %v, the deb has %v", inRPM, inDeb)
	}
	if conffiles := kerneltest.Run(t, exec.Command("dpkg-deb", "-I", b.deb, "conffiles")); conffiles != "/etc/default/tulle-controller\n/etc/default/tulled" {
		t.Errorf("the deb's conffiles are %q", conffiles)
	}
	kerneltest.Run(t, exec.Command("rpm", "-K", "--nosignature", b.rpm))
}
