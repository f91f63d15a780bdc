//go:build kube

package controllertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

const (
	source = "github.com/tulle-net/tulle/pkg/cmd/tulle-controller"
	// patience is the time limit of a wait before the test fails.
	patience = time.Minute
	// rest is how long a freed block rests, plus some time for the controller.
	rest = 90 * time.Second

	account    = "tulle-controller"
	nodesPath  = "/api/v1/nodes"
	eventsPath = "/api/v1/namespaces/default/events"
)

// programs is the folder of the programs that the tests build.
var programs string

func TestMain(m *testing.M) {
	etcdtest.Main()
	var err error
	if programs, err = os.MkdirTemp("", "tulle-controllertest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// tested is tulle-controller with the race detector. installed is the program as it is
// released.
var (
	tested    = sync.OnceValues(func() (string, error) { return build("tested", "1", "-race") })
	installed = sync.OnceValues(func() (string, error) {
		return build("installed", "0", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w")
	})
)

func build(name, cgo string, flags ...string) (path string, err error) {
	path = filepath.Join(programs, name)
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, source)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	return path, nil
}

// lab is a control plane without node IPAM.
type lab struct {
	*kubetest.Cluster
	t       testing.TB
	view    *view
	account string // the path of tulle-controller's kubeconfig
	program string
	names   map[string]bool // names of the Nodes that were created and not deleted
}

func newLab(t testing.TB, flags ...string) *lab {
	t.Helper()
	return newLabOf(t, kubetest.Options{Flags: flags})
}

// newLabOf returns a lab whose control plane has options.
func newLabOf(t testing.TB, o kubetest.Options) *lab {
	t.Helper()
	l := &lab{Cluster: kubetest.Start(t, o), t: t, names: make(map[string]bool)}
	l.account = l.ServiceAccount("kube-system", account, kubetest.ControllerRules...)
	l.view = l.watch()
	return l
}

// tulle runs tulle-controller with the RBAC rules that it needs.
func (l *lab) tulle(flags ...string) *kerneltest.Process {
	l.t.Helper()
	return l.tulleAs(l.account, flags...)
}

// tulleAs runs tulle-controller as the owner of a kubeconfig.
func (l *lab) tulleAs(kubeconfig string, flags ...string) *kerneltest.Process {
	l.t.Helper()
	if l.program == "" {
		var err error
		if l.program, err = tested(); err != nil {
			l.t.Fatal(err)
		}
	}
	p := kerneltest.Launch(l.t, "", []string{"GORACE=atexit_sleep_ms=0", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=2"},
		append([]string{l.program, "--kubeconfig=" + kubeconfig, "--allocate-node-cidrs", "--healthz-port=0"}, flags...)...)
	l.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		said := p.Said()
		if strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") {
			l.t.Error("tulle-controller crashed, or has a race")
		}
		if l.t.Failed() {
			l.t.Logf("tulle-controller says\n%s", said)
		}
	})
	return p
}

// kcm runs a kube-controller-manager with node IPAM as its only controller.
func (l *lab) kcm(flags ...string) *kerneltest.Process {
	l.t.Helper()
	return l.Manager(l.Admin(), flags...)
}

// stop sends SIGTERM to a program, and waits for its end.
func stop(t testing.TB, p *kerneltest.Process) {
	t.Helper()
	if state := p.End(syscall.SIGTERM); !state.Success() {
		t.Errorf("it ended with %v:\n%s", state, p.Said())
	}
}

// smallNode returns a Node with few fields. Without podCIDRs, the Node waits for some.
func smallNode(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs
	}
	return n
}

// largeNode returns a Node as large as a real one, which waits for podCIDRs.
func largeNode(i int) *corev1.Node {
	n := apitest.LargeNode(i)
	n.Name = fmt.Sprintf("node-%05d", i)
	n.UID, n.ResourceVersion, n.Annotations = "", "", nil
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil
	return n
}

// largeNodes returns n Nodes, the first of which has the number from.
func largeNodes(from, n int) (all []*corev1.Node) {
	for i := range n {
		all = append(all, largeNode(from+i))
	}
	return all
}

// Register creates Nodes like kubetest's Register, and records their names.
func (l *lab) Register(each func(name string), nodes ...*corev1.Node) {
	l.t.Helper()
	for _, n := range nodes {
		l.names[n.Name] = true
	}
	l.Cluster.Register(each, nodes...)
}

// add creates small Nodes without podCIDRs.
func (l *lab) add(names ...string) {
	l.t.Helper()
	for _, name := range names {
		l.Register(nil, smallNode(name))
	}
}

// addAtOnce creates small Nodes without podCIDRs, many at the same time.
func (l *lab) addAtOnce(names ...string) {
	l.t.Helper()
	var nodes []*corev1.Node
	for _, name := range names {
		nodes = append(nodes, smallNode(name))
	}
	l.Register(nil, nodes...)
}

// remove deletes Nodes.
func (l *lab) remove(names ...string) {
	l.t.Helper()
	for _, name := range names {
		delete(l.names, name)
		l.Do(http.MethodDelete, nodesPath+"/"+name, nil, nil)
	}
	l.await(patience, func(all map[string]seen) error {
		for _, name := range names {
			if n, is := all[name]; is && !n.deleting {
				return fmt.Errorf("%s is still there", name)
			}
		}
		return nil
	})
}

// events returns the texts of a Node's events that have a reason; "" is any reason.
func (l *lab) events(node, reason string) (texts []string) {
	l.t.Helper()
	var list struct {
		Items []struct {
			InvolvedObject  struct{ Name string }
			Reason, Message string
		}
	}
	text, err := l.get(eventsPath)
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.Name == node && (reason == "" || e.Reason == reason) {
			texts = append(texts, e.Message)
		}
	}
	return texts
}

// says waits for an event about a Node whose text contains all parts, and returns the
// text.
func (l *lab) says(node, reason string, parts ...string) (text string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, patience, func() error {
		all := l.events(node, reason)
		for _, text = range all {
			if missing(text, parts) == "" {
				return nil
			}
		}
		return fmt.Errorf("the events %s of %s are %q, and none contains all of %q", reason, node, all, parts)
	})
	return text
}

// missing returns the first part that a text lacks, or "".
func missing(text string, parts []string) string {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// get returns the API server's answer to a request of the admin.
func (l *lab) get(path string) (text string, err error) {
	var raw json.RawMessage
	err = l.Try(http.MethodGet, path, nil, &raw)
	return string(raw), err
}
