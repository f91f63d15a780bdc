//go:build kube && ccm

package controllertest

import (
	"encoding/json"
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
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/sourcetest"
)

// ccmLab is a cluster on AWS whose controllers are the AWS cloud controller manager or
// tulle-controller.
type ccmLab struct {
	*lab
	*cloudAccount
	view  *cloudView
	other string // the path of the other program
	cidrs []string
}

func newCCMLab(t *testing.T, nodes int) *ccmLab {
	t.Helper()
	other, err := sourcetest.CCM.Find()
	if err != nil {
		t.Fatal(err)
	}
	if other == "" {
		t.Fatal("this test needs the AWS cloud controller manager: make test-ccm " + sourcetest.CCM.Hint())
	}
	// The other program's SDK loses the answers of a server that is much faster than AWS.
	l := &ccmLab{lab: newLab(t), cloudAccount: fakeAccount(t, nodes, 10*time.Millisecond), other: other}
	if l.program, err = tested(); err != nil {
		t.Fatal(err)
	}
	l.Allow(account, allRules()...)
	l.view = l.watchCloud(new(cloudView))
	l.cidrs = l.registerHomes(0, l.homes...)
	return l
}

// join adds a Node with a new instance.
func (l *ccmLab) join() (name string) {
	l.t.Helper()
	i := l.fake.Launch(awstest.Launch{Subnet: l.subnet, Tags: prod})[0]
	l.homes = append(l.homes, home{i.ID, i.Zone, i.Name})
	l.cidrs = append(l.cidrs, l.registerHomes(len(l.cidrs), l.homes[len(l.homes)-1])...)
	return i.Name
}

// settled waits until a program has initialised, routed and addressed all Nodes.
func (l *ccmLab) settled(p *kerneltest.Process) {
	l.t.Helper()
	l.complete(l.view, len(l.homes), p, 2*patience)
	kerneltest.Eventually(l.t, patience, func() error { // the other program writes addresses later
		for name, node := range l.nodes() {
			if !strings.Contains(node, string(corev1.NodeInternalIP)) {
				return fmt.Errorf("%s has no address but its name", name)
			}
		}
		return nil
	})
	l.agree(l.cloudAccount, l.cidrs)
}

// nodes returns all Nodes by name, without the fields that every write changes.
func (l *ccmLab) nodes() map[string]string {
	l.t.Helper()
	text, err := l.get(nodesPath)
	if err != nil {
		l.t.Fatal(err)
	}
	var list corev1.NodeList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		l.t.Fatal(err)
	}
	all := make(map[string]string)
	for _, n := range list.Items {
		n.ManagedFields, n.ResourceVersion = nil, ""
		text, err := json.Marshal(n)
		if err != nil {
			l.t.Fatal(err)
		}
		all[n.Name] = string(text)
	}
	return all
}

// kept fails the test if a Node of before has changed.
func (l *ccmLab) kept(before map[string]string) {
	l.t.Helper()
	now := l.nodes()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] != before[name] {
			at := 0
			for at < min(len(now[name]), len(before[name])) && now[name][at] == before[name][at] {
				at++
			}
			l.t.Errorf("%s was changed: %.300q became %.300q", name, before[name][max(0, at-80):], now[name][max(0, min(at-80, len(now[name]))):])
		}
	}
}

// wrote fails the test unless the account got exactly these changes since before.
func (l *ccmLab) wrote(before map[string]int, want map[string]int) {
	l.t.Helper()
	got := since(before, l.counts())
	maps.DeleteFunc(got, func(action string, _ int) bool {
		return strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get")
	})
	if !maps.Equal(got, want) {
		l.t.Errorf("the account was changed by %v, want %v", got, want)
	}
}

// TestCCMSwitchAndBack switches a live cluster from the AWS cloud controller manager to
// tulle-controller, and back. Nodes and the route table do not change. The first pass
// of tulle-controller writes only its ledger. Each program initialises and routes new
// Nodes.
func TestCCMSwitchAndBack(t *testing.T) {
	t.Parallel()
	l := newCCMLab(t, 20)
	routes := func() map[string]string {
		all, err := l.routes()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	other := l.ccm(l.other, l.cloudAccount)
	l.settled(other)
	other.End(syscall.SIGTERM)
	nodes, table, calls := l.nodes(), routes(), l.counts()

	a := l.audit()
	config := "--cloud-config=" + l.cloudConfig(l.cloudAccount)
	plan := exec.Command(l.program, append([]string{"plan", "--kubeconfig=" + a.kubeconfig, config}, clusterFlags...)...)
	plan.Env = append(plan.Environ(), l.env...)
	text, _ := plan.CombinedOutput()
	if missing(string(text), []string{"note the routes of 20 destinations as ours"}) != "" || strings.Contains(string(text), "add route") || strings.Contains(string(text), "Node/") {
		t.Errorf("plan:\n%s", text)
	}
	p := l.ours(l.program, a.kubeconfig, l.cloudAccount, "--leader-elect=false", config)
	kerneltest.Eventually(t, patience, func() error {
		text, err := l.get("/api/v1/namespaces/kube-system/configmaps/tulle-controller-routes")
		if err == nil {
			err = errorOf(missing(text, l.cidrKeys()))
		}
		return err
	})
	name := l.join()
	l.settled(p)
	l.kept(nodes)
	l.wrote(calls, map[string]int{"CreateRoute": 1, "ModifyNetworkInterfaceAttribute": 1})
	for _, r := range append(a.requests("PATCH "), append(a.requests("POST "), a.requests("DELETE ")...)...) {
		if missing(r, []string{"/nodes/" + name}) != "" && missing(r, []string{"configmaps"}) != "" {
			t.Errorf("tulle-controller wrote: %s", r)
		}
	}
	stop(t, p)
	table[l.cidrs[20]] = l.homes[20].id
	if now := routes(); !maps.Equal(now, table) {
		t.Errorf("the table has %v, and not %v", now, table)
	}

	nodes, calls = l.nodes(), l.counts()
	other = l.ccm(l.other, l.cloudAccount)
	l.join()
	l.settled(other)
	l.kept(nodes)
	l.wrote(calls, map[string]int{"CreateRoute": 1, "ModifyInstanceAttribute": 1})
	table[l.cidrs[21]] = l.homes[21].id
	if now := routes(); !maps.Equal(now, table) {
		t.Errorf("back again, the table has %v, and not %v", now, table)
	}
}

// TestCCMStopsAtRoutesWithoutANode shows three faults of the AWS cloud controller manager that
// tulle-controller does not have. A route to an instance without a Node ends each of its passes. It
// deletes blackholes of other programs. It deletes a Node after a single answer. The test takes
// more than a minute, because each program makes several passes, which are 10 s apart.
func TestCCMStopsAtRoutesWithoutANode(t *testing.T) {
	t.Parallel()
	l := newCCMLab(t, 3)
	const foreign = "10.64.250.0/24"
	home := l.fake.Launch(awstest.Launch{})[0]
	l.fake.SetRoute(l.table, foreign, home.ID)
	leads := func() (to string, is bool) {
		for _, r := range l.fake.Routes(l.table) {
			if r.Destination == foreign {
				return r.State, true
			}
		}
		return "", false
	}
	other := l.ccm(l.other, l.cloudAccount)
	l.waitsFor(other, "error listing routes")
	calls := l.fake.Count("DescribeRouteTables")
	kerneltest.Eventually(t, patience, func() error {
		if l.fake.Count("DescribeRouteTables") < calls+2 {
			return fmt.Errorf("the other program has not retried")
		}
		return nil
	})
	if n := l.fake.Count("CreateRoute"); n > 0 {
		t.Errorf("the other program created %d routes although one leads to an instance without a Node", n)
	}
	other.End(syscall.SIGTERM)

	config := "--cloud-config=" + l.cloudConfig(l.cloudAccount)
	p := l.ours(l.program, l.ServiceAccount("kube-system", "cloud", allRules()...), l.cloudAccount, "--leader-elect=false", config, "--route-reconciliation-period=10s", "--route-removal-grace=10s")
	l.settled(p)
	l.fake.Terminate(home.ID)
	calls = l.fake.Count("DescribeRouteTables")
	kerneltest.Eventually(t, patience, func() error {
		if l.fake.Count("DescribeRouteTables") < calls+3 {
			return fmt.Errorf("tulle-controller has not compared the tables again")
		}
		return nil
	})
	if state, is := leads(); state != "blackhole" {
		t.Errorf("with tulle-controller, the foreign route is %q; it exists: %v", state, is)
	}
	stop(t, p)

	l.ccm(l.other, l.cloudAccount)
	kerneltest.Eventually(t, patience, func() error {
		if _, is := leads(); is {
			return fmt.Errorf("the other program has not deleted the foreign blackhole")
		}
		return nil
	})
	l.fake.Terminate(l.homes[2].id)
	began := time.Now()
	change := map[string]any{"status": map[string]any{"conditions": []map[string]any{{"type": "Ready", "status": corev1.ConditionUnknown}}}}
	l.Do(http.MethodPatch, nodesPath+"/"+l.homes[2].name+"/status", change, nil)
	kerneltest.Eventually(t, patience, func() error {
		if _, err := l.get(nodesPath + "/" + l.homes[2].name); err == nil {
			return fmt.Errorf("the other program has not deleted the Node")
		}
		return nil
	})
	t.Logf("the other program deleted the Node of a terminated instance %v after the Node became not ready", time.Since(began).Round(time.Millisecond))
}

// cidrKeys returns the keys of the podCIDRs in the ledger.
func (l *ccmLab) cidrKeys() (keys []string) {
	for _, cidr := range l.cidrs {
		keys = append(keys, strings.ReplaceAll(cidr, "/", "_"))
	}
	return keys
}

// errorOf returns an error that names the missing objects, or nil.
func errorOf(part string) error {
	if part == "" {
		return nil
	}
	return fmt.Errorf("%q is missing", part)
}
