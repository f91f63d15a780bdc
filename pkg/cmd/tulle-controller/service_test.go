package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const webService = "api/v1/namespaces/default/services/web"

// putWeb writes a Service with a class and a port.
func (c cluster) putWeb() {
	c.Do(func() {
		c.Serves[service.Services] = "Service"
		c.ChangeObject("ADDED", webService, map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"},
			"spec": map[string]any{
				"type": "LoadBalancer", "loadBalancerClass": "tulle.net/nlb",
				"ports": []any{map[string]any{"name": "http", "protocol": "TCP", "port": int64(80), "nodePort": int64(30080)}},
			},
		})
	})
}

// newBalanced is newAWS with subnets for load balancers.
func newBalanced(t *testing.T, n int) (cluster, *awstest.Server, []awstest.Instance) {
	t.Helper()
	c, f, instances := newAWS(t, n)
	c.Do(func() { c.Serves[service.Services] = "Service" })
	in := f.Default()
	for _, id := range in.Subnets {
		f.Tag(id, map[string]string{"kubernetes.io/cluster/prod": "shared", "kubernetes.io/role/elb": "1"})
	}
	f.SetRoute(in.Main, "0.0.0.0/0", "igw-0123456789abcdef0")
	return c, f, instances
}

// serviceFlags are the flags of a program that serves Services.
func (c cluster) serviceFlags() []string {
	return append([]string{"--master=" + c.URL, "--controllers=cloud-node,service"}, onFake...)
}

// The program gives a Service a load balancer of AWS through the real SDK, and removes it.
func TestServiceGetsALoadBalancerOfAWS(t *testing.T) {
	c, f, instances := newBalanced(t, 3)
	c.putWeb()
	flags := c.serviceFlags()
	var out bytes.Buffer
	if err := settingsOf(t, append(flags, "plan")...).plan(&out); err != errPending {
		t.Fatalf("plan: %v\n%s", err, out.String())
	}
	for _, text := range []string{
		"create internet-facing network load balancer a0f1e2d3c4b5a69788796a5b4c3d2e1f", "add the finalizer", "load balancers of the cluster: 0, +1 planned, 50 in the quota, 49 then free",
		"public addresses: +3, whose price in eu-central-1 is not known here",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("plan has no %q:\n%s", text, out.String())
		}
	}
	// Without an election, nothing shows that no earlier process still creates, and the
	// deletion would wait for 30 s.
	elected := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "--leader-elect=false" })
	p, err := settingsOf(t, elected...).connect()
	if err != nil {
		t.Fatal(err)
	}
	c.run(p)
	kerneltest.Eventually(t, patience, func() error {
		host := fmt.Sprint(c.Object(webService)["status"])
		if !strings.Contains(host, "a0f1e2d3c4b5a69788796a5b4c3d2e1f") || !strings.Contains(host, ".elb.") {
			return fmt.Errorf("the status is %s", host)
		}
		for _, g := range f.TargetGroups() {
			if len(g.Targets) == len(instances) {
				return nil
			}
		}
		return fmt.Errorf("target groups %+v", f.TargetGroups())
	})
	d := c.Object(webService)
	d["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	c.Do(func() { c.ChangeObject("MODIFIED", webService, d) })
	kerneltest.Eventually(t, patience, func() error {
		if n := len(f.Balancers()) + len(f.TargetGroups()); n > 0 || c.Object(webService) != nil {
			return fmt.Errorf("%d objects are left, and the Service %v", n, c.Object(webService))
		}
		return nil
	})
}

// What AWS refuses the leader is in the explanation, with the fix and what comes next.
func TestExplainSaysWhyAServiceHasNoAddress(t *testing.T) {
	c, f, _ := newBalanced(t, 2)
	f.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{"CreateLoadBalancer": true} })
	c.putWeb()
	p, err := settingsOf(t, c.serviceFlags()...).connect()
	if err != nil {
		t.Fatal(err)
	}
	c.run(p)
	c.wantEvent("web", "SyncLoadBalancerFailed")
	var out bytes.Buffer
	if err := settingsOf(t, append(c.serviceFlags(), "explain", "default/web")...).explain(&out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"NOT  load balancer", "none yet", "NOT  next", "create internet-facing network load balancer a0f1e2d3c", "NOT  SyncLoadBalancerFailed",
		"allow elasticloadbalancing:CreateLoadBalancer in the IAM policy", "default/web: ",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, out.String())
		}
	}
	flags := append([]string{"--master=" + c.URL}, onFake...)
	if err := settingsOf(t, append(flags, "explain", "default/web")...).explain(&out); err == nil || !strings.Contains(err.Error(), "--controllers=*,service") {
		t.Errorf("without the controller: %v", err)
	}
}

// The service controller refuses a cloud config whose tag or security groups it cannot
// carry out. Without it, the same file works.
func TestCloudConfigsThatServicesCannotUse(t *testing.T) {
	for text, parts := range map[string][]string{
		"KubernetesClusterTag = prod":                          {"KubernetesClusterTag", "use KubernetesClusterID = prod", "kubernetes.io/cluster/prod"},
		"KubernetesClusterID = prod\nNLBSecurityGroupMode = x": {"NLBSecurityGroupMode", `"x"`, "use Managed"},
		"KubernetesClusterID = prod\nDisableSecurityGroupIngress\nElbSecurityGroup = sg-0123456789abcdef0\nNLBSecurityGroupMode = Managed": nil,
	} {
		path := filepath.Join(t.TempDir(), "cloud.conf")
		if err := os.WriteFile(path, []byte("[Global]\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		check := func(controllers string) error {
			var s settings
			given, err := s.program().Read([]string{"--cloud-provider=aws", "--cloud-config=" + path, "--controllers=" + controllers}, nil)
			if err == nil {
				err = given.Apply()
			}
			if err == nil {
				err = s.check(given)
			}
			return err
		}
		if err := check("cloud-node"); err != nil {
			t.Errorf("%q without services: %v", text, err)
		}
		err := check("cloud-node,service")
		if (err == nil) != (parts == nil) {
			t.Errorf("%q: %v", text, err)
		}
		for _, part := range parts {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// The page of load balancers has every annotation with an effect, and no other.
func TestPageOfServicesHasEveryAnnotation(t *testing.T) {
	text, err := os.ReadFile("../../../Documentation/cloud-services.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Annotations\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var got []string
	for line := range strings.Lines(table) {
		if name, is := strings.CutPrefix(line, "| `"); is {
			name, _, _ = strings.Cut(name, "`")
			got = append(got, name)
		}
	}
	for _, name := range cloudbalancer.Annotations() {
		if !strings.Contains(table, "| `"+name+"` |") {
			t.Errorf("the page lacks %s", name)
		}
	}
	if len(got) != len(cloudbalancer.Annotations()) {
		t.Errorf("the page has %d annotations, and there are %d", len(got), len(cloudbalancer.Annotations()))
	}
}

// The page has the prices of every region that is known, and the answer has no price of
// another one.
func TestPageHasEveryPrice(t *testing.T) {
	text, err := os.ReadFile("../../../Documentation/cloud-services.md")
	if err != nil {
		t.Fatal(err)
	}
	p, known := cloudbalancer.PriceIn("us-east-1")
	if row := fmt.Sprintf("| `us-east-1` | %v | %v |", p.Balancer, p.Address); !known || !strings.Contains(string(text), row) || !strings.Contains(string(text), "of "+cloudbalancer.PricesOf) {
		t.Errorf("the page lacks %q of %s", row, cloudbalancer.PricesOf)
	}
	planned := service.Planned{Balancers: 2, Addresses: -3}
	if got := fmt.Sprint(newPriceAnswers(planned, "us-east-1")); !strings.Contains(got, "+2, +0.0450 dollars") || !strings.Contains(got, "-3, -0.0150 dollars") {
		t.Error(got)
	}
	for _, a := range newPriceAnswers(planned, "xx-none-1") {
		if a.Dollars != nil {
			t.Errorf("%s", a)
		}
	}
}
