package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// balanced is a cluster on a fake account, whose Services get their load balancers from
// processes of the program. The account also has objects of others.
type balanced struct {
	cluster
	aws       *awstest.Server
	instances []awstest.Instance
	before    string // the account without Services
}

func newBalancedProcesses(t *testing.T, n int) *balanced {
	t.Helper()
	c, f := newCluster(t), awstest.New(t)
	b := &balanced{cluster: c, aws: f}
	b.instances = f.Launch(awstest.Launch{Count: n, Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}})
	c.Do(func() {
		c.Serves[service.Services] = "Service"
		for i, at := range b.instances {
			node := large(i)
			node.Name, node.Spec.ProviderID = at.Name, "aws:///"+at.Zone+"/"+at.ID
			c.Change("ADDED", node)
		}
	})
	in := f.Default()
	for _, id := range in.Subnets {
		f.Tag(id, map[string]string{"kubernetes.io/cluster/prod": "shared", "kubernetes.io/role/elb": "1"})
	}
	f.SetRoute(in.Main, "0.0.0.0/0", "igw-0123456789abcdef0")
	b.must("CreateLoadBalancer", "Name", "of-others", "Type", "network", "Subnets.member.1", in.Subnets[0], "Tags.member.1.Key", "kubernetes.io/cluster/other", "Tags.member.1.Value", "owned")
	b.must("CreateTargetGroup", "Name", "of-others", "Protocol", "TCP", "Port", "80", "VpcId", in.VPC, "TargetType", "instance", "Tags.member.1.Key", "kubernetes.io/cluster/prod", "Tags.member.1.Value", "shared")
	b.must("CreateSecurityGroup", "GroupName", "k8s-elb-of-others", "GroupDescription", "another", "VpcId", in.VPC)
	b.before = b.holds()
	return b
}

func (b *balanced) must(action string, parameters ...string) {
	b.t.Helper()
	if _, err := b.aws.Do(action, parameters...); err != nil {
		b.t.Fatal(err)
	}
}

// holds returns all objects of the account that load balancing changes, for a comparison.
func (b *balanced) holds() string {
	b.t.Helper()
	groups, err := b.aws.Do("DescribeSecurityGroups")
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("%+v\n%+v\n%s", b.aws.Balancers(), b.aws.TargetGroups(), groups)
}

// launchServices runs the program with the service controller alone. Its times are a tenth,
// so that a removal after a kill waits for 3 s.
func (b *balanced) launchServices() *kerneltest.Process {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	env := append([]string{asProgram + "=1", hurried + "=10", "GORACE=atexit_sleep_ms=0"}, b.aws.Env()...)
	args := append([]string{self, "--master=" + b.URL, "--controllers=service"}, onFake...)
	p := kerneltest.Launch(b.t, "", env, args...)
	b.t.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

// complete returns nil if the Service web has all that it wants, once.
func (b *balanced) complete() error {
	if host := fmt.Sprint(b.Object(webService)["status"]); !strings.Contains(host, ".elb.") {
		return fmt.Errorf("the status is %s", host)
	}
	balancers, groups := b.aws.Balancers(), b.aws.TargetGroups()
	balancers = slices.DeleteFunc(balancers, func(b awstest.Balancer) bool { return b.Name == "of-others" })
	groups = slices.DeleteFunc(groups, func(g awstest.TargetGroup) bool { return g.Name == "of-others" })
	if len(balancers) != 1 || len(balancers[0].Listeners) != 1 || len(groups) != 1 || len(groups[0].Targets) != len(b.instances) {
		return fmt.Errorf("balancers %+v, target groups %+v", balancers, groups)
	}
	return nil
}

// gone returns nil if nothing of the Service web is left, and the account is as it was.
func (b *balanced) gone() error {
	if o := b.Object(webService); o != nil {
		return fmt.Errorf("the Service is still there: %v", o["metadata"])
	}
	if now := b.holds(); now != b.before {
		return fmt.Errorf("the account has\n%s\nand had\n%s", now, b.before)
	}
	return nil
}

// deleteWeb deletes the Service web, as people do.
func (b *balanced) deleteWeb() {
	d := b.Object(webService)
	d["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	b.Do(func() { b.ChangeObject("MODIFIED", webService, d) })
}

// A plan has the rules of the Nodes' security group, also of one that is not read with the
// account because it lacks the cluster's tag.
func TestPlanHasTheRulesOfNodes(t *testing.T) {
	b := newBalancedProcesses(t, 2)
	b.aws.Setenv(t)
	b.putWeb()
	var out bytes.Buffer
	args := append([]string{"--master=" + b.URL, "--controllers=service", "plan"}, onFake...)
	if err := settingsOf(t, args...).plan(&out); err != errPending || !strings.Contains(out.String(), "allow tcp 30080 from new k8s-elb-a0f1e2d3c4b5a69788796a5b4c3d2e1f into sg-") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// isChange reports whether a call changes load balancing.
func isChange(c awstest.Call) bool {
	return !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get")
}

// killedUntil launches one process after another, and kills each at its first change: of
// every third one, that is not made, and of the others it has no answer. Of no process, more than one change is made. It
// ends when a process has nothing to change and ready returns nil, and returns the actions at
// which processes were killed.
func (b *balanced) killedUntil(ready func() error) (at map[string]int) {
	b.t.Helper()
	at = make(map[string]int)
	const most = 60
	for i := range most {
		hung := make(chan string, 1)
		first := b.aws.Inject(awstest.Fault{Times: 1, Hang: true, Done: i%3 > 0, When: func(c awstest.Call) bool {
			if isChange(c) {
				hung <- c.Action
			}
			return isChange(c)
		}})
		others := b.aws.Inject(awstest.Fault{Hang: true, When: isChange})
		p := b.launchServices()
		action := ""
		kerneltest.Eventually(b.t, patience, func() error {
			select {
			case action = <-hung:
				return nil
			default:
			}
			return ready()
		})
		p.End(syscall.SIGKILL)
		first()
		others()
		if action == "" {
			return at
		}
		at[action]++
	}
	b.t.Fatalf("after %d processes, killed at %v: %v", most, at, ready())
	return nil
}

// TestServiceSurvivesAKillAtEveryCall kills a process at each call that creates and removes a
// load balancer, over HTTP: before it is made, and after it is made without an answer. Nothing is
// there twice, nothing is left, and nothing of others is changed. It takes some seconds, and 20 processes.
func TestServiceSurvivesAKillAtEveryCall(t *testing.T) {
	t.Parallel()
	b := newBalancedProcesses(t, 2)
	b.putWeb()
	at := b.killedUntil(b.complete)
	want := []string{"AuthorizeSecurityGroupIngress", "CreateListener", "CreateLoadBalancer", "CreateSecurityGroup", "CreateTargetGroup", "RegisterTargets"}
	if got := slices.Sorted(maps.Keys(at)); !slices.Equal(got, want) {
		t.Errorf("killed at %v", at)
	}
	if err := b.complete(); err != nil {
		t.Error(err)
	}
	b.deleteWeb()
	at = b.killedUntil(b.gone)
	want = []string{"DeleteLoadBalancer", "DeleteSecurityGroup", "DeleteTargetGroup", "RevokeSecurityGroupIngress"}
	if got := slices.Sorted(maps.Keys(at)); !slices.Equal(got, want) {
		t.Errorf("killed at %v", at)
	}
}

// TestServiceOutlastsEveryFault makes each call of a load balancer's life fail once, in each
// way in which a service over HTTP fails. It takes some seconds, because each failure backs off
// for 1 s.
func TestServiceOutlastsEveryFault(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"throttled":   {Answer: &awstest.Error{Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"}},
		"500":         {Answer: &awstest.Error{Status: 500, Code: "InternalFailure", Message: "sorry"}},
		"no answer":   {Lose: true},
		"half answer": {Half: true},
		"reset":       {Reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBalancedProcesses(t, 2)
			var ends []func() int
			actions := []string{
				"CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "CreateTargetGroup", "CreateLoadBalancer", "CreateListener", "RegisterTargets",
				"DescribeLoadBalancers", "DescribeTargetGroups", "DescribeTags", "DescribeInstances", "DescribeSubnets",
				"DeleteLoadBalancer", "DeleteTargetGroup", "RevokeSecurityGroupIngress", "DeleteSecurityGroup",
			}
			if name == "throttled" { // each halves the rate of its bucket
				actions = []string{"CreateSecurityGroup", "CreateTargetGroup", "DescribeTags", "DescribeInstances", "DeleteLoadBalancer", "DeleteSecurityGroup"}
			}
			for _, action := range actions {
				f := fault
				f.Action, f.Times = action, 1
				ends = append(ends, b.aws.Inject(f))
			}
			b.putWeb()
			p := b.launchServices()
			kerneltest.Eventually(t, patience, b.complete)
			b.deleteWeb()
			kerneltest.Eventually(t, patience, b.gone)
			for i, end := range ends {
				if end() != 1 {
					t.Errorf("the %dth fault struck no call", i)
				}
			}
			p.End(syscall.SIGKILL)
		})
	}
}

// The event of a Service names the permission that the identity lacks, of reads and changes.
// Once it has that, the Service gets what it wants.
func TestEventNamesTheMissingPermission(t *testing.T) {
	for _, action := range []string{
		"DescribeLoadBalancers", "DescribeInstances", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "CreateTargetGroup", "CreateLoadBalancer", "CreateListener", "RegisterTargets",
		"DeleteLoadBalancer", "DeleteTargetGroup", "RevokeSecurityGroupIngress", "DeleteSecurityGroup",
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := newBalancedProcesses(t, 1)
			b.aws.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{action: true} })
			b.putWeb()
			b.launchServices()
			removes := strings.HasPrefix(action, "De") && !strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Revoke")
			reason := "SyncLoadBalancerFailed"
			if removes {
				kerneltest.Eventually(t, patience, b.complete)
				b.deleteWeb()
				reason = "DeleteLoadBalancerFailed"
			}
			if text := b.wantEvent("web", reason); !strings.Contains(text, ":"+action+" in the IAM policy") {
				t.Errorf("the event says %q", text)
			}
			b.aws.ChangeKey(func(k *awstest.Key) { k.Denied = nil })
			if removes {
				kerneltest.Eventually(t, patience, b.gone)
				return
			}
			kerneltest.Eventually(t, patience, b.complete)
		})
	}
}

// A quota that is met half-way is named in the event. What there is stays usable, goes with
// the Service, and is completed once the quota is higher.
func TestQuotaMetHalfWay(t *testing.T) {
	for name, x := range map[string]struct {
		set   func(s *awstest.Settings, more int)
		quota string
	}{
		"balancers":       {func(s *awstest.Settings, more int) { s.Balancers = 1 + more }, "L-69A177A2"},
		"target groups":   {func(s *awstest.Settings, more int) { s.TargetGroups = 1 + more }, "L-B22855CB"},
		"security groups": {func(s *awstest.Settings, more int) { s.GroupsPerVPC = 2 + more }, "L-E79EC296"},
		"rules":           {func(s *awstest.Settings, more int) { s.RulesPerGroup = 1 + more }, "L-0EA8095F"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, raise := range []bool{true, false} {
				b := newBalancedProcesses(t, 1)
				b.aws.Set(func(s *awstest.Settings) { x.set(s, 0) })
				b.putWeb()
				p := b.launchServices()
				if text := b.wantEvent("web", "SyncLoadBalancerFailed"); !strings.Contains(text, x.quota) {
					t.Errorf("the event says %q", text)
				}
				if raise {
					b.aws.Set(func(s *awstest.Settings) { x.set(s, 50) })
					kerneltest.Eventually(t, patience, b.complete)
				}
				b.deleteWeb()
				kerneltest.Eventually(t, patience, b.gone)
				p.End(syscall.SIGKILL)
			}
		})
	}
}
