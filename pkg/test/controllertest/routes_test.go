//go:build kube

package controllertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// vpc holds the instances and route tables of a cluster's Nodes on AWS.
type vpc struct {
	*lab
	aws    *awstest.Server
	tables []string
	homes  map[string]awstest.Instance // by Node
	cidrs  map[string]string
}

// routeRules are the RBAC rules of the route controller, in addition to those of node
// IPAM.
var routeRules = []kubetest.Rule{
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"}, ResourceNames: route.PartNames("tulle-controller-routes")},
}

// prod is the tag of the cluster's resources.
var prod = map[string]string{"kubernetes.io/cluster/prod": "owned"}

func newVPC(t *testing.T, tables int) *vpc {
	v := &vpc{lab: newLab(t), aws: awstest.New(t), homes: make(map[string]awstest.Instance), cidrs: make(map[string]string)}
	v.account = v.ServiceAccount("kube-system", "tulle-routes", append(slices.Clone(kubetest.ControllerRules), routeRules...)...)
	for range tables {
		v.tables = append(v.tables, v.aws.AddTable(v.aws.Default().VPC, prod))
	}
	return v
}

// launch creates n Nodes with podCIDRs, and their instances.
func (v *vpc) launch(n int) (names []string) {
	v.t.Helper()
	var nodes []*corev1.Node
	for _, i := range v.aws.Launch(awstest.Launch{Count: n, Tags: prod}) {
		k := len(v.homes)
		name := fmt.Sprintf("node-%d", k)
		node := smallNode(name, fmt.Sprintf("10.64.%d.0/24", k))
		node.Spec.ProviderID = fmt.Sprintf("aws:///%s/%s", i.Zone, i.ID)
		v.homes[name], v.cidrs[name] = i, node.Spec.PodCIDR
		nodes, names = append(nodes, node), append(names, name)
	}
	v.Register(nil, nodes...)
	return names
}

// route runs tulle-controller as the route controller.
func (v *vpc) route(flags ...string) *kerneltest.Process {
	v.t.Helper()
	program, err := tested()
	if err != nil {
		v.t.Fatal(err)
	}
	p := kerneltest.Launch(v.t, "", append(v.aws.Env(), "GORACE=atexit_sleep_ms=0"), append([]string{
		program, "--kubeconfig=" + v.account, "--controllers=node-route-controller", "--cloud-provider=aws", "--cluster-name=prod",
		"--allocate-node-cidrs", "--cluster-cidr=10.64.0.0/14", "--healthz-port=0", "--route-reconciliation-period=10s", "--route-removal-grace=10s",
	}, flags...)...)
	v.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if v.t.Failed() {
			v.t.Logf("tulle-controller says\n%s", p.Said())
		}
	})
	return p
}

// routed returns an error unless every table routes to a Node, and the Node's condition
// shows that.
func (v *vpc) routed(name string) error {
	for _, id := range v.tables {
		if got := v.target(id, v.cidrs[name]); got != v.homes[name].Interface {
			return fmt.Errorf("%s: %s leads to %q", id, v.cidrs[name], got)
		}
	}
	text, err := v.get(nodesPath + "/" + name)
	if err != nil {
		return err
	}
	var n corev1.Node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated" {
			return nil
		}
	}
	return fmt.Errorf("the condition of %s is not set: %+v", name, n.Status.Conditions)
}

// target returns the target of a table's route.
func (v *vpc) target(table, destination string) string {
	for _, r := range v.aws.Routes(table) {
		if r.Destination == destination {
			return r.Target
		}
	}
	return ""
}

// allRouted waits until all these Nodes are routed.
func (v *vpc) allRouted(names ...string) {
	v.t.Helper()
	kerneltest.Eventually(v.t, 2*patience, func() error {
		for _, name := range names {
			if err := v.routed(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestRoutesOfFiftyNodesOnAWS routes fifty Nodes, and then injects every fault. No
// foreign route is lost, and every Node that can be routed is routed.
func TestRoutesOfFiftyNodesOnAWS(t *testing.T) {
	t.Parallel()
	v := newVPC(t, 1)
	names := v.launch(50)
	v.aws.SetRoute(v.tables[0], "10.64.250.0/24", v.aws.Launch(awstest.Launch{})[0].ID) // foreign
	foreign := v.target(v.tables[0], "10.64.250.0/24")
	v.aws.Forget()
	began := time.Now()
	v.route()
	v.allRouted(names...)
	counts := v.aws.Counts()
	t.Logf("routed in %v: %v", time.Since(began).Round(time.Millisecond), counts)
	if counts["CreateRoute"] != 50 || counts["DescribeRouteTables"] > 3 || counts["DescribeInstances"] > 2 || counts["ModifyNetworkInterfaceAttribute"] != 50 {
		t.Errorf("calls: %v", counts)
	}
	// Faults 7 to 9: throttling, errors, lost answers and partial lists delay only the
	// affected routes.
	for _, f := range []awstest.Fault{
		{Action: "CreateRoute", Times: 3, Answer: awstest.Throttled}, {Action: "CreateRoute", Times: 3, Answer: awstest.Internal},
		{Action: "CreateRoute", Times: 3, Lose: true}, {Action: "DescribeRouteTables", Times: 1, Half: true}, {Action: "DescribeInstances", Times: 1, Reset: true},
	} {
		v.aws.Inject(f)
		v.allRouted(v.launch(4)...)
	}
	// Fault 10: a route that a person changed stays. One that a person deleted is
	// restored.
	v.aws.SetRoute(v.tables[0], v.cidrs["node-7"], foreign)
	v.aws.SetRoute(v.tables[0], v.cidrs["node-8"], "")
	v.allRouted("node-8")
	v.says("node-7", "FailedToCreateRoute", v.cidrs["node-7"], "is not ours")
	// Fault 11: the table is full.
	most := len(v.aws.Routes(v.tables[0]))
	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = most })
	late := v.launch(1)
	v.says(late[0], "FailedToCreateRoute", "no room")
	v.remove("node-0")
	v.allRouted(late...)
	for dest, want := range map[string]string{"10.64.250.0/24": foreign, v.cidrs["node-7"]: foreign, v.cidrs["node-0"]: ""} {
		if got := v.target(v.tables[0], dest); got != want {
			t.Errorf("%s leads to %q, want %q", dest, got, want)
		}
	}
	// Revoked credentials remove no route.
	v.aws.ChangeKey(func(k *awstest.Key) { k.Refused = awstest.AuthFailure })
	v.remove("node-1")
	lists := v.aws.Count("DescribeRouteTables")
	kerneltest.Eventually(t, patience, func() error {
		if v.aws.Count("DescribeRouteTables") < lists+3 {
			return errors.New("the controller has not read the tables again")
		}
		return nil
	})
	if v.target(v.tables[0], v.cidrs["node-1"]) == "" {
		t.Error("a route was deleted although the tables could not be read")
	}
	v.aws.ChangeKey(func(k *awstest.Key) { k.Refused = nil })
	kerneltest.Eventually(t, 2*patience, func() error {
		if v.target(v.tables[0], v.cidrs["node-1"]) != "" {
			return errors.New("the route of node-1 still exists")
		}
		return nil
	})
}

// TestRouteKillsLeaveNothingUnexplained kills one of two replicas repeatedly while
// Nodes are created and deleted. At the end, tables, Nodes and ledger agree.
func TestRouteKillsLeaveNothingUnexplained(t *testing.T) {
	t.Parallel()
	v := newVPC(t, 2)
	standby := append([]string(nil), quick...)
	v.route(standby...)
	live := v.launch(6)
	for range 6 {
		p := v.route(standby...)
		live = append(live, v.launch(3)...)
		gone := rand.IntN(len(live))
		v.remove(live[gone])
		live = append(live[:gone:gone], live[gone+1:]...)
		v.allRouted(live[rand.IntN(len(live))])
		p.End(syscall.SIGKILL)
	}
	v.allRouted(live...)
	kerneltest.Eventually(t, 3*patience, func() error {
		text, err := v.get("/api/v1/namespaces/kube-system/configmaps/tulle-controller-routes")
		if err != nil {
			return err
		}
		for _, id := range v.tables {
			n := 0
			for _, r := range v.aws.Routes(id) {
				if r.Instance == "" {
					continue
				}
				if n++; missing(text, []string{id + " " + r.Target}) != "" {
					return fmt.Errorf("the ledger lacks %s in %s", r.Destination, id)
				}
			}
			if n != len(live) {
				return fmt.Errorf("%s has %d routes for %d Nodes", id, n, len(live))
			}
		}
		return nil
	})
}
