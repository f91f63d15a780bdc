package dockertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// patience is the time limit of a wait before the test fails.
const patience = time.Minute

// view runs a dockerd, with a containerd of its own, in mount and process namespaces
// where it cannot harm the machine. What it would write outside its own folders goes to
// memory. It loads no kernel modules. All its processes end with it.
const view = `set -e
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

// Docker is a dockerd on a host.
type Docker struct {
	// PID is the daemon's process ID on the machine, while it runs.
	PID int

	t       *testing.T
	host    *clustertest.Host
	control string // its control group
	data    string
	daemon  *clustertest.Daemon
}

// New returns a Docker that has not started yet. Its containers are all in one
// control group.
func New(t *testing.T, h *clustertest.Host, control string) *Docker {
	t.Helper()
	d := &Docker{t: t, host: h, control: control, data: t.TempDir()}
	t.Cleanup(func() {
		if d.daemon != nil && d.daemon.Running() {
			d.End(syscall.SIGKILL)
		}
	})
	return d
}

// Start starts dockerd with more flags, and waits until it answers.
func (d *Docker) Start(flags ...string) {
	d.t.Helper()
	pidFile := filepath.Join(d.host.Dir, "dockerd.host.pid")
	d.daemon = d.host.Start(clustertest.Command{Argv: []string{"sh", "-c", view, "sh", pidFile}}, append([]string{
		"--host=" + d.socket(), "--pidfile=/run/docker.pid", "--exec-root=/run/docker", "--data-root=" + d.data,
		"--log-level=warn", "--storage-driver=vfs", "--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=" + d.control,
	}, flags...)...)
	kerneltest.Eventually(d.t, patience, func() error {
		if !d.daemon.Running() {
			d.t.Fatal("dockerd has ended")
		}
		_, err := d.Try(nil, "version")
		return err
	})
	text, err := os.ReadFile(pidFile)
	if err == nil {
		d.PID, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// End sends dockerd a signal, and waits until it and all its containers are gone.
func (d *Docker) End(s syscall.Signal) {
	d.t.Helper()
	if err := syscall.Kill(d.PID, s); err != nil {
		d.t.Fatalf("end dockerd on %s: %v", d.host.Name, err)
	}
	d.daemon.Wait()
}

func (d *Docker) socket() string { return "unix://" + filepath.Join(d.host.Dir, "run/docker.sock") }

// Run runs a docker command.
func (d *Docker) Run(stdin []byte, args ...string) string {
	d.t.Helper()
	out, err := d.Try(stdin, args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// Try does what Run does, for a command that may fail. It returns the command's output
// in both cases.
func (d *Docker) Try(stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"--config", d.data, "--host", d.socket()}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("docker %s on %s: %w: %s", strings.Join(args, " "), d.host.Name, err, &said)
	}
	return strings.TrimSpace(out.String()), err
}
