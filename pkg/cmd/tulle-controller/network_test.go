package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// networkLab runs the command aws against a fake account.
type networkLab struct {
	testing.TB
	fake *awstest.Server
	file string // the spec
}

func newNetworkLab(t testing.TB, file string) *networkLab {
	return &networkLab{t, awstest.New(t), file}
}

const exampleSpecs = "../../../dist/aws"

// start starts the program with the words after aws.
func (l *networkLab) start(words ...string) (c *exec.Cmd, out, said *textSoFar) {
	l.Helper()
	self, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	c, out, said = exec.Command(self, append(append([]string{"aws"}, words...), "-f", l.file, "--aws-api-share=1000")...), new(textSoFar), new(textSoFar)
	c.Env = append(append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0"), l.fake.Env()...)
	c.Stdout, c.Stderr = out, said
	if err := c.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { c.Process.Kill() })
	return c, out, said
}

// run runs the program, and returns what it wrote and the code that it exited with.
func (l *networkLab) run(words ...string) (out, said string, code int) {
	l.Helper()
	c, stdout, stderr := l.start(words...)
	err := c.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		l.Fatal(err)
	}
	return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
}

// want runs the program, and fails the test unless it exits with a code and writes some texts.
func (l *networkLab) want(code int, texts []string, words ...string) string {
	l.Helper()
	out, said, got := l.run(words...)
	for _, text := range texts {
		if !strings.Contains(out+said, text) {
			l.Errorf("aws %v: %q is not in\n%s%s", words, text, out, said)
		}
	}
	if got != code {
		l.Fatalf("aws %v exited with %d, want %d:\n%s%s", words, got, code, out, said)
	}
	return out
}

// TestNetworkCommandFromPlanToNothing plans, builds and deletes a network with real processes.
func TestNetworkCommandFromPlanToNothing(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/small.yaml")
	l.want(2, []string{"create  vpc/main", "CreateVpc, ModifyVpcAttribute", "after: 10.0.0.0/27 in eu-central-1a", "cluster/prod=owned", "elastic addresses per region: 0 of 5 used, 3 more needed", "3 × NAT gateway"}, "plan")
	l.want(0, []string{"CreateVpc vpc/main vpc-", "the network is as the spec says", "endpoint: prod-apiserver-"}, "apply")
	l.want(0, []string{"nothing to do"}, "plan")
	before := l.fake.Counts()
	l.want(0, []string{"0 steps"}, "apply")
	for action, n := range l.fake.Counts() {
		if !strings.HasPrefix(action, "Describe") && n != before[action] {
			t.Errorf("a second apply called %s", action)
		}
	}
	l.want(2, []string{"delete  vpc/main", "--confirm: missing, and nothing was deleted", "add --confirm=prod"}, "destroy")
	l.want(2, []string{"the spec's cluster is prod"}, "destroy", "--confirm=prd")
	l.want(0, []string{"the network is deleted"}, "destroy", "--confirm=prod")
	l.want(0, []string{"nothing to delete in eu-central-1 of cluster prod with the UID name-"}, "destroy", "--confirm=prod")
	l.want(2, nil, "plan")
}

// TestNetworkCommandAnswersPrograms reads the JSON of plan and apply.
func TestNetworkCommandAnswersPrograms(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/private.yaml")
	var plan, applied networkAnswer
	if err := json.Unmarshal([]byte(l.want(2, nil, "plan", "--output=json")), &plan); err != nil || plan.Run != nil || len(plan.Steps) == 0 || plan.Calls == 0 || len(plan.Quotas) == 0 {
		t.Errorf("%v %+v", err, plan)
	}
	if err := json.Unmarshal([]byte(l.want(0, nil, "apply", "--output=json")), &applied); err != nil || applied.Run == nil || applied.Run.Done != len(plan.Steps) || len(applied.Steps) > 0 || applied.Endpoint == "" {
		t.Errorf("%v %+v", err, applied)
	}
}

// TestNetworkCommandSurvivesKills kills the program at a call, several times, while it builds and
// while it deletes. At the end there is one network, and then nothing.
func TestNetworkCommandSurvivesKills(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/small.yaml")
	for _, at := range l.calls(1, 6, 13) {
		if !l.kill(at, syscall.SIGKILL, "apply") {
			break
		}
		if *everyCall {
			l.want(0, nil, "apply")
			l.want(0, nil, "destroy", "--confirm=prod")
		}
	}
	l.want(0, nil, "apply")
	l.want(0, []string{"nothing to do"}, "plan")
	for action, n := range map[string]int{"DescribeVpcs": 2, "DescribeNatGateways": 3, "DescribeAddresses": 3, "DescribeLoadBalancers": 1} {
		var filter []string
		if action == "DescribeNatGateways" { // AWS shows deleted ones for an hour
			filter = []string{"Filter.1.Name", "state", "Filter.1.Value.1", "available"}
		}
		text, err := l.fake.Do(action, filter...)
		element := map[string]string{"DescribeVpcs": "<vpcId>", "DescribeNatGateways": "<natGatewayId>", "DescribeAddresses": "<allocationId>", "DescribeLoadBalancers": "<LoadBalancerArn>"}[action]
		if err != nil || strings.Count(text, element) != n {
			t.Errorf("%s: %d, want %d; %v", action, strings.Count(text, element), n, err)
		}
	}
	for _, at := range l.calls(1, 7) {
		if !l.kill(at, syscall.SIGKILL, "destroy", "--confirm=prod") {
			break
		}
		if *everyCall {
			l.want(0, nil, "apply")
		}
	}
	l.want(0, nil, "destroy", "--confirm=prod")
	if n := len(l.fake.Tables()); n != 1 {
		t.Errorf("%d route tables are left", n)
	}
}

var everyCall = flag.Bool("every-call", false, "TestNetworkCommandSurvivesKills kills at every call, and not only at some")

// calls returns some calls, or the numbers of all.
func (l *networkLab) calls(some ...int) []int {
	if !*everyCall {
		return some
	}
	var all []int
	for at := range 100 {
		all = append(all, at+1)
	}
	return all
}

// kill runs the program, and signals it in its call with a number that changes something. The
// call is carried out. It returns false if the run made fewer calls.
func (l *networkLab) kill(at int, with syscall.Signal, words ...string) bool {
	l.Helper()
	_, _, killed := l.signal(at, with, words...)
	if !killed && !*everyCall {
		l.Fatalf("aws %v ended before call %d", words, at)
	}
	return killed
}

func (l *networkLab) signal(at int, with syscall.Signal, words ...string) (said string, code int, reached bool) {
	l.Helper()
	var mu sync.Mutex
	n, there := 0, make(chan struct{})
	end := l.fake.Inject(awstest.Fault{Delay: 300 * time.Millisecond, When: func(c awstest.Call) bool {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(c.Action, "Describe") {
			return false
		}
		if n++; n == at {
			close(there)
		}
		return n == at
	}})
	c, _, stderr := l.start(words...)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-there:
		c.Process.Signal(with)
		<-ended
		reached = true
	case <-ended:
	}
	end()
	return stderr.String(), c.ProcessState.ExitCode(), reached
}

// TestNetworkCommandEndsOnASignal: the calls in flight end, and the error says what is left.
func TestNetworkCommandEndsOnASignal(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/small.yaml")
	said, code, reached := l.signal(5, syscall.SIGINT, "apply")
	if !reached || code != 1 || !strings.Contains(said, "interrupted") || !strings.Contains(said, "left to do") || strings.Contains(said, "FAILED") {
		t.Errorf("%d %s", code, said)
	}
	l.want(0, nil, "apply")
}

// TestNetworkPlanFailsWhenBlocked: what holds a subnet that the spec no longer has is a failure of
// plan, as it is of apply.
func TestNetworkPlanFailsWhenBlocked(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t, exampleSpecs+"/subnets.yaml")
	l.want(0, nil, "apply")
	text, err := l.fake.Do("DescribeSubnets", "Filter.1.Name", "cidr-block", "Filter.1.Value.1", "10.0.8.0/22")
	_, id, _ := strings.Cut(text, "<subnetId>")
	id, _, _ = strings.Cut(id, "<")
	if err != nil || id == "" {
		t.Fatalf("%v %s", err, text)
	}
	if _, err := l.fake.Do("CreateLoadBalancer", "Name", "other", "Type", "network", "Scheme", "internal", "Subnets.member.1", id,
		"Tags.member.1.Key", "Name", "Tags.member.1.Value", "\u009b31mred \u202egreen"); err != nil {
		t.Fatal(err)
	}
	spec, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(spec), "    - id: nodes-b\n")
	_, after, _ = strings.Cut(after, "    - id:")
	l.file = filepath.Join(t.TempDir(), "network.yaml")
	if err := os.WriteFile(l.file, []byte(before+"    - id:"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	held := id + " is held by "
	l.want(1, []string{held}, "apply")
	out := l.want(1, []string{"blocked: subnet/nodes-b: " + held, "apply cannot solve"}, "plan")
	if strings.ContainsAny(out, "\u009b\u202e") {
		t.Errorf("%q", out)
	}
}

// TestLegible: nothing that a terminal may act on is in an answer.
func TestLegible(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":                   "a b\n",
		"\x1b[31m \u009b0m \u202e": "?[31m ?0m ?",
		"3 × größer …":             "3 × größer …",
		"\xff":                     "\ufffd",
	} {
		if got := legible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestNetworkExamples plans each example, and builds and deletes it.
func TestNetworkExamples(t *testing.T) {
	files, err := filepath.Glob(exampleSpecs + "/*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f := awstest.New(t)
			f.Setenv(t)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "vpc-0123456789abcdef0") {
				n := f.Default()
				text = []byte(strings.NewReplacer("vpc-0123456789abcdef0", n.VPC, "subnet-0123456789abcdef0", n.Subnets[0], "subnet-0123456789abcdef1", n.Subnets[1]).Replace(string(text)))
			}
			path := filepath.Join(t.TempDir(), "network.yaml")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			network := func(words ...string) (string, error) {
				var out bytes.Buffer
				err := run(append(append([]string{"aws"}, words...), "-f", path, "--aws-api-share=1000"), nil, &out)
				return out.String(), err
			}
			if out, err := network("plan"); !errors.Is(err, errPending) {
				t.Fatalf("%v %s", err, out)
			}
			if out, err := network("apply"); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			if out, err := network("plan"); err != nil || !strings.Contains(out, "nothing to do") {
				t.Fatalf("%v %s", err, out)
			}
			if out, err := network("destroy", "--confirm=prod"); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		})
	}
}

// TestNetworkCommandRefusesBeforeTheFirstCall refuses wrong files and flags, each with the fix.
func TestNetworkCommandRefusesBeforeTheFirstCall(t *testing.T) {
	f := awstest.New(t)
	f.Setenv(t)
	spec := func(text string) string {
		path := filepath.Join(t.TempDir(), "network.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod}\nspec:\n  region: eu-central-1\n"
	good, missing := spec(head), filepath.Join(t.TempDir(), "nothing.yaml")
	empty, east := spec("\n"), spec("[Global]\nRegion = us-east-1\n")
	for _, c := range []struct {
		args string
		want string
	}{
		{"aws", "use one of plan, apply, destroy"},
		{"aws build -f " + good, "use one of plan, apply, destroy"},
		{"aws plan", "-f: missing; name the file"},
		{"aws plan -f " + missing, "no such file"},
		{"aws plan -f " + empty, "the file is empty"},
		{"aws plan -f " + spec("kind: Cluster"), "needs apiVersion: infrastructure.cluster.x-k8s.io/v1beta2"},
		{"aws plan -f " + spec(head+"  network: {vpc: {cidrBlock: 10.0.0.1/24}}\n"), "10.0.0.1/24 has host bits; use 10.0.0.0/24"},
		{"aws plan -f " + good + " --confirm=prod", "is for aws destroy"},
		{"aws apply -f " + good + " --leftovers", "is for aws destroy"},
		{"aws plan -f " + good + " --skip-quotas", "is for aws apply"},
		{"aws plan -f " + good + " --cluster-cidr=10.0.0.0/16", "has no effect on the command aws"},
		{"aws plan -f " + good + " --cloud-config=" + east, "--cloud-config has us-east-1; correct one of them"},
		{"aws destroy -f " + good + " --confirm=dev", "the spec's cluster is prod"},
		{"plan -f " + good, "belongs to tulle-controller aws"},
	} {
		var out bytes.Buffer
		if err := run(strings.Fields(c.args), nil, &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
	if n := f.Count(""); n > 0 {
		t.Errorf("%d calls: %v", n, f.Counts())
	}
}

// TestNetworkPlanCodes: a wrong flag of aws plan exits with 1, because 2 means something to do.
func TestNetworkPlanCodes(t *testing.T) {
	var out bytes.Buffer
	for args, code := range map[string]int{"aws plan": 1, "aws apply": 2, "aws destroy": 2, "aws plan -f x --wrong": 2} {
		err := run(strings.Fields(args), nil, &out)
		if got := exit(err, &out); got != code {
			t.Errorf("%s: %d, want %d: %s", args, got, code, fmt.Sprint(err))
		}
	}
}
