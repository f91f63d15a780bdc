//go:build kube && ccm

package controllertest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const servicePath = "/api/v1/namespaces/default/services"

// serviceFlag also turns on the service controller.
const serviceFlag = nodeControllers + ",node-route-controller,service-lb-controller"

// balancer is what clients and Nodes see of a load balancer.
type balancer struct{ arn, host, listeners, groups, targets string }

// balancing returns the only load balancer of the account.
func (l *ccmLab) balancing() (b balancer, err error) {
	all := l.fake.Balancers()
	if len(all) != 1 {
		return b, fmt.Errorf("%d load balancers", len(all))
	}
	b = balancer{arn: all[0].ARN, host: all[0].Host, listeners: fmt.Sprint(all[0].Listeners), groups: fmt.Sprint(all[0].Groups)}
	for _, g := range l.fake.TargetGroups() {
		var ids []string
		for _, t := range g.Targets {
			ids = append(ids, fmt.Sprint(t.ID, ":", t.Port))
		}
		slices.Sort(ids)
		b.targets += fmt.Sprintln(g.ARN, ids)
	}
	return b, nil
}

// serves waits until a Service has its address, and all Nodes are targets of each port.
func (l *ccmLab) serves(name string, ports int) (b balancer) {
	l.t.Helper()
	kerneltest.Eventually(l.t, 2*patience, func() (err error) {
		text, err := l.get(servicePath + "/" + name)
		if err != nil {
			return err
		}
		groups := l.fake.TargetGroups()
		if len(groups) != ports {
			return fmt.Errorf("%d target groups", len(groups))
		}
		for _, g := range groups {
			if len(g.Targets) != len(l.homes) {
				return fmt.Errorf("%d targets, %d Nodes", len(g.Targets), len(l.homes))
			}
		}
		if b, err = l.balancing(); err == nil && !strings.Contains(text, b.host) {
			err = errors.New("the status lacks " + b.host)
		}
		return err
	})
	return b
}

// lost fails the test if a call since before has removed a part of a load balancer. One action
// may be allowed.
func (l *ccmLab) lost(allowed string, before map[string]int) {
	l.t.Helper()
	for action, n := range since(before, l.counts()) {
		if action == allowed {
			continue
		}
		for _, verb := range []string{"Delete", "Deregister", "Revoke"} {
			if strings.HasPrefix(action, verb) && n > 0 {
				l.t.Errorf("%d calls of %s", n, action)
			}
		}
	}
}

// TestCCMServicesSwitchAndBack switches a Service's load balancer from the AWS cloud
// controller manager to tulle-controller, and back. The balancer keeps its name,
// listeners, target groups, targets and security groups. Each program adds the new
// Nodes and removes nothing. The program that serves the Service last deletes all of
// it. The test takes half a minute, mostly to start a control plane and the other
// program.
func TestCCMServicesSwitchAndBack(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]switched{
		"plain": {},
		"settings": {annotations: map[string]string{
			"service.beta.kubernetes.io/aws-load-balancer-cross-zone-load-balancing-enabled": "true",
			"service.beta.kubernetes.io/aws-load-balancer-internal":                          "true",
		}},
		"a security group":           {managed: true},
		"a security group of people": {managed: true, named: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.test(t)
		})
	}
}

// switched is a Service that is taken from one program to the other, and back.
type switched struct {
	annotations map[string]string
	managed     bool // each load balancer has a security group
	named       bool // the Service names it
}

// addGroup adds a security group of other people, and returns its ID.
func (l *ccmLab) addGroup(network, name string) string {
	l.t.Helper()
	text, err := l.fake.Do("CreateSecurityGroup", "GroupName", name, "GroupDescription", name, "VpcId", network)
	id := regexp.MustCompile(`sg-[0-9a-f]+`).FindString(text)
	if err != nil || id == "" {
		l.t.Fatalf("%v %s", err, text)
	}
	return id
}

// The calls by which Nodes are opened and closed for traffic.
const authorize, revoke = "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"

// opened fails the test unless the Nodes' security group got its new rules before it lost old
// ones, in the calls from one of a number on. The other program opens Nodes for addresses, and
// tulle-controller for the security group of the load balancer.
func (l *ccmLab) opened(begun int) {
	l.t.Helper()
	isOpen := make(map[string]bool)
	for _, c := range l.fake.Calls()[begun:] {
		switch id := c.Value("GroupId"); {
		case c.Action == authorize:
			isOpen[id] = true
		case c.Action == revoke && !isOpen[id]:
			l.t.Errorf("%s is closed before it is opened again", id)
		}
	}
	if len(isOpen) == 0 {
		l.t.Error("no Node is open for the security group of the load balancer")
	}
}

// revokes returns the one removal that a switch may make: a security group takes the place of
// addresses in the rules of Nodes, or the other way round.
func (s switched) revokes() string {
	if s.managed {
		return revoke
	}
	return ""
}

func (s switched) test(t *testing.T) {
	l := newCCMLab(t, 3)
	n := l.fake.Default()
	for _, id := range n.Subnets {
		l.fake.Tag(id, map[string]string{"kubernetes.io/cluster/prod": "shared", "kubernetes.io/role/elb": "1", "kubernetes.io/role/internal-elb": "1"})
	}
	l.fake.SetRoute(n.Main, "0.0.0.0/0", "igw-0123456789abcdef0")
	notes := map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
	maps.Copy(notes, s.annotations)
	if s.managed {
		l.settings = "NLBSecurityGroupMode = Managed\n"
	}
	if s.named {
		notes["service.beta.kubernetes.io/aws-load-balancer-security-groups"] = l.addGroup(n.VPC, "of-people")
	}
	port := func(name string, port int) map[string]any {
		return map[string]any{"name": name, "protocol": "TCP", "port": port}
	}
	l.Do(http.MethodPost, servicePath, map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "web", "annotations": notes},
		"spec":     map[string]any{"type": "LoadBalancer", "ports": []any{port("http", 80), port("https", 443)}, "loadBalancerSourceRanges": []string{"192.0.2.0/24"}},
	}, nil)
	other := l.ccm(l.other, l.cloudAccount, serviceFlag)
	was := l.serves("web", 2)
	if has := was.groups != "[]"; has != s.managed {
		t.Errorf("the load balancer of the other program has the security groups %s", was.groups)
	}
	other.End(syscall.SIGTERM)

	config := "--cloud-config=" + l.cloudConfig(l.cloudAccount)
	mine := []string{config, serviceFlag, "--default-load-balancer-class"}
	plan := exec.Command(l.program, slices.Concat([]string{"plan", "--kubeconfig=" + l.Admin()}, clusterFlags, mine)...)
	plan.Env = append(plan.Environ(), l.env...)
	text, _ := plan.CombinedOutput()
	t.Logf("plan:\n%s", text)
	if got, err := l.balancing(); err != nil || got != was {
		t.Errorf("after plan, the load balancer is %+v, %v; it was %+v", got, err, was)
	}
	before, begun := l.counts(), len(l.fake.Calls())
	p := l.ours(l.program, l.Admin(), l.cloudAccount, append(mine, "--leader-elect=false")...)
	kerneltest.Eventually(t, patience, func() error {
		for _, b := range l.fake.Balancers() {
			if b.Tags["tulle.net/service-uid"] != "" {
				return nil
			}
		}
		return errors.New("the load balancer is not adopted")
	})
	l.join()
	now := l.serves("web", 2)
	l.same(was, now)
	if l.lost(s.revokes(), before); s.managed {
		l.opened(begun)
	}
	stop(t, p)

	before = l.counts()
	l.ccm(l.other, l.cloudAccount, serviceFlag)
	l.join()
	l.same(was, l.serves("web", 2))
	l.lost(s.revokes(), before)
	l.Do(http.MethodDelete, servicePath+"/web", nil, nil)
	kerneltest.Eventually(t, 2*patience, func() error {
		if _, err := l.get(servicePath + "/web"); err == nil {
			return errors.New("the Service is still there")
		}
		if n := len(l.fake.Balancers()) + len(l.fake.TargetGroups()); n > 0 {
			return fmt.Errorf("%d balancers and target groups remain", n)
		}
		return nil
	})
}

// same fails the test unless a load balancer is unchanged, and still has all its
// targets.
func (l *ccmLab) same(was, now balancer) {
	l.t.Helper()
	if now.arn != was.arn || now.host != was.host || now.listeners != was.listeners || now.groups != was.groups {
		l.t.Errorf("the load balancer was\n%+v\nand is\n%+v", was, now)
	}
}
