//go:build kube

package controllertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// cloudNodes is how many Nodes of a cloud are created at once.
var cloudNodes = flag.Int("cloud-nodes", 50, "how many Nodes of a cloud to initialise at once")

// cloudFlags are the flags that both controllers of a cloud's Nodes need.
var cloudFlags = []string{"--cloud-provider=aws", "--cluster-name=prod", "--controllers=cloud-node,cloud-node-lifecycle", "--leader-elect=false", "--healthz-port=0"}

// cloudRules are the RBAC rules of the controllers of a cloud's Nodes.
var cloudRules = []kubetest.Rule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
}

// cloudLab is a control plane and an AWS account, whose calls take 100 ms.
type cloudLab struct {
	*lab
	aws       *awstest.Server
	account   string // the path of the kubeconfig of tulle-controller
	instances []awstest.Instance
}

func newCloudLab(t testing.TB, instances int) *cloudLab {
	t.Helper()
	l := &cloudLab{lab: newLab(t), aws: awstest.New(t)}
	l.account = l.ServiceAccount("kube-system", "cloud-controller", cloudRules...)
	l.instances = l.aws.Launch(awstest.Launch{Count: instances, Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}})
	l.aws.Set(func(s *awstest.Settings) { s.Latency = map[string]time.Duration{"": 100 * time.Millisecond} })
	return l
}

// run runs tulle-controller as the owner of a kubeconfig.
func (l *cloudLab) run(kubeconfig string, flags ...string) *kerneltest.Process {
	l.t.Helper()
	p := kerneltest.Launch(l.t, "", l.environ(), append([]string{l.binary(), "--kubeconfig=" + kubeconfig}, append(slices.Clone(cloudFlags), flags...)...)...)
	l.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if said := p.Said(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") || l.t.Failed() {
			l.t.Errorf("tulle-controller says\n%s", said)
		}
	})
	return p
}

func (l *cloudLab) environ() []string {
	return append(l.aws.Env(), "GORACE=atexit_sleep_ms=0")
}

func (l *cloudLab) binary() string {
	l.t.Helper()
	if l.program == "" {
		var err error
		if l.program, err = tested(); err != nil {
			l.t.Fatal(err)
		}
	}
	return l.program
}

// nodes returns Nodes as kubelets of the cloud register them.
func (l *cloudLab) nodes() (all []*corev1.Node) {
	for i, at := range l.instances {
		n := largeNode(i)
		n.Name, n.Spec.ProviderID, n.Labels = at.Name, "", map[string]string{"kubernetes.io/hostname": at.Name}
		n.Spec.Taints = []corev1.Taint{
			{Key: cloudnode.Taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: "example.org/dedicated", Effect: corev1.TaintEffectNoExecute},
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: at.Name}}
		all = append(all, n)
	}
	return all
}

// list returns all Nodes by name.
func (l *cloudLab) list() (map[string]corev1.Node, error) {
	var list corev1.NodeList
	text, err := l.get(nodesPath)
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	all := make(map[string]corev1.Node)
	for _, n := range list.Items {
		all[n.Name] = n
	}
	return all, err
}

// initialised waits until all Nodes are initialised, and checks their fields.
func (l *cloudLab) initialised() map[string]corev1.Node {
	l.t.Helper()
	var all map[string]corev1.Node
	kerneltest.Eventually(l.t, patience, func() (err error) {
		if all, err = l.list(); err != nil {
			return err
		}
		for _, at := range l.instances {
			if n := all[at.Name]; hasTaint(n, cloudnode.Taint) || n.Spec.ProviderID == "" {
				return fmt.Errorf("%s has the taints %v", at.Name, n.Spec.Taints)
			}
		}
		return nil
	})
	for _, at := range l.instances {
		n := all[at.Name]
		if want := "aws:///" + at.Zone + "/" + at.ID; n.Spec.ProviderID != want || !hasTaint(n, "example.org/dedicated") || !hasTaint(n, "node.kubernetes.io/not-ready") {
			l.t.Errorf("%s has the providerID %s and the taints %v", at.Name, n.Spec.ProviderID, n.Spec.Taints)
		}
		for key, value := range map[string]string{
			"node.kubernetes.io/instance-type": at.Type, "beta.kubernetes.io/instance-type": at.Type,
			"topology.kubernetes.io/zone": at.Zone, "failure-domain.beta.kubernetes.io/zone": at.Zone,
			"topology.kubernetes.io/region": awstest.Region, "failure-domain.beta.kubernetes.io/region": awstest.Region, "kubernetes.io/hostname": at.Name,
		} {
			if n.Labels[key] != value {
				l.t.Errorf("%s: label %s is %q, want %q", at.Name, key, n.Labels[key], value)
			}
		}
		if a := n.Status.Addresses; len(a) < 3 || a[0].Type != corev1.NodeInternalIP || a[0].Address != at.Private.String() {
			l.t.Errorf("%s has the addresses %v", at.Name, a)
		}
	}
	return all
}

func hasTaint(n corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// TestCloudNodesAreInitialisedAtOnce shows that fault 13 of the incumbents is absent:
// they have one worker, and send one or more requests for each Node. Here one request
// covers all Nodes that exist at the start, and a few cover those that appear at once.
// After that, the first pass of another process writes nothing.
func TestCloudNodesAreInitialisedAtOnce(t *testing.T) {
	t.Parallel()
	l := newCloudLab(t, *cloudNodes)
	if *cloudNodes > 50 { // the test also measures
		var err error
		if l.program, err = installed(); err != nil {
			t.Fatal(err)
		}
	}
	l.binary()
	nodes := l.nodes()
	l.Register(nil, nodes...)
	began := time.Now()
	p := l.run(l.account)
	l.initialised()
	found, calls := time.Since(began), l.aws.Count("DescribeInstances")
	stop(t, p)
	for _, n := range nodes {
		l.Do(http.MethodDelete, nodesPath+"/"+n.Name, nil, nil)
	}

	p = l.run(l.account)
	l.waitsFor(p, "Using a cloud")
	l.aws.Forget()
	began = time.Now()
	l.Register(nil, l.nodes()...)
	created := time.Since(began)
	before := l.initialised()
	t.Logf("%d Nodes that exist at the start: %v, %d calls; Nodes that appear within %v: %v, %d calls", len(nodes),
		found.Round(time.Millisecond), calls, created.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), l.aws.Count("DescribeInstances"))
	if most := 2 + len(nodes)/25; l.aws.Count("DescribeInstances") > most {
		t.Errorf("%d calls for %d Nodes", l.aws.Count("DescribeInstances"), len(nodes))
	}
	stop(t, p)

	cmd := exec.Command(l.binary(), append([]string{"plan", "--kubeconfig=" + l.account}, cloudFlags...)...)
	cmd.Env = append(cmd.Environ(), l.environ()...)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 0 || !strings.Contains(string(out), "nothing to write") {
		t.Errorf("plan exits with %v:\n%s", cmd.ProcessState, out)
	}
	l.aws.Forget()
	p = l.run(l.account)
	kerneltest.Eventually(t, patience, func() error {
		if l.aws.Count("DescribeInstances") == 0 {
			return fmt.Errorf("the controller has not asked the cloud:\n%s", p.Said())
		}
		return nil
	})
	late := l.aws.Launch(awstest.Launch{Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}})
	l.instances = append(l.instances, late...)
	l.Register(nil, l.nodes()[len(nodes)])
	for name, n := range l.initialised() {
		if was, is := before[name]; is && was.ResourceVersion != n.ResourceVersion {
			t.Errorf("%s was changed", name)
		}
	}
	stop(t, p)
}

// TestCloudNodesOfStoppedInstances stops an instance and starts it again. It also
// terminates one, whose Node the controller does not delete at once, but observes
// first: fault 12 of the incumbents is absent.
func TestCloudNodesOfStoppedInstances(t *testing.T) {
	t.Parallel()
	l := newCloudLab(t, 6)
	l.Register(nil, l.nodes()...)
	p := l.run(l.account)
	l.initialised()
	stopped, ended := l.instances[0], l.instances[1]
	ready := func(name string, s corev1.ConditionStatus) {
		t.Helper()
		change := map[string]any{"status": map[string]any{"conditions": []map[string]any{{"type": "Ready", "status": s}}}}
		l.Do(http.MethodPatch, nodesPath+"/"+name+"/status", change, nil)
	}
	awaitTaint := func(want bool) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error {
			all, err := l.list()
			if n := all[stopped.Name]; err == nil && hasTaint(n, lifecycle.Taint) != want {
				err = fmt.Errorf("the taints are %v", n.Spec.Taints)
			}
			return err
		})
	}
	l.aws.Stop(stopped.ID)
	l.aws.Terminate(ended.ID)
	ready(stopped.Name, corev1.ConditionUnknown)
	ready(ended.Name, corev1.ConditionUnknown)
	awaitTaint(true)
	l.says(ended.Name, "InstanceGone", "terminated", "5m0s")
	l.aws.Run(stopped.ID)
	ready(stopped.Name, corev1.ConditionTrue)
	awaitTaint(false)
	all, err := l.list()
	if _, is := all[ended.Name]; err != nil || !is || len(all) != 6 {
		t.Errorf("%v, %d Nodes", err, len(all))
	}
	if _, err := l.get("/" + kube.Path(kube.Nodes, ended.Name)); err != nil {
		t.Error(err)
	}
	stop(t, p)
}
