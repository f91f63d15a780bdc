package awsdeploy_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/retry"
)

// identify gives the SDK credentials. It is not done for moto_server, which would inherit them.
var identify = sync.OnceFunc(func() {
	for _, v := range awstest.Environment("") {
		os.Setenv(v[0], v[1])
	}
})

// lab deploys specs to a fake account.
type lab struct {
	testing.TB
	fake *awstest.Server

	mu     sync.Mutex
	called []awsdeploy.Called
}

func newLab(t testing.TB) *lab {
	identify()
	return &lab{TB: t, fake: awstest.New(t)}
}

// client returns a new client, as that of a new process.
func (l *lab) client() *aws.Client {
	l.Helper()
	c, err := aws.New(l.Context(), aws.Options{
		Networks: true, Share: 1e6, Agent: "test",
		Config: aws.Config{Region: awstest.Region, Endpoints: map[string]string{"ec2": l.fake.URL, "elasticloadbalancing": l.fake.URL, "servicequotas": l.fake.URL}},
	})
	if err != nil {
		l.Fatal(err)
	}
	return c
}

// fast are options of tests. Waits are short.
func (l *lab) fast() awsdeploy.Options {
	ms := retry.Backoff{First: time.Millisecond, Last: 20 * time.Millisecond}
	return awsdeploy.Options{Poll: ms, Retry: ms, Patience: 30 * time.Second, Linger: 30 * time.Second, Called: func(c awsdeploy.Called) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.called = append(l.called, c)
	}}
}

// deployer returns a Deployer with a client of its own, as a new process has it.
func (l *lab) deployer() *awsdeploy.Deployer { return awsdeploy.New(l.client(), l.fast()) }

const (
	oneZone    = "network: {vpc: {cidrBlock: 10.0.0.0/24, availabilityZoneUsageLimit: 1}}"
	threeZones = "network: {vpc: {cidrBlock: 10.0.0.0/24}}"
)

// spec reads a spec in YAML.
func (l *lab) spec(text string) awsnet.Spec {
	l.Helper()
	m, err := awsnet.ParseFile([]byte("apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod}\nspec:\n  region: " + awstest.Region + "\n  " + text))
	if err != nil {
		l.Fatal(err)
	}
	return m.Spec
}

// build builds a network, which must succeed.
func (l *lab) build(spec string) awsdeploy.Result {
	l.Helper()
	r, err := l.deployer().Build(l.Context(), l.spec(spec))
	if err != nil {
		l.Fatalf("%v", err)
	}
	if !r.View.Done() {
		l.Fatalf("%+v", r.View.Plan)
	}
	if twins := r.View.Holding.Twins; len(twins) > 0 {
		l.Errorf("twins: %+v", twins)
	}
	return r
}

// destroy deletes a network, which must succeed, and checks that nothing is left.
func (l *lab) destroy(spec string) {
	l.Helper()
	r, err := l.deployer().Destroy(l.Context(), awsdeploy.EndOf(l.spec(spec), false))
	if err != nil || !r.View.Done() {
		l.Fatalf("%v %+v", err, r.View.Plan)
	}
	l.wantNothing()
}

// wantNothing fails the test if the account has anything of a cluster.
func (l *lab) wantNothing() {
	l.Helper()
	v, err := l.deployer().ReadEnd(l.Context(), awsdeploy.EndOf(l.spec(threeZones), true))
	if err != nil || !v.Done() || len(v.Holding.Foreign) > 0 {
		l.Fatalf("left over: %+v %+v %v", v.Plan.Steps, v.Holding.Foreign, err)
	}
	for action, element := range map[string]string{"DescribeAddresses": "allocationId", "DescribeLoadBalancers": "LoadBalancerArn", "DescribeTargetGroups": "TargetGroupArn", "DescribeVpcEndpoints": "vpcEndpointId"} {
		if id := l.do(action, element); id != "" {
			l.Errorf("left over: %s", id)
		}
	}
	if n := len(l.fake.Tables()); n != 1 {
		l.Errorf("%d route tables are left", n)
	}
}

// changes returns how many calls changed something.
func (l *lab) changes() (n int) {
	for action, count := range l.fake.Counts() {
		if isChange(action) {
			n += count
		}
	}
	return n
}

func isChange(action string) bool {
	return !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get")
}

// failures returns the failures of a run.
func failures(t testing.TB, err error) string {
	t.Helper()
	e, is := errors.AsType[*awsdeploy.RunError](err)
	if !is {
		t.Fatalf("%v", err)
	}
	var lines []string
	for _, f := range e.Failed {
		lines = append(lines, f.Step.Key.String()+": "+f.Err.Error())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// cut ends a run at a call that changes something, as the death of its process does: AWS carries
// the call out, its answer is lost, and nothing else reaches AWS. It returns false if the run made
// fewer calls.
func (l *lab) cut(at int, do func(context.Context, *awsdeploy.Deployer) error) bool {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	n := 0 // the server calls When one at a time
	dead := l.fake.Inject(awstest.Fault{Reset: true, When: func(awstest.Call) bool { return n >= at }})
	last := l.fake.Inject(awstest.Fault{Lose: true, When: func(c awstest.Call) bool {
		if !isChange(c.Action) {
			return false
		}
		if n++; n == at {
			cancel()
		}
		return n == at
	}})
	_ = do(ctx, l.deployer())
	dead()
	return last() > 0
}

// do makes a call as another program does, and returns what is in an element of the answer.
func (l *lab) do(action, element string, parameters ...string) string {
	l.Helper()
	text, err := l.fake.Do(action, parameters...)
	if err != nil {
		l.Fatalf("%s: %v", action, err)
	}
	_, after, _ := strings.Cut(text, "<"+element+">")
	value, _, _ := strings.Cut(after, "<")
	return value
}
