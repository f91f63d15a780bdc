package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// onFake are the flags for the fake account.
var onFake = []string{"--cloud-provider=aws", "--cluster-name=prod", "--healthz-port=0", "--leader-elect=false"}

// newAWS returns an API server with n Nodes that wait for their instances in the account.
func newAWS(t *testing.T, n int) (cluster, *awstest.Server, []awstest.Instance) {
	t.Helper()
	return newAWSOf(t, n, "")
}

// newAWSOf is newAWS with instances of a type.
func newAWSOf(t *testing.T, n int, kind string) (cluster, *awstest.Server, []awstest.Instance) {
	t.Helper()
	c, f := newCluster(t), awstest.New(t)
	f.Setenv(t)
	instances := f.Launch(awstest.Launch{Count: n, Type: kind, Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}})
	c.Do(func() {
		for i, at := range instances {
			node := large(i)
			node.Name, node.Spec.ProviderID = at.Name, ""
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"})
			c.Change("ADDED", node)
		}
	})
	return c, f, instances
}

// waits reports whether a Node has the taint of those without an instance.
func waits(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "node.cloudprovider.kubernetes.io/uninitialized" })
}

// awaitInitialised waits until every Node has its instance, and no taint.
func (c cluster) awaitInitialised(instances []awstest.Instance) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		for _, at := range instances {
			node := c.Node(at.Name)
			if want := "aws:///" + at.Zone + "/" + at.ID; node.Spec.ProviderID != want || waits(node) || node.Labels["topology.kubernetes.io/zone"] != at.Zone {
				return fmt.Errorf("%s has the provider ID %q, the taints %v and the labels %v; want %q", at.Name, node.Spec.ProviderID, node.Spec.Taints, node.Labels, want)
			}
		}
		return nil
	})
}

// The controllers of a cloud run without node IPAM.
func TestNodesOfAWSAreInitialised(t *testing.T) {
	c, f, instances := newAWS(t, 5)
	p, err := settingsOf(t, append([]string{"--master=" + c.URL}, onFake...)...).connect()
	if err != nil {
		t.Fatal(err)
	}
	r := c.run(p)
	c.awaitInitialised(instances)
	r.await("leading; every Node matches its instance")
	// One lookup finds all by their names. A Node whose provider ID the watch shows before
	// the taint has gone may be looked up once more.
	byName := 0
	for _, call := range f.Calls() {
		if call.Value("Filter.2.Name") == "private-dns-name" {
			byName++
		}
	}
	calls := f.Count("DescribeInstances")
	if byName != 1 || calls > 1+len(instances) {
		t.Errorf("%d lookups, %d of them by name", calls, byName)
	}
	var text string
	kerneltest.Eventually(t, patience, func() error { // a call may be under way
		answer := httptest.NewRecorder()
		metricsHandler(r.read).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		text = answer.Body.String()
		for _, line := range []string{fmt.Sprintf(`tulle_controller_cloud_calls_total{action="DescribeInstances",outcome="ok"} %d`, f.Count("DescribeInstances")), "\ntulle_controller_nodes 5\n"} {
			if !strings.Contains(text, line) {
				return fmt.Errorf("no %q in\n%s", line, text)
			}
		}
		return nil
	})
	for _, part := range []string{"nodes_waiting", "nodes_to_fence", `findings{code="exhausted"`} {
		if strings.Contains(text, part) {
			t.Errorf("there is %s without node IPAM", part)
		}
	}
	shown := httptest.NewRecorder()
	p.servePage(shown, httptest.NewRequest("GET", "/statusz", nil))
	if text := shown.Body.String(); strings.Contains(text, "<h2>Pools</h2>") || !strings.Contains(text, "without an instance") {
		t.Error(text)
	}
}

// Node IPAM and the controllers of a cloud run beside each other; the command ipam asks
// the cloud nothing.
func TestNodeIPAMRunsBesideACloud(t *testing.T) {
	c, f, instances := newAWS(t, 3)
	var out bytes.Buffer
	if err := settingsOf(t, append([]string{"ipam", "--master=" + c.URL, "--allocate-node-cidrs", "--cluster-cidr=10.64.0.0/14"}, onFake[:2]...)...).ipam(&out); err != nil || len(f.Calls()) > 0 {
		t.Errorf("%v, %d calls", err, len(f.Calls()))
	}
	r := c.start(append(onFake, "--configure-cloud-routes=false")...)
	c.awaitInitialised(instances)
	c.awaitAll()
	r.await("every Node has its podCIDRs, every Node matches its instance")
}

// What AWS refuses is told, and works once it is allowed.
func TestAWSRefusesEverything(t *testing.T) {
	c, f, instances := newAWS(t, 2)
	f.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{"DescribeInstances": true} })
	p, err := settingsOf(t, append([]string{"--master=" + c.URL}, onFake...)...).connect()
	if err != nil {
		t.Fatal(err)
	}
	r := c.run(p)
	kerneltest.Eventually(t, patience, func() error {
		for _, f := range r.read(context.Background()).state.Feeds {
			if strings.Contains(f.Problem, "allow ec2:DescribeInstances in the IAM policy") {
				return nil
			}
		}
		return errors.New("no check names the permission")
	})
	f.ChangeKey(func(k *awstest.Key) { k.Denied = nil })
	c.awaitInitialised(instances)
}

func TestWithoutARegion(t *testing.T) {
	c, _, _ := newAWS(t, 0)
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
	_, err := settingsOf(t, append([]string{"--master=" + c.URL}, onFake...)...).connect()
	if err == nil || !strings.Contains(err.Error(), "--cloud-provider=aws: ") || !strings.Contains(err.Error(), "set AWS_REGION") {
		t.Errorf("%v", err)
	}
}

func TestCloudFlagsThatDoNotGoTogether(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named, bad := file("named", "[Global]\nKubernetesClusterID = prod\nSubnetID = subnet-1\n"), file("bad", "[Global]\nVPC = x\n")
	ipam := "--allocate-node-cidrs --cluster-cidr=10.4.0.0/16 "
	for args, part := range map[string]string{
		"":                     "no other controller has work",
		"--cloud-provider=aws": "needs the cluster's name; add --cluster-name",
		"--cloud-provider=aws --cluster-name=prod":                                                                  "",
		"--cloud-provider=aws --cloud-config=" + named:                                                              "",
		"--cloud-provider=aws --cloud-config=" + bad:                                                                "line 2: VPC",
		"--cloud-provider=aws --cloud-config=" + dir + "/missing":                                                   "no such file",
		"--cloud-provider=aws --cluster-name=a*":                                                                    "not the name of a cluster",
		"--cloud-provider=gce":                                                                                      "needs the cluster's name",
		"--cloud-provider=awz":                                                                                      "did you mean",
		ipam + "--cluster-name=prod":                                                                                "has no effect without --cloud-provider",
		ipam + "--aws-api-share=100":                                                                                "has no effect without --cloud-provider",
		"--allocate-node-cidrs --controllers=cloud-node":                                                            "--cloud-provider: missing",
		ipam + "--controllers=*,-nodeipam":                                                                          "has no effect without node-ipam-controller",
		"--cloud-provider=aws --cluster-name=prod --aws-api-share=0":                                                "",
		"--cloud-provider=aws --cluster-name=prod --controllers=nodeipam":                                           "--allocate-node-cidrs: off",
		"--cloud-provider=aws --cluster-name=prod --node-cidr-mask-size=24":                                         "has no effect without --allocate-node-cidrs",
		"--cloud-provider=aws --cluster-name=prod --controllers=-cloud-node":                                        "turns every controller off",
		"--cloud-provider=aws --cluster-name=prod --allocate-node-cidrs":                                            "needs --cluster-cidr or --node-pools",
		"--cloud-provider=aws --cluster-name=prod --cidr-allocator-type=CloudAllocator --allocate-node-cidrs":       "is Google's",
		"--cloud-provider=aws --cluster-name=prod --controllers=*,-nodeipam " + ipam + "--node-cidr-mask-size=24":   "has no effect without node-ipam-controller",
		"--cloud-provider=aws --cluster-name=prod --controllers=cloud-node-controller,node-ipam-controller " + ipam: "",
		"--cloud-provider=aws --cluster-name=prod --controllers=cloud-nod " + ipam:                                  "use * and node-ipam-controller, cloud-node-controller",
		"--cloud-provider=aws --cluster-name=prod --gce-project=my-project-1 " + ipam:                               "no effect",
	} {
		var s settings
		given, err := s.program().Read(strings.Fields(args), nil)
		if err == nil {
			err = given.Apply()
		}
		if err == nil {
			err = s.check(given)
		}
		if strings.Contains(args, "api-share=0") {
			part = "aws-api-share"
		}
		if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%s: %v", args, err)
		}
	}
	s := settingsOf(t, "--cloud-provider=aws", "--cluster-name=other", "--cloud-config="+named)
	if all := strings.Join(s.cloud.warnings, "\n"); !strings.Contains(all, "SubnetID is about load balancers") || !strings.Contains(all, "names the cluster prod") {
		t.Errorf("%q", all)
	}
}
