//go:build packages

package packagetest

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

var suite = flag.String("suite", "bookworm", "Debian release of the machines")

// patience is the time limit of a wait before the test fails.
const patience = time.Minute

// debian returns a folder with a small Debian. It is built once and kept.
func debian(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "tulle", "debian-"+*suite)
	if _, err := os.Stat(root); err == nil {
		return root
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(root), "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	kerneltest.Run(t, exec.Command("debootstrap", "--variant=minbase", "--include=dbus,iptables,kmod,procps,rpm,systemd-sysv", *suite, fresh))
	if err := os.Chmod(fresh, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// cgroups creates a folder in the machine's tree of control groups. The end of the test
// removes it with everything below it.
func cgroups(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	if err := unix.Mount("cgroup2", tree, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount cgroup2: %v", err)
	}
	folder := filepath.Join(tree, fmt.Sprintf("tulle-packages-%d", os.Getpid()))
	t.Cleanup(func() {
		// A killed process leaves its group a moment later.
		kerneltest.Eventually(t, patience, func() error { return removeGroups(folder) })
		if err := unix.Unmount(tree, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func removeGroups(folder string) error {
	var groups []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, g := range slices.Backward(groups) {
		if err := unix.Rmdir(g); err != nil {
			return fmt.Errorf("remove %s: %w", g, err)
		}
	}
	return nil
}

// machine is a host whose first process is systemd. Its disk starts as a copy of
// debian, and is removed with the machine.
type machine struct {
	*clustertest.Host
	t   *testing.T
	pid string // of systemd
}

// power moves the shell into a control group, and continues in new namespaces.
const power = `set -eu
mkdir "$1"
echo $$ >"$1/cgroup.procs"
exec unshare --cgroup --mount --pid --ipc --fork --kill-child sh -c "$4" sh "$2" "$3"`

// firmware creates a machine's view of files, and runs systemd in it. /run is the
// host's, so that the tests can look inside.
const firmware = `set -eu
root=$1 dir=$2
mount --make-rprivate /
mount -o remount,size=256m "$dir"
rmdir "$dir/run/flannel"
mkdir "$dir/disk" "$dir/new"
mount -t tmpfs tmpfs "$dir/disk"
mkdir "$dir/disk/upper" "$dir/disk/work"
cd "$dir/new"
mount -t overlay -o "lowerdir=$root,upperdir=$dir/disk/upper,workdir=$dir/disk/work" overlay .
cd "$dir/new"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --bind "$dir/run" run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
for name in null zero full random urandom tty; do
	touch dev/$name
	mount --bind /dev/$name dev/$name
done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
cp "$dir/machine-id" etc/machine-id
cp /proc/sys/kernel/hostname etc/hostname
ln -s /dev/null etc/systemd/system/console-getty.service
ln -s /dev/null etc/systemd/system/getty.target
pivot_root . mnt
umount -l mnt
mount --make-rshared / # or no service sees its credentials
exec env -i PATH=/usr/sbin:/usr/bin container=tulle /lib/systemd/systemd --log-target=console --show-status=0`

// boot runs systemd on a host.
func boot(t *testing.T, h *clustertest.Host, root, group string) *machine {
	t.Helper()
	d := h.Start(clustertest.Command{Argv: []string{"sh", "-c", power, "sh"}}, filepath.Join(group, h.Name), root, h.Dir, firmware)
	m := &machine{Host: h, t: t}
	kerneltest.Eventually(t, patience, func() error {
		if !d.Running() {
			t.Fatalf("%s does not boot:\n%s", h.Name, d.Log())
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", d.PID, d.PID))
		if err != nil {
			return err
		}
		if m.pid = strings.TrimSpace(string(children)); m.pid == "" {
			return fmt.Errorf("%s has not started to boot", h.Name)
		}
		name, err := os.ReadFile("/proc/" + m.pid + "/comm")
		if err == nil && string(name) != "systemd\n" {
			err = fmt.Errorf("%s still runs %s", h.Name, name)
		}
		return err
	})
	kerneltest.Eventually(t, patience, func() error {
		return kerneltest.Try(m.command("systemctl", "is-system-running", "--wait"))
	})
	return m
}

// logOutput logs the output of the service if the test fails. Its cleanup runs before
// the one that ends the machine.
func (m *machine) logOutput() {
	if m.t.Failed() {
		out, err := m.command("journalctl", "--no-pager", "-n", "200", "-u", "tulled", "-u", "tulle-etcd", "-u", "tulle-controller").CombinedOutput()
		m.t.Logf("%s, %v:\n%s", m.Name, err, out)
	}
}

// command returns a command that runs on the machine.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", m.pid, "-m", "-u", "-i", "-n", "-p", "-C", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	return cmd
}

// run runs a command with arguments separated by spaces on the machine.
func (m *machine) run(command string) string {
	m.t.Helper()
	return kerneltest.Run(m.t, m.command(strings.Fields(command)...))
}

// fails runs a command that must fail, and returns its output.
func (m *machine) fails(command string) string {
	m.t.Helper()
	out, err := m.command(strings.Fields(command)...).CombinedOutput()
	if err == nil {
		m.t.Fatalf("%s: %s succeeds: %s", m.Name, command, out)
	}
	return strings.TrimSpace(string(out))
}

// put writes a file on the machine.
func (m *machine) put(path, content string) {
	m.t.Helper()
	cmd := m.command("sh", "-c", `mkdir -p "${1%/*}" && cat >"$1"`, "sh", path)
	cmd.Stdin = strings.NewReader(content)
	kerneltest.Run(m.t, cmd)
}

// install copies a package to the machine and installs it with a command.
func (m *machine) install(path, command string) {
	m.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	at := "/tmp/" + filepath.Base(path)
	m.put(at, string(content))
	m.run(command + " " + at)
}

// show returns a property of a service.
func (m *machine) show(property, service string) string {
	m.t.Helper()
	return m.run("systemctl show --value -p " + property + " " + service + ".service")
}

// files returns all paths on the machine's disk except those of logs and of the
// package managers themselves.
func (m *machine) files() []string {
	m.t.Helper()
	return slices.DeleteFunc(strings.Split(m.run("find / -xdev"), "\n"), func(path string) bool {
		for _, other := range []string{"/var/log/", "/var/cache/", "/var/lib/dpkg/", "/var/lib/rpm", "/var/lib/systemd/", "/root/", "/etc/tulle"} {
			if strings.HasPrefix(path, other) {
				return true
			}
		}
		return false
	})
}

// added returns what is in now and was not in before.
func added(before, now []string) (more []string) {
	was := make(map[string]bool, len(before))
	for _, path := range before {
		was[path] = true
	}
	for _, path := range now {
		if !was[path] {
			more = append(more, path)
		}
	}
	return more
}
