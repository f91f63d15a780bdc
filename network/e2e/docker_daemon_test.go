package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/clustertest"
	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

const optionsScript = "../../dist/docker/mk-docker-opts.sh"

// dockerView runs a dockerd, with a containerd of its own, in a view of the
// machine in which it can do no harm: what it would write elsewhere than below
// its own folders goes to memory, it loads no modules, and all that it runs is
// in a namespace of processes that goes with it.
const dockerView = `set -e
exec unshare --pid --fork --kill-child=KILL sh -c '
set -e
read -r pid rest </proc/self/stat # as the machine counts
echo "$pid" >"$1"
shift
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

// docker is a dockerd on a host, which has the options that the host's env file
// gives.
type docker struct {
	w       *world
	host    *clustertest.Host
	control string // its control group
	data    string
	daemon  *clustertest.Daemon
	pid     int
}

// controlGroup makes room for a control group that goes when the test ends,
// after all that is in it.
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

// startDocker waits for the host's env file, starts a dockerd, and waits until
// it answers.
func (w *world) startDocker(h *clustertest.Host, control string) *docker {
	w.t.Helper()
	d := &docker{w: w, host: h, control: control, data: w.t.TempDir()}
	w.t.Cleanup(func() {
		if d.daemon.Running() {
			d.end(syscall.SIGKILL)
		}
	})
	d.start()
	return d
}

func (d *docker) start() {
	t := d.w.t
	t.Helper()
	d.w.eventually(func() error { _, err := os.Stat(d.host.SubnetFile); return err })
	options := filepath.Join(d.host.Dir, "docker_opts.env")
	if out, err := exec.Command(optionsScript, "-f", d.host.SubnetFile, "-d", options, "-c").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", optionsScript, err, out)
	}
	text, err := os.ReadFile(options)
	if err != nil {
		t.Fatal(err)
	}
	// As systemd reads it.
	value, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "DOCKER_OPTS=")
	if !ok {
		t.Fatalf("the options are %q", text)
	}
	pidFile := filepath.Join(d.host.Dir, "dockerd.host.pid")
	d.daemon = d.host.Start(clustertest.Command{Argv: []string{"sh", "-c", dockerView, "sh", pidFile}}, append([]string{
		"--host=" + d.socket(), "--pidfile=/run/docker.pid", "--exec-root=/run/docker", "--data-root=" + d.data,
		"--log-level=warn", "--storage-driver=vfs", "--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=" + d.control,
	}, strings.Fields(strings.Trim(value, `"`))...)...)
	d.w.eventually(func() error {
		if !d.daemon.Running() {
			t.Fatal("dockerd has ended")
		}
		_, err := d.try(nil, "version")
		return err
	})
	text, err = os.ReadFile(pidFile)
	if err == nil {
		d.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// end has dockerd get a signal, and waits until it and all its containers are
// gone.
func (d *docker) end(s syscall.Signal) {
	d.w.t.Helper()
	if err := syscall.Kill(d.pid, s); err != nil {
		d.w.t.Fatalf("end dockerd on %s: %v", d.host.Name, err)
	}
	d.daemon.Wait()
}

func (d *docker) socket() string { return "unix://" + filepath.Join(d.host.Dir, "run/docker.sock") }

// run runs a docker command.
func (d *docker) run(stdin []byte, args ...string) string {
	d.w.t.Helper()
	out, err := d.try(stdin, args...)
	if err != nil {
		d.w.t.Fatal(err)
	}
	return out
}

func (d *docker) try(stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"--config", d.data, "--host", d.socket()}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s on %s: %w: %s", strings.Join(args, " "), d.host.Name, err, &said)
	}
	return strings.TrimSpace(out.String()), nil
}

// image is the root of containers that have a busybox and nothing else.
func image(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = w.WriteHeader(&tar.Header{Name: "busybox", Mode: 0o755, Size: int64(len(binary))})
	if err == nil {
		_, err = w.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// container is the container of a name as a pod, once it runs.
func (d *docker) container(name string) *clustertest.Pod {
	t := d.w.t
	t.Helper()
	env, err := envfile.Read(d.host.SubnetFile)
	if err != nil {
		t.Fatal(err)
	}
	p := &clustertest.Pod{Host: d.host, MTU: env.MTU}
	d.w.eventually(func() error {
		out, err := d.try(nil, "inspect", name)
		if err != nil {
			return err
		}
		var found []struct {
			State           struct{ Running bool }
			NetworkSettings struct {
				SandboxKey string
				Networks   map[string]struct{ IPAddress string }
			}
		}
		if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 || !found[0].State.Running {
			return fmt.Errorf("%s does not run on %s: %w: %s", name, d.host.Name, err, out)
		}
		net := found[0].NetworkSettings
		p.Addr[subnet.IPv4], err = netip.ParseAddr(net.Networks["bridge"].IPAddress)
		// The way leads through dockerd's root: nobody else sees its mounts.
		p.NS = &kerneltest.NS{Name: d.host.Name + "-" + name, Path: fmt.Sprintf("/proc/%d/root/run/docker/netns/%s", d.pid, filepath.Base(net.SandboxKey))}
		return err
	})
	if a := p.Addr[subnet.IPv4]; !env.Subnets[subnet.IPv4].Contains(a) {
		t.Fatalf("%s of %s has %s, which is not of %s", name, d.host.Name, a, env.Subnets[subnet.IPv4])
	}
	return p
}
