//go:build kubelet

package kubelettest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// patience is the time limit of a wait before the test fails.
const patience = 2 * time.Minute

// node is a host that runs containerd, a kubelet and a kube-proxy. The files on its
// disk outlive a reboot.
type node struct {
	*clustertest.Host
	t        testing.TB
	group    string   // control group of everything that runs on it
	services []string // environment variables that name the services to run
	daemon   *clustertest.Daemon
	pid      string // process ID of the first process
}

// power moves the shell into control groups of the node, and continues in a namespace
// where those are the root. The shell's own groups show whether the machine has one
// tree of groups or one for each controller.
const power = `set -eu
group=$1
shift
mount -t tmpfs tmpfs /mnt
trees=$(sed -n 's/^[0-9]*:\([a-z_,=]*\):.*/\1/p' /proc/self/cgroup)
if [ -z "$trees" ]; then
	mount -t cgroup2 cgroup2 /mnt
	mkdir -p "/mnt/$group"
	echo 0 >"/mnt/$group/cgroup.procs"
fi
for tree in $trees; do
	mkdir "/mnt/$tree"
	case $tree in name=*) mount -t cgroup -o "none,$tree" cgroup "/mnt/$tree" ;; *) mount -t cgroup -o "$tree" cgroup "/mnt/$tree" ;; esac
	mkdir -p "/mnt/$tree/$group"
	if [ -e "/mnt/$tree/cpuset.cpus" ]; then
		for file in cpuset.cpus cpuset.mems; do cat "/mnt/$tree/$file" >"/mnt/$tree/$group/$file"; done
	fi
	echo 0 >"/mnt/$tree/$group/cgroup.procs"
done
umount -l /mnt
exec unshare --cgroup --mount sh -c "$@"`

// groups mounts the control groups as the node sees them, and continues in more
// namespaces. In a single tree, a group with subgroups has no processes of its own.
const groups = `set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /mnt
trees=$(sed -n 's/^[0-9]*:\([a-z_,=]*\):.*/\1/p' /proc/self/cgroup)
if [ -z "$trees" ]; then
	mount -t cgroup2 cgroup2 /mnt
	mkdir -p /mnt/init
	echo 0 >/mnt/init/cgroup.procs
fi
for tree in $trees; do
	mkdir "/mnt/${tree#name=}"
	case $tree in name=*) options=none,$tree ;; *) options=$tree ;; esac
	mount -t cgroup -o "$options" cgroup "/mnt/${tree#name=}"
done
exec unshare --mount --pid --ipc --fork --kill-child sh -c "$@"`

// firmware creates a node's view of files: the machine's, with the node's changes on a
// disk of its own. The kernel settings that a kubelet would change are the machine's,
// so it finds them already set.
const firmware = `set -eu
dir=$1
shift
mount -o remount,size=2g,dev,suid "$dir"
disk=$dir/disk
mkdir -p "$disk/upper/etc/cni" "$disk/upper/opt/cni" "$disk/work" "$dir/new"
for path in var/lib/containerd var/lib/kubelet var/lib/cni var/log; do mkdir -p "$disk/$path"; done
mount -t overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" overlay "$dir/new"
cd "$dir/new"
for path in var/lib/containerd var/lib/kubelet var/lib/cni var/log; do
	mkdir -p $path
	mount --bind "$disk/$path" $path
done
mount --bind /tmp tmp
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount --rbind /mnt sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
for name in null zero full random urandom tty kmsg; do
	touch dev/$name
	mount --bind /dev/$name dev/$name
done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mkdir run/settings run/netns
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	path=${setting%=*}
	file=run/settings/$(echo "$path" | tr / .)
	echo "${setting#*=}" >"$file"
	mount --bind "$file" "proc/sys/$path"
done
[ ! -e "$dir/machine-id" ] || cat "$dir/machine-id" >etc/machine-id
mkdir -p mnt
pivot_root . mnt
umount -l mnt
mount --make-rshared /
exec "$@"`

const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
`

// kubeletConfig disables the functions that manage the machine's memory and disk.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
enforceNodeAllocatable: [none]
localStorageCapacityIsolation: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {webhook: {enabled: false}, anonymous: {enabled: true}}
authorization: {mode: AlwaysAllow}
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
resolvConf: ""
readOnlyPort: 0
nodeStatusUpdateFrequency: 2s
syncFrequency: 10s
`

// proxyConfig disables the settings of the machine's connection tracking table.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: KUBECONFIG}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// newNode boots a node that reaches a control plane with an admin's kubeconfig.
func newNode(t testing.TB, h *clustertest.Host, programs, kubeconfig, group string) *node {
	t.Helper()
	dir := t.TempDir()
	return bootNode(t, h, group, [][]string{
		containerdService(t, dir),
		{filepath.Join(programs, "kubelet"), "--config", writeFile(t, dir, "kubelet.yaml", kubeletConfig), "--kubeconfig", kubeconfig,
			"--node-ip", h.Addr[0].String() + "," + h.Addr[1].String(), "--hostname-override", h.Name},
		{filepath.Join(programs, "kube-proxy"), "--config", writeFile(t, dir, "kube-proxy.yaml", strings.Replace(proxyConfig, "KUBECONFIG", kubeconfig, 1)),
			"--hostname-override", h.Name},
	})
}

func containerdService(t testing.TB, dir string) []string {
	t.Helper()
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		t.Fatal(err)
	}
	return []string{containerd, "--config", writeFile(t, dir, "containerd.toml", containerdConfig)}
}

// writeFile writes a file that the node uses, and returns its path.
func writeFile(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// bootNode boots a node that runs services.
func bootNode(t testing.TB, h *clustertest.Host, group string, services [][]string) *node {
	t.Helper()
	text, err := json.Marshal(services)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Host: h, t: t, group: group, services: []string{supervised + "=" + string(text)}}
	n.boot()
	return n
}

// boot starts the node, and waits until its containerd answers.
func (n *node) boot() {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.daemon = n.Start(clustertest.Command{Argv: []string{"sh", "-c", power, "sh"}, Env: n.services}, n.group, groups, "sh", firmware, "sh", n.Dir, self)
	kerneltest.Eventually(n.t, patience, func() error {
		if !n.daemon.Running() {
			n.t.Fatalf("%s does not boot:\n%s", n.Name, n.daemon.Log())
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", n.daemon.PID, n.daemon.PID))
		if err != nil {
			return err
		}
		if n.pid = strings.TrimSpace(string(children)); n.pid == "" {
			return fmt.Errorf("%s has not started to boot", n.Name)
		}
		// Without a socket, ctr would wait for long.
		if _, err := os.Stat(n.path("/run/containerd/containerd.sock")); err != nil {
			return err
		}
		return kerneltest.Try(n.command("ctr", "--connect-timeout", "1s", "version"))
	})
}

// load imports images into the node's containerd.
func (n *node) load(archives ...[]byte) {
	n.t.Helper()
	for _, archive := range archives {
		cmd := n.command("ctr", "-n", "k8s.io", "images", "import", "-")
		cmd.Stdin = bytes.NewReader(archive)
		kerneltest.Run(n.t, cmd)
	}
}

// reboot ends all processes of the node at once, removes from its kernel what a reboot
// removes, and boots it.
func (n *node) reboot() {
	n.t.Helper()
	first := "/proc/" + n.pid
	n.daemon.Kill()
	kerneltest.Eventually(n.t, patience, func() error {
		if _, err := os.Stat(first); err == nil {
			return fmt.Errorf("%s still runs", n.Name)
		}
		return nil
	})
	removeGroups(n.t, n.group)
	for line := range strings.Lines(n.NS.IP(n.t, "-o link show")) {
		name := strings.TrimSuffix(strings.Fields(line)[1], ":")
		name, _, _ = strings.Cut(name, "@")
		if name != "lo" && name != clustertest.Uplink {
			// Deleting its peer may have removed it already.
			_ = n.NS.Command("ip", "link", "delete", name).Run()
		}
	}
	kerneltest.Run(n.t, n.NS.Command("nft", "flush", "ruleset"))
	for _, setting := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		n.NS.Sysctl(n.t, setting, "0")
	}
	n.boot()
}

// logOutput logs the output of the node's services if the test fails.
func (n *node) logOutput() {
	if !n.t.Failed() {
		return
	}
	logs, err := filepath.Glob(n.path("/var/log/pods/*/*/*.log"))
	if err != nil {
		n.t.Error(err)
	}
	for _, service := range []string{"kubelet", "containerd", "kube-proxy"} {
		logs = append(logs, n.path(logOf(service)))
	}
	for _, log := range logs {
		out, err := os.ReadFile(log)
		lines := strings.Split(string(out), "\n")
		n.t.Logf("%s %s, %v:\n%s", n.Name, log, err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// path returns the path at which other processes find a node's file.
func (n *node) path(file string) string { return filepath.Join("/proc", n.pid, "root", file) }

// command returns a command that runs on the node.
func (n *node) command(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", n.pid, "-m", "-u", "-i", "-n", "-p", "-C", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	return cmd
}
