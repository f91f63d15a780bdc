//go:build kube

package kubernetes

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/clustertest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// dockerView runs a dockerd, with a containerd of its own, in a view of the
// machine in which it can do no harm: what it would write elsewhere than below
// its own folders goes to memory, it loads no modules, and all that it runs is in a
// namespace of processes that goes with it.
const dockerView = `set -e
exec unshare --pid --fork --kill-child=KILL sh -c '
set -e
mount -t proc proc /proc
for folder in /etc/docker /opt; do
	mkdir -p "$folder"
	mount -t tmpfs tmpfs "$folder"
done
! modprobe=$(command -v modprobe) || mount --bind /bin/true "$modprobe"
# The view of a host has a /sys of its own, without control groups.
if [ "$(cut -d: -f1 /proc/self/cgroup)" = 0 ]; then
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
	mount -t tmpfs cgroup /sys/fs/cgroup
	while IFS=: read -r id controllers path; do
		[ "$id" != 0 ] || continue
		mkdir "/sys/fs/cgroup/${controllers#name=}"
		mount -t cgroup -o "$controllers" cgroup "/sys/fs/cgroup/${controllers#name=}"
	done </proc/self/cgroup
fi
exec dockerd "$@"
' sh "$@"`

// docker is a dockerd on a host.
type docker struct {
	t    *testing.T
	host *clustertest.Host
	data string
}

// startDocker starts one on a host, whose containers are all in one control group,
// and waits until it answers.
func startDocker(t *testing.T, h *clustertest.Host, control string) docker {
	t.Helper()
	d := docker{t, h, t.TempDir()}
	daemon := h.Start(clustertest.Command{Argv: []string{"sh", "-c", dockerView, "sh"}},
		"--host="+d.socket(), "--pidfile=/run/docker.pid", "--exec-root=/run/docker", "--data-root="+d.data,
		"--log-level=warn", "--storage-driver=vfs", "--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent="+control,
		"--bridge=none", "--iptables=false", "--ip6tables=false")
	t.Cleanup(func() {
		if daemon.Running() {
			daemon.Kill()
		}
	})
	kerneltest.Eventually(t, patience, func() error {
		if !daemon.Running() {
			t.Fatal("dockerd has ended")
		}
		_, err := d.try(nil, "version")
		return err
	})
	return d
}

func (d docker) socket() string { return "unix://" + filepath.Join(d.host.Dir, "run/docker.sock") }

// run runs a docker command.
func (d docker) run(stdin []byte, args ...string) string {
	d.t.Helper()
	out, err := d.try(stdin, args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d docker) try(stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"--config", d.data, "--host", d.socket()}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("docker %s on %s: %w: %s", strings.Join(args, " "), d.host.Name, err, &said)
	}
	return strings.TrimSpace(out.String()), nil
}

// controlGroup makes room for a control group that goes when the test ends, after
// all that is in it.
func controlGroup(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("/tulle-%s-%d", t.Name(), os.Getpid())
	t.Cleanup(func() {
		for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			roots, err := filepath.Glob(at + name)
			if err != nil {
				t.Error(err)
			}
			for _, root := range roots {
				kerneltest.Eventually(t, patience, func() error { return removeGroups(root) })
			}
		}
	})
	return name
}

// removeGroups removes a control group and all below it.
func removeGroups(path string) error {
	groups, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, g := range groups {
		if g.IsDir() {
			if err := removeGroups(filepath.Join(path, g.Name())); err != nil {
				return err
			}
		}
	}
	return syscall.Rmdir(path)
}

// image builds the release's image for this machine, and returns its files as a
// tar.
func image(t *testing.T) []byte {
	t.Helper()
	const version, epoch = "v1.2.3", "1234567890"
	release, layout := t.TempDir(), filepath.Join(t.TempDir(), "image")
	for _, command := range [][]string{
		{"../release/build.sh", release},
		{"go", "run", "../image", "-release", release, "-to", layout, "-version", version},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH="+epoch, "ARCHES="+runtime.GOARCH)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	blob := func(digest string, into any) []byte {
		text, err := os.ReadFile(filepath.Join(layout, "blobs/sha256", strings.TrimPrefix(digest, "sha256:")))
		if err == nil && into != nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	type names struct{ Manifests, Layers []struct{ Digest string } }
	var top, index, manifest names
	text, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err == nil {
		err = json.Unmarshal(text, &top)
	}
	if err != nil {
		t.Fatal(err)
	}
	blob(top.Manifests[0].Digest, &index)
	blob(index.Manifests[0].Digest, &manifest)
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0].Digest, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	if _, err := files.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return files.Bytes()
}
