package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/awsnet/awsnettest"
	"github.com/tulle-net/tulle/pkg/retry"
)

// client makes the calls of plans on a model of an account.
type client struct {
	testing.TB
	mu      sync.Mutex
	account *awsnettest.Account
	owner   awsnet.Owner
	running int
	most    int // the most calls in flight at once
	calls   int
	// before is called before each call, and after each with the number of calls so far.
	before func(awsnet.Call, awsnet.Step) error
	after  func(calls int)
	// slow keeps what AWS does in the background from ending, while it is true.
	slow func(*awsnettest.Account) bool
}

func newClient(t testing.TB) *client {
	return &client{TB: t, account: awsnettest.New(), owner: awsnet.Owner{Cluster: "prod", UID: "uid-1"}}
}

func (c *client) Change(_ context.Context, call awsnet.Call, all []apply.Change) (made []apply.Made, err error) {
	c.mu.Lock()
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.calls++
	if c.after != nil {
		defer c.after(c.calls)
	}
	for _, x := range all {
		if c.before != nil {
			if err := c.before(call, x.Step); err != nil {
				return nil, err
			}
		}
		id, given, err := c.account.Do(x.Step, call, x.ID, x.Object)
		if err != nil {
			return nil, err
		}
		made = append(made, apply.Made{ID: id, Given: given})
	}
	return made, nil
}

func (c *client) Now(_ context.Context, ids []string) (map[string]awsnet.Found, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow == nil || !c.slow(c.account) {
		c.account.Tick()
	}
	now := make(map[string]awsnet.Found)
	for _, id := range ids {
		if f := c.account.Get(id); f.ID != "" {
			now[id] = f
		}
	}
	return now, nil
}

func (c *client) want(network string) map[awsnet.Key]awsnet.Wanted {
	c.Helper()
	m, err := awsnet.ParseFile([]byte("apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod}\nspec:\n  region: us-east-1\n  network: " + network))
	if err != nil {
		c.Fatal(err)
	}
	m.Spec.UID = c.owner.UID
	var zones []awsnet.Zone
	for _, letter := range "abc" {
		zones = append(zones, awsnet.Zone{Name: "us-east-1" + string(letter), Type: awsnet.RegularZone, Usable: true})
	}
	n, problems := awsnet.Complete(m.Spec, zones)
	if len(problems) > 0 {
		c.Fatal(problems)
	}
	return awsnet.Desired(n)
}

// apply carries out a plan.
func (c *client) apply(ctx context.Context, p awsnet.Plan, most int) apply.Progress {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	last := apply.Progress{}
	done := apply.Apply(ctx, p, c, apply.Options{Most: most, Poll: retry.Backoff{First: time.Millisecond, Last: time.Millisecond}, Report: func(now apply.Progress) {
		if now.Done < last.Done || now.Calls > most || now.Done+len(now.Failed)+now.Left > now.Steps || now.Over() && now.Calls+len(now.Waiting) > 0 {
			c.Errorf("progress %+v after %+v", now, last)
		}
		last = now
	}})
	if last.Done != done.Done {
		c.Errorf("the last progress is %+v, and the result %+v", last, done)
	}
	return done
}

// converge applies a spec until nothing is left to do, and returns the number of passes.
func (c *client) converge(want map[awsnet.Key]awsnet.Wanted) (passes int) {
	c.Helper()
	for passes = range 6 {
		p := awsnet.Diff(c.owner, want, c.account.Read())
		if len(p.Steps) == 0 {
			if len(p.Problems) > 0 {
				c.Error(p.Problems)
			}
			return passes
		}
		if done := c.apply(c.Context(), p, 8); len(done.Failed) > 0 {
			c.Fatalf("%+v", done.Failed)
		}
	}
	c.Fatal("the plan does not end")
	return 0
}

const (
	small     = "{vpc: {cidrBlock: 10.0.0.0/24}}"
	dualStack = "{vpc: {cidrBlock: 10.0.0.0/16, ipv6: {}, secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}]}}"
)

// TestApplyBuildsAndDeletes builds networks with calls side by side, and deletes them. A second
// pass adds the rules that let IPv6 out, where AWS made a group before the VPC had IPv6.
func TestApplyBuildsAndDeletes(t *testing.T) {
	for spec, most := range map[string]int{small: 1, dualStack: 2} {
		c := newClient(t)
		want := c.want(spec)
		if passes := c.converge(want); passes > most {
			t.Errorf("%s: %d passes", spec, passes)
		}
		if n := len(apply.New(awsnet.Diff(c.owner, want, awsnet.Account{})).Next(8)); n < 2 || c.most > 8 {
			t.Errorf("%s: %d calls begin at once, and up to %d ran", spec, n, c.most)
		}
		for range 4 {
			if done := c.apply(t.Context(), awsnet.Destroy(c.owner, c.account.Read(), false), 8); len(done.Failed) > 0 {
				t.Fatal(done.Failed)
			}
		}
		if left := c.account.Read().Found; len(left) > 0 {
			t.Errorf("%s: left over: %v", spec, left)
		}
	}
}

// TestWaitsHoldNoWorker: with one call at a time, everything that does not need the NAT gateways
// is made while AWS makes these.
func TestWaitsHoldNoWorker(t *testing.T) {
	c := newClient(t)
	want := c.want(small)
	c.slow = func(a *awsnettest.Account) bool {
		return len(a.IDs(awsnet.KindRule)) < 5 || len(a.IDs(awsnet.KindNATGateway)) < 3
	}
	done := c.apply(t.Context(), awsnet.Diff(c.owner, want, c.account.Read()), 1)
	if !done.Over() || len(done.Failed) > 0 || c.most != 1 {
		t.Errorf("%+v, %d calls at once", done, c.most)
	}
}

// TestFailureStopsNothingElse fails one NAT gateway: what needs it is left, the rest is made, and
// the next plan completes it.
func TestFailureStopsNothingElse(t *testing.T) {
	c := newClient(t)
	want := c.want(small)
	full := errors.New("AddressLimitExceeded")
	c.before = func(call awsnet.Call, s awsnet.Step) error {
		if call.Action == "AllocateAddress" && strings.HasSuffix(s.Key.Name, "1b") {
			return full
		}
		return nil
	}
	p := awsnet.Diff(c.owner, want, c.account.Read())
	done := c.apply(t.Context(), p, 4)
	if !done.Over() || len(done.Failed) != 1 || !errors.Is(done.Failed[0].Err, full) || done.Left != 2 || len(done.Open) != 3 || done.Done != len(p.Steps)-3 {
		t.Errorf("%+v", done)
	}
	c.before = nil
	if passes := c.converge(want); passes != 1 {
		t.Errorf("%d passes after the failure", passes)
	}
}

// TestFailedInTheBackground: AWS reports the failure of a NAT gateway later.
func TestFailedInTheBackground(t *testing.T) {
	c := newClient(t)
	want := c.want(small)
	c.slow = func(a *awsnettest.Account) bool {
		for _, id := range a.IDs(awsnet.KindNATGateway)[:min(1, len(a.IDs(awsnet.KindNATGateway)))] {
			f := a.Get(id)
			f.State, f.Why = awsnet.Failed, "InsufficientFreeAddressesInSubnet"
			a.Set(f)
		}
		return false
	}
	done := c.apply(t.Context(), awsnet.Diff(c.owner, want, c.account.Read()), 4)
	if !done.Over() || len(done.Failed) == 0 || !strings.Contains(fmt.Sprint(done.Failed), "InsufficientFreeAddressesInSubnet") {
		t.Errorf("%+v", done)
	}
	c.slow = nil
	if passes := c.converge(want); passes == 0 {
		t.Error("the failed gateway stays")
	}
}

// TestApplyStopsAnywhere ends the context after each number of calls: the results of those in
// flight are not lost, and the next plan completes the network, with nothing twice.
func TestApplyStopsAnywhere(t *testing.T) {
	c := newClient(t)
	want := c.want(small)
	c.converge(want)
	for at := 1; at < c.calls; at += 3 {
		c := newClient(t)
		ctx, cancel := context.WithCancel(t.Context())
		c.after = func(calls int) {
			if calls == at {
				cancel()
			}
		}
		done := c.apply(ctx, awsnet.Diff(c.owner, want, c.account.Read()), 4)
		if done.Calls != 0 || c.calls > at+4 {
			t.Errorf("stopped after %d calls: %d calls, %+v", at, c.calls, done)
		}
		c.after = nil
		c.converge(want)
		if h := awsnet.Sort(c.owner, want, c.account.Read()); len(h.Twins) > 0 {
			t.Errorf("stopped after %d calls: twins %v", at, h.Twins)
		}
		cancel()
	}
}

// TestWaitsExpire fails what waits for longer than AWS needs, with the reason. The rest of the
// plan is made.
func TestWaitsExpire(t *testing.T) {
	c := newClient(t)
	p := awsnet.Diff(c.owner, c.want(small), c.account.Read())
	r := apply.New(p)
	for tasks := r.Next(8); len(tasks) > 0; tasks = r.Next(8) {
		for _, task := range tasks {
			made, err := c.Change(t.Context(), task.Call, task.Changes)
			r.Ended(task, made, err)
		}
	}
	began := time.Now()
	r.Expire(began, nil)
	r.Expire(began.Add(14*time.Minute), nil)
	if now := r.Progress(); len(now.Failed) > 0 || len(now.Waiting) == 0 {
		t.Fatalf("%+v", now)
	}
	denied := errors.New("DescribeNatGateways: denied")
	r.Expire(began.Add(15*time.Minute), denied)
	now := r.Progress()
	if !now.Over() || len(now.Failed) == 0 || !errors.Is(now.Failed[0].Err, denied) || !strings.Contains(now.Failed[0].Err.Error(), "after 15m0s") {
		t.Errorf("%+v", now)
	}
}

// TestLostObjectsFailAtOnce: AWS may answer a creation with an object that is deleted, because it
// remembers client tokens. Waiting for that would take a quarter of an hour.
func TestLostObjectsFailAtOnce(t *testing.T) {
	begin := func() (*apply.Run, []string) {
		c := newClient(t)
		r := apply.New(awsnet.Diff(c.owner, c.want(small), c.account.Read()))
		for tasks := r.Next(8); len(tasks) > 0; tasks = r.Next(8) {
			for _, task := range tasks {
				made, err := c.Change(t.Context(), task.Call, task.Changes)
				r.Ended(task, made, err)
			}
		}
		ids := r.Waiting()
		if len(ids) == 0 {
			t.Fatal("nothing waits")
		}
		return r, ids
	}
	lost := func(r *apply.Run) (n int) {
		for _, f := range r.Progress().Failed {
			if _, is := errors.AsType[*apply.LostError](f.Err); !is || apply.IsWaitError(f.Err) {
				t.Errorf("%v", f.Err)
			}
			n++
		}
		return n
	}

	r, ids := begin()
	now := make(map[string]awsnet.Found)
	for _, id := range ids {
		now[id] = awsnet.Found{ID: id, State: awsnet.Gone}
	}
	if r.Saw(ids, now); lost(r) != len(ids) || !r.Progress().Over() {
		t.Errorf("%+v", r.Progress())
	}

	// AWS shows nothing at all for two minutes, and for one of the objects it does in between.
	r, ids = begin()
	began := time.Now()
	r.Saw(ids, nil)
	r.Expire(began, nil)
	r.Saw(ids, map[string]awsnet.Found{ids[0]: {ID: ids[0], State: awsnet.Pending}})
	r.Expire(began.Add(100*time.Second), nil)
	r.Saw(ids, nil)
	if r.Expire(began.Add(119*time.Second), nil); lost(r) != 0 {
		t.Errorf("%+v", r.Progress())
	}
	if r.Expire(began.Add(2*time.Minute), nil); lost(r) != len(ids)-1 {
		t.Errorf("%+v", r.Progress())
	}
}
