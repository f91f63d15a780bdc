//go:build kube

package controllertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

const (
	clustersPath    = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"
	awsClustersPath = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/awsclusters"
)

// networkRules are the rights of the controller of networks.
var networkRules = []kubetest.Rule{
	{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{awscluster.Group}, Resources: []string{"awsclusters"}, Verbs: []string{"list", "watch", "patch"}},
	{APIGroups: []string{awscluster.Group}, Resources: []string{"awsclusters/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"}, ResourceNames: []string{"awsclusters." + awscluster.Group}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "list", "watch", "update"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
}

// networkLab is a management cluster, and an account of AWS.
type networkLab struct {
	*lab
	aws     *awstest.Server
	account string // the path of the kubeconfig of tulle-controller
}

func newNetworkLab(t testing.TB) *networkLab {
	t.Helper()
	return newNetworkLabWith(t, (*networkLab).openDefinitions)
}

// newNetworkLabWith returns a networkLab with the CustomResourceDefinitions that define adds.
func newNetworkLabWith(t testing.TB, define func(*networkLab)) *networkLab {
	t.Helper()
	l := &networkLab{lab: newLabOf(t, kubetest.Options{ClientCA: true}), aws: awstest.New(t)}
	l.account = l.ServiceAccount("kube-system", "network-controller", networkRules...)
	define(l)
	return l
}

// openDefinitions adds Clusters and AWSClusters of the newer contract.
func (l *networkLab) openDefinitions() {
	l.define("cluster.x-k8s.io", "Cluster", "clusters", nil)
	l.define(awscluster.Group, awscluster.Kind, "awsclusters", map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"})
}

// define adds a resource with the subresource status, which accepts everything.
func (l *networkLab) define(group, kind, plural string, labels map[string]string) {
	l.t.Helper()
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"metadata": map[string]any{"name": plural + "." + group, "labels": labels, "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{
				"name": "v1beta2", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": open},
			}},
		},
	}, nil)
	kerneltest.Eventually(l.t, patience, func() error {
		return l.Try(http.MethodGet, "/apis/"+group+"/v1beta2/"+plural, nil, nil)
	})
}

// cluster creates a Cluster and its AWSCluster.
func (l *networkLab) cluster(name string) {
	l.t.Helper()
	l.clusterWith(name, map[string]any{"region": awstest.Region, "network": map[string]any{"vpc": map[string]any{"cidrBlock": "10.0.0.0/16", "availabilityZoneUsageLimit": 2}}})
}

// clusterWith creates a Cluster, and its AWSCluster with a spec.
func (l *networkLab) clusterWith(name string, spec map[string]any) {
	l.t.Helper()
	var made struct{ Metadata struct{ UID string } }
	l.Do(http.MethodPost, clustersPath, map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"infrastructureRef": map[string]any{"apiGroup": awscluster.Group, "kind": awscluster.Kind, "name": name}},
	}, &made)
	l.Do(http.MethodPost, awsClustersPath, map[string]any{
		"apiVersion": awscluster.Group + "/v1beta2", "kind": awscluster.Kind,
		"metadata": map[string]any{"name": name, "ownerReferences": []any{
			map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name, "uid": made.Metadata.UID},
		}},
		"spec": spec,
	}, nil)
}

var networkFlags = []string{"--controllers=awscluster", "--healthz-port=0", "--network-reconciliation-period=5s", "--network-api-share=1000"}

// run runs tulle-controller for networks.
func (l *networkLab) run(flags ...string) *kerneltest.Process {
	l.t.Helper()
	program, err := tested()
	if err != nil {
		l.t.Fatal(err)
	}
	p := kerneltest.Launch(l.t, "", append(l.aws.Env(), "GORACE=atexit_sleep_ms=0"), append(append([]string{program, "--kubeconfig=" + l.account}, networkFlags...), flags...)...)
	l.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if said := p.Said(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") || l.t.Failed() {
			l.t.Errorf("tulle-controller says\n%s", said)
		}
	})
	return p
}

// network is what a test reads of an AWSCluster.
type network struct {
	Metadata struct {
		Finalizers      []string
		ResourceVersion string
		Labels          map[string]string
		OwnerReferences []owner
	}
	Spec struct {
		Endpoint struct {
			Host string
			Port int
		} `json:"controlPlaneEndpoint"`
	}
	Status struct {
		Ready          bool
		Initialization struct{ Provisioned bool }
		FailureDomains domains
		Conditions     []struct{ Type, Status, Reason, Message string }
		Network        struct {
			SecurityGroups map[string]struct{ ID string }
			Balancer       struct {
				Host string `json:"dnsName"`
			} `json:"apiServerElb"`
		} `json:"networkStatus"`
	}
}

type owner struct{ Kind, Name, UID string }

// domains are failure domains, in the form of either contract.
type domains []domain

type domain struct {
	Name         string
	ControlPlane bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *domains) UnmarshalJSON(text []byte) error {
	var list []domain
	if json.Unmarshal(text, &list) == nil {
		*d = list
		return nil
	}
	var byName map[string]domain
	if err := json.Unmarshal(text, &byName); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		*d = append(*d, domain{name, byName[name].ControlPlane})
	}
	return nil
}

func (l *networkLab) network(name string) (n network, err error) {
	text, err := l.get(awsClustersPath + "/" + name)
	if err == nil {
		err = json.Unmarshal([]byte(text), &n)
	}
	return n, err
}

// is returns an error unless a condition of an AWSCluster has a status.
func (n network) is(condition, status string) error {
	for _, c := range n.Status.Conditions {
		if c.Type == condition && c.Status == status {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: %+v", condition, status, n.Status.Conditions)
}

// handsOn returns an error unless the status has what controllers of machines need.
func (n network) handsOn() error {
	roles := slices.Sorted(maps.Keys(n.Status.Network.SecurityGroups))
	if !slices.Equal(roles, []string{"apiserver-lb", "controlplane", "lb", "node"}) || n.Status.Network.Balancer.Host != n.Spec.Endpoint.Host {
		return fmt.Errorf("the status has security groups of %q and the load balancer %q; the endpoint is %q", roles, n.Status.Network.Balancer.Host, n.Spec.Endpoint.Host)
	}
	return nil
}

// provisioned waits until the network of an AWSCluster is ready.
func (l *networkLab) provisioned(name string) (n network) {
	l.t.Helper()
	kerneltest.Eventually(l.t, 2*patience, func() (err error) {
		if n, err = l.network(name); err != nil {
			return err
		}
		if !n.Status.Ready || n.Spec.Endpoint.Host == "" || n.Spec.Endpoint.Port != 6443 {
			return fmt.Errorf("%+v", n)
		}
		return n.is("Ready", "True")
	})
	return n
}

// gone waits until an AWSCluster and everything of its network are gone.
func (l *networkLab) gone(name string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, 2*patience, func() error {
		if n, err := l.network(name); err == nil {
			return fmt.Errorf("%s still has %v: %+v", name, n.Metadata.Finalizers, n.Status.Conditions)
		}
		return nil
	})
	if left := l.left(); len(left) > 0 {
		l.t.Errorf("left over: %v", left)
	}
}

// left returns what of the account has the tag of Cluster API's AWS provider.
func (l *networkLab) left() (all []string) {
	l.t.Helper()
	for _, action := range []string{"DescribeVpcs", "DescribeSubnets", "DescribeRouteTables", "DescribeInternetGateways", "DescribeSecurityGroups", "DescribeAddresses", "DescribeVpcEndpoints"} {
		text, err := l.aws.Do(action)
		if err != nil {
			l.t.Fatal(err)
		}
		if strings.Contains(text, "cluster-api-provider-aws/cluster/") {
			all = append(all, action)
		}
	}
	for _, b := range l.aws.Balancers() {
		all = append(all, b.Name)
	}
	return all
}

// vpcs returns how many VPCs have the tag of a cluster.
func (l *networkLab) vpcs(name string) int {
	l.t.Helper()
	text, err := l.aws.Do("DescribeVpcs", "Filter.1.Name", "tag:sigs.k8s.io/cluster-api-provider-aws/cluster/"+name, "Filter.1.Value.1", "owned")
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Count(text, "<vpcId>")
}

// TestNetworkOfACluster follows a Cluster on a real control plane: planned, built, kept, paused
// and deleted.
func TestNetworkOfACluster(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t)
	l.cluster("prod")
	program, err := tested()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"plan", "--kubeconfig=" + l.account}, networkFlags...)...)
	cmd.Env = append(cmd.Environ(), l.aws.Env()...)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "create  vpc prod: main") || !strings.Contains(string(out), "add the finalizer") {
		t.Errorf("plan ends with %v:\n%s", cmd.ProcessState, out)
	}
	if left := l.left(); len(left) > 0 {
		t.Errorf("plan has made %v", left)
	}
	l.aws.Forget()

	p := l.run("--leader-elect=false")
	n := l.provisioned("prod")
	if !n.Status.Initialization.Provisioned || len(n.Status.FailureDomains) != 2 || !n.Status.FailureDomains[0].ControlPlane || !slices.Contains(n.Metadata.Finalizers, awscluster.Finalizer) {
		t.Errorf("%+v", n)
	}
	if err := n.handsOn(); err != nil {
		t.Error(err)
	}
	t.Logf("%d calls to build", len(l.aws.Calls()))

	// Idle: no write, and at most eight calls in a period. The first reading comes after the
	// status that shows the generation with the endpoint.
	readings := func(least int) {
		l.aws.Forget()
		kerneltest.Eventually(t, patience, func() error {
			if n := l.aws.Count("DescribeRouteTables"); n < least {
				return fmt.Errorf("%d readings", n)
			}
			return nil
		})
	}
	readings(1)
	if n, err = l.network("prod"); err != nil {
		t.Fatal(err)
	}
	readings(2)
	counts := l.aws.Counts()
	for action, times := range counts {
		if !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") {
			t.Errorf("idle: %s %d times", action, times)
		}
	}
	if calls := len(l.aws.Calls()); calls > 8*(l.aws.Count("DescribeRouteTables")+1) {
		t.Errorf("idle: %d calls in %d readings: %v", calls, l.aws.Count("DescribeRouteTables"), counts)
	}
	if now, err := l.network("prod"); err != nil || now.Metadata.ResourceVersion != n.Metadata.ResourceVersion {
		t.Errorf("idle: %v, %+v", err, now)
	}

	// Drift: a default route that a person deleted comes back, and not in a pause.
	defaultRoute := func() (table string) {
		for _, id := range l.aws.Tables() {
			for _, r := range l.aws.Routes(id) {
				if r.Destination == "0.0.0.0/0" && strings.HasPrefix(r.Target, "nat-") {
					return id
				}
			}
		}
		return ""
	}
	lose := func() string {
		table := defaultRoute()
		if _, err := l.aws.Do("DeleteRoute", "RouteTableId", table, "DestinationCidrBlock", "0.0.0.0/0"); err != nil {
			t.Fatal(err)
		}
		return table
	}
	restored := func(table string) error {
		for _, r := range l.aws.Routes(table) {
			if r.Destination == "0.0.0.0/0" {
				return nil
			}
		}
		return errors.New("the default route is missing in " + table)
	}
	table := lose()
	kerneltest.Eventually(t, patience, func() error { return restored(table) })
	l.Do(http.MethodPatch, clustersPath+"/prod", map[string]any{"spec": map[string]any{"paused": true}}, nil)
	kerneltest.Eventually(t, patience, func() error {
		n, err := l.network("prod")
		return errors.Join(err, n.is("Paused", "True"))
	})
	table = lose()
	l.aws.Forget()
	l.Do(http.MethodDelete, awsClustersPath+"/prod", nil, nil) // it waits, too
	l.cluster("witness")                                       // its life shows that the controller works meanwhile
	l.provisioned("witness")
	if restored(table) == nil {
		t.Error("in a pause, the default route comes back")
	}
	if n, err := l.network("prod"); err != nil || !slices.Contains(n.Metadata.Finalizers, awscluster.Finalizer) || l.vpcs("prod") != 1 {
		t.Errorf("in a pause, the network is deleted: %v, %+v", err, n)
	}
	l.Do(http.MethodPatch, clustersPath+"/prod", map[string]any{"spec": map[string]any{"paused": nil}}, nil)
	l.Do(http.MethodDelete, awsClustersPath+"/witness", nil, nil)
	kerneltest.Eventually(t, 2*patience, func() error {
		if n := l.vpcs("prod"); n > 0 {
			return fmt.Errorf("%d VPCs", n)
		}
		return nil
	})
	l.gone("witness")
	l.gone("prod")
	stop(t, p)
}

// TestNetworkLeaders kills the leader while it builds, and while it deletes. The other replica
// goes on, with nothing twice and nothing left.
func TestNetworkLeaders(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t)
	l.aws.Set(func(s *awstest.Settings) { s.Latency = map[string]time.Duration{"": 50 * time.Millisecond} })

	p := l.run(append([]string{"-v=1"}, quick...)...)
	l.waitsFor(p, "Leading")
	l.run(quick...) // stands by
	l.cluster("prod")
	called := func(action string) func() error {
		return func() error {
			if l.aws.Count(action) == 0 {
				return errors.New("not yet: " + action)
			}
			return nil
		}
	}
	kerneltest.Eventually(t, patience, called("CreateSubnet"))
	p.End(syscall.SIGKILL)
	l.provisioned("prod")
	if n := l.vpcs("prod"); n != 1 {
		t.Errorf("%d VPCs", n)
	}
	l.run(quick...)
	l.Do(http.MethodDelete, awsClustersPath+"/prod", nil, nil)
	kerneltest.Eventually(t, patience, called("DeleteSubnet"))
	l.gone("prod")
}

// TestNetworkIsUsable: the controllers of a cluster find its network by tags alone. Nodes get
// their routes in all tables of the cluster, and a Service gets a balancer in its subnets.
func TestNetworkIsUsable(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t)
	l.cluster("prod")
	p := l.run("--leader-elect=false")
	l.provisioned("prod")
	subnets, err := l.aws.Do("DescribeSubnets", "Filter.1.Name", "tag:kubernetes.io/role/internal-elb", "Filter.1.Value.1", "1")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(subnets, "<subnetId>")
	private, _, _ := strings.Cut(rest, "</subnetId>")
	home := l.aws.Launch(awstest.Launch{Count: 1, Subnet: private, Forwards: true, Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}})[0]
	node := largeNode(0)
	node.Name, node.Spec.ProviderID, node.Spec.PodCIDR, node.Spec.PodCIDRs = home.Name, "aws:///"+home.Zone+"/"+home.ID, "10.64.7.0/24", []string{"10.64.7.0/24"}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	l.Register(nil, node)
	l.Do(http.MethodPost, "/api/v1/namespaces/default/services", map[string]any{
		"metadata": map[string]any{"name": "web"},
		"spec":     map[string]any{"type": "LoadBalancer", "loadBalancerClass": "tulle.net/nlb", "ports": []any{map[string]any{"name": "http", "port": 80}}},
	}, nil)
	program, err := tested()
	if err != nil {
		t.Fatal(err)
	}
	inside := kerneltest.Launch(t, "", append(l.aws.Env(), "GORACE=atexit_sleep_ms=0"), program, "--kubeconfig="+l.Admin(), "--controllers=route,service",
		"--cloud-provider=aws", "--cluster-name=prod", "--allocate-node-cidrs", "--cluster-cidr=10.64.0.0/14", "--healthz-port=0", "--leader-elect=false")
	t.Cleanup(func() {
		inside.End(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the cluster's controllers say\n%s", inside.Said())
		}
	})
	kerneltest.Eventually(t, 2*patience, func() error {
		tagged := 0
		for _, id := range l.aws.Tables() {
			text, err := l.aws.Do("DescribeRouteTables", "RouteTableId.1", id)
			if err != nil || !strings.Contains(text, "kubernetes.io/cluster/prod") {
				continue
			}
			tagged++
			if !slices.ContainsFunc(l.aws.Routes(id), func(r awstest.Route) bool { return r.Destination == "10.64.7.0/24" && r.Target == home.Interface }) {
				return fmt.Errorf("%s has no route to the Node: %+v", id, l.aws.Routes(id))
			}
		}
		if tagged != 3 { // a public one, and one in each of two zones
			return fmt.Errorf("%d tables", tagged)
		}
		var service corev1.Service
		if err := l.Try(http.MethodGet, "/api/v1/namespaces/default/services/web", nil, &service); err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("the Service has no balancer; the account has %+v", l.aws.Balancers())
		}
		return nil
	})
	// The network's own comparisons keep the routes of Nodes.
	l.aws.Forget()
	kerneltest.Eventually(t, patience, func() error {
		if n := l.aws.Count("DescribeAddresses"); n < 2 {
			return fmt.Errorf("%d readings", n)
		}
		return nil
	})
	if n := l.aws.Count("DeleteRoute"); n > 0 {
		t.Errorf("%d routes are deleted", n)
	}
	stop(t, p)
}
