//go:build kubelet

package kubelettest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

// kubernetes is a control plane and its nodes.
type kubernetes struct {
	*clustertest.Cluster
	t          testing.TB
	server     *kubetest.Cluster
	nodes      []*node
	images     [][]byte
	tulle      []byte // the image of this tree
	programs   string
	kubeconfig string
	podProgram string
	group      string // the prefix of the nodes' control groups
}

// newKubernetes starts a control plane and n nodes. The nodes have the images of the
// tests' pods.
func newKubernetes(t testing.TB, nodes int, cidrs ...string) *kubernetes {
	t.Helper()
	k := &kubernetes{t: t, programs: kubetest.NodePrograms(t), group: fmt.Sprintf("tulle-kubelet-%d-", os.Getpid())}
	k.Cluster = clustertest.New(t, clustertest.Options{Hosts: nodes})
	t.Cleanup(func() { removeGroups(t, k.group+"*") })
	k.server = kubetest.Start(t, kubetest.Options{
		Nodes: true, ClusterCIDRs: cidrs, Namespace: k.EtcdHost().NS.Name, Address: clustertest.EtcdAddrs(1)[0],
	})
	k.kubeconfig = k.server.Admin()
	k.podProgram = podProgram(t)
	k.images = podImages(t, k.podProgram)
	for _, h := range k.Hosts {
		k.join(h)
	}
	return k
}

// step runs a part of a test. If it fails, the test ends, because the following parts
// depend on it.
func (k *kubernetes) step(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	whole := k.t
	defer k.by(whole)
	if !t.Run(name, func(t *testing.T) {
		k.by(t)
		// Log this while the nodes still answer.
		defer func() {
			for _, n := range k.nodes {
				n.logOutput()
			}
		}()
		f(t)
	}) {
		t.FailNow()
	}
}

// by makes k and its nodes report failures to t.
func (k *kubernetes) by(t testing.TB) {
	k.t = t
	for _, n := range k.nodes {
		n.t = t
	}
}

// join makes a host a node, and loads all images into it.
func (k *kubernetes) join(h *clustertest.Host) *node {
	k.t.Helper()
	n := newNode(k.t, h, k.programs, k.kubeconfig, k.group+h.Name)
	n.load(k.images...)
	k.nodes = append(k.nodes, n)
	return n
}

// load adds images to all nodes.
func (k *kubernetes) load(images ...[]byte) {
	k.t.Helper()
	k.images = append(k.images, images...)
	for _, n := range k.nodes {
		n.load(images...)
	}
}

// removeGroups removes the control groups whose names match a pattern, once they are
// empty. It also removes those of tests that were killed.
func removeGroups(t testing.TB, pattern string) {
	t.Helper()
	const script = `mount -t tmpfs tmpfs /mnt
trees=$(sed -n 's/^[0-9]*:\([a-z_,=]*\):.*/\1/p' /proc/self/cgroup)
for tree in ${trees:-unified}; do
	mkdir "/mnt/$tree"
	case $tree in
	unified) mount -t cgroup2 cgroup2 "/mnt/$tree" ;;
	name=*) mount -t cgroup -o "none,$tree" cgroup "/mnt/$tree" ;;
	*) mount -t cgroup -o "$tree" cgroup "/mnt/$tree" ;;
	esac
	for group in "/mnt/$tree"/tulle-kubelet-*; do
		maker=${group#*/tulle-kubelet-}
		case ${group##*/} in $1) ;; *) [ ! -e "/proc/${maker%%-*}" ] || continue ;; esac
		[ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} +
	done
done`
	kerneltest.Eventually(t, patience, func() error {
		return kerneltest.Try(exec.Command("unshare", "--mount", "sh", "-e", "-c", script, "sh", pattern))
	})
}

// kubectl runs a kubectl command with arguments separated by spaces.
func (k *kubernetes) kubectl(command string) string {
	k.t.Helper()
	return kerneltest.Run(k.t, k.kubectlCommand(strings.Fields(command)...))
}

func (k *kubernetes) kubectlCommand(words ...string) *exec.Cmd {
	cmd := k.EtcdHost().NS.Command(append([]string{filepath.Join(k.programs, "kubectl"), "--kubeconfig", k.kubeconfig}, words...)...)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(k.kubeconfig))
	return cmd
}

// page is the page that operators read.
const page = "../../../Documentation/kubernetes.md"

// documented runs the command of the page that begins with the given words. It replaces
// each of the page's placeholders with a given word.
func (k *kubernetes) documented(beginning string, open ...string) string {
	k.t.Helper()
	return kerneltest.Run(k.t, k.documentedCommand(beginning, open...))
}

func (k *kubernetes) documentedCommand(beginning string, open ...string) *exec.Cmd {
	k.t.Helper()
	return k.commandOf(page, beginning, open...)
}

// commandOf returns the only command of a page that begins with the given words.
func (k *kubernetes) commandOf(page, beginning string, open ...string) *exec.Cmd {
	k.t.Helper()
	return k.shell(strings.NewReplacer(open...).Replace(commandIn(k.t, page, beginning)))
}

// shell returns a shell command that an admin runs.
func (k *kubernetes) shell(command string) *exec.Cmd {
	cmd := k.EtcdHost().NS.Command("sh", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+k.programs+":"+os.Getenv("PATH"), "KUBECONFIG="+k.kubeconfig, "HOME="+filepath.Dir(k.kubeconfig))
	return cmd
}

// commandIn returns the only line of a page that begins with the given words.
func commandIn(t testing.TB, page, beginning string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimPrefix(line, "$ "); strings.HasPrefix(line, beginning) && !slices.Contains(found, line) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d commands that begin with %q", page, len(found), beginning)
	}
	return found[0]
}

// outputIn returns the lines of a page after the line with the given beginning, up to
// the end of the block. If that line is not a command, it is the first of them.
func outputIn(t testing.TB, page, beginning string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), "\n$ "+beginning)
	if at >= 0 {
		at += 1 + strings.Index(string(text[at+1:]), "\n")
	} else {
		at = strings.Index(string(text), "\n"+beginning)
	}
	if at < 0 {
		t.Fatalf("%s has no line that begins with %q", page, beginning)
	}
	block, _, _ := strings.Cut(string(text[at+1:]), "\n```")
	return block
}

// apply applies a manifest.
func (k *kubernetes) apply(manifest string) {
	k.t.Helper()
	cmd := k.kubectlCommand("apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	kerneltest.Run(k.t, cmd)
}

// get reads an object, or a list of them.
func (k *kubernetes) get(what string, to any) {
	k.t.Helper()
	if err := k.tryGet(what, to); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kubernetes) tryGet(what string, to any) error {
	out, err := k.kubectlCommand(append([]string{"get", "-o", "json"}, strings.Fields(what)...)...).Output()
	if err != nil {
		return fmt.Errorf("kubectl get %s: %w", what, err)
	}
	return json.Unmarshal(out, to)
}

// eventually waits until f returns no error.
func (k *kubernetes) eventually(f func() error) {
	k.t.Helper()
	kerneltest.Eventually(k.t, patience, f)
}

type condition struct{ Type, Status, Reason, Message string }

// conditions returns the conditions of a node.
func (k *kubernetes) conditions(n *node) (all map[string]condition, err error) {
	var object struct {
		Status struct{ Conditions []condition }
	}
	if err := k.tryGet("node "+n.Name, &object); err != nil {
		return nil, err
	}
	all = make(map[string]condition)
	for _, c := range object.Status.Conditions {
		all[c.Type] = c
	}
	return all, nil
}

// awaitNodes waits until a condition of all nodes has a status.
func (k *kubernetes) awaitNodes(kind, status string) {
	k.t.Helper()
	for _, n := range k.nodes {
		k.eventually(func() error {
			all, err := k.conditions(n)
			if err == nil && all[kind].Status != status {
				err = fmt.Errorf("%s: %+v is not %s", n.Name, all[kind], status)
			}
			return err
		})
	}
}

// podObject is the part of a pod that the tests read.
type podObject struct {
	Metadata struct {
		Name, Namespace, UID string
		DeletionTimestamp    string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase             string
		Conditions        []condition
		PodIPs            []struct{ IP string }
		ContainerStatuses []struct {
			Name, ContainerID string
			Ready             bool
			RestartCount      int
		}
	}
}

// pods returns the pods of a selector, such as "-n kube-system -l app=tulle".
func (k *kubernetes) pods(selector string) []podObject {
	k.t.Helper()
	var list struct{ Items []podObject }
	k.get("pods "+selector, &list)
	return list.Items
}

func (k *kubernetes) node(name string) *node {
	k.t.Helper()
	for _, n := range k.nodes {
		if n.Name == name {
			return n
		}
	}
	k.t.Fatalf("there is no node %q", name)
	panic("unreachable")
}

const podManifest = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  nodeName: %[2]s
  terminationGracePeriodSeconds: 1
  containers:
  - {name: pod, image: "` + podImage + `", imagePullPolicy: Never, ports: [{containerPort: ` + podPort + `, hostPort: %[3]d}]}
`

// pod is a running pod, with the methods of clustertest's.
type pod struct {
	*clustertest.Pod
	name      string
	container string // its id
}

// addPod runs a pod on a node.
func (k *kubernetes) addPod(name string, n *node) *pod {
	k.t.Helper()
	return k.addPodAt(name, n, 0)
}

// addPodAt runs a pod on a node, with a port that is also a port of the node.
func (k *kubernetes) addPodAt(name string, n *node, hostPort int) *pod {
	k.t.Helper()
	k.apply(fmt.Sprintf(podManifest, name, n.Name, hostPort))
	return k.findPod(name)
}

// findPod waits until a pod runs, and returns it.
func (k *kubernetes) findPod(name string) *pod {
	k.t.Helper()
	var object podObject
	k.eventually(func() error {
		if err := k.tryGet("pod "+name, &object); err != nil {
			return err
		}
		if c := object.Status.ContainerStatuses; len(c) != 1 || !c[0].Ready {
			return fmt.Errorf("%s: %+v", name, object.Status)
		}
		return nil
	})
	n := k.node(object.Spec.NodeName)
	p := &pod{name: name, container: containerID(object, "pod")}
	p.Pod = &clustertest.Pod{Host: n.Host, NS: &kerneltest.NS{Name: name, Path: n.path(fmt.Sprintf("/proc/%s/ns/net", n.process(p.container)))}, MTU: n.mtu(p.container)}
	for _, each := range object.Status.PodIPs {
		a, err := netip.ParseAddr(each.IP)
		if err != nil {
			k.t.Fatal(err)
		}
		p.Addr[subnet.FamilyOf(a)] = a
	}
	return p
}

func containerID(object podObject, name string) string {
	for _, c := range object.Status.ContainerStatuses {
		if c.Name == name {
			return strings.TrimPrefix(c.ContainerID, "containerd://")
		}
	}
	return ""
}

// process returns the ID of a container's first process, in the node's namespace.
func (n *node) process(container string) string {
	n.t.Helper()
	for line := range strings.Lines(kerneltest.Run(n.t, n.command("ctr", "-n", "k8s.io", "tasks", "ls"))) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == container {
			return fields[1]
		}
	}
	n.t.Fatalf("%s does not run %s", n.Name, container)
	panic("unreachable")
}

// mtu returns the MTU of a container's interface.
func (n *node) mtu(container string) int {
	n.t.Helper()
	out := kerneltest.Run(n.t, n.command("nsenter", "-t", n.process(container), "-n", "ip", "-o", "link", "show", "eth0"))
	_, rest, _ := strings.Cut(out, " mtu ")
	var mtu int
	if _, err := fmt.Sscan(rest, &mtu); err != nil {
		n.t.Fatalf("%s: %v", out, err)
	}
	return mtu
}
