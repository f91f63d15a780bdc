package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// networkLab applies specs of networks to the fake account.
type networkLab struct {
	testing.TB
	fake    *awstest.Server
	client  *Client
	owner   awsnet.Owner
	bastion bool
}

func newNetworkLab(t *testing.T) *networkLab {
	f := awstest.New(t)
	f.Setenv(t)
	return &networkLab{TB: t, fake: f, client: fastClient(t), owner: awsnet.Owner{Cluster: "prod", UID: "uid-1"}}
}

// fastClient returns a Client without a limit on its request rate.
func fastClient(t testing.TB) *Client {
	c := newClient(t, "")
	c.limiter = cloud.NewLimiter(func(string) cloud.Budget { return cloud.Budget{Burst: 1e6, Rate: 1e6} })
	return c
}

func (l *networkLab) scope() NetworkScope {
	return NetworkScope{Owner: l.owner, Balancers: true, Bastion: l.bastion}
}

const threeZones = `
network:
  vpc: {cidrBlock: 10.0.0.0/16, availabilityZoneUsageLimit: 3}
`

const dualStack = `
network:
  vpc: {cidrBlock: 10.0.0.0/16, availabilityZoneUsageLimit: 3, ipv6: {}}
controlPlaneLoadBalancer: {crossZoneLoadBalancing: true, preserveClientIP: true}
bastion: {enabled: true, instanceType: t3.micro, ami: ami-0123456789abcdef0}
sshKeyName: key
`

// want returns the objects of a spec in YAML.
func (l *networkLab) want(spec string) map[awsnet.Key]awsnet.Wanted {
	l.Helper()
	text := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod}\nspec:\n  region: eu-central-1\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ")
	m, err := awsnet.ParseFile([]byte(text))
	if err != nil {
		l.Fatalf("%v\n%s", err, text)
	}
	m.Spec.UID = l.owner.UID
	var zones []awsnet.Zone
	for _, letter := range "abc" {
		zones = append(zones, awsnet.Zone{Name: awstest.Region + string(letter), Type: awsnet.RegularZone, Usable: true})
	}
	n, problems := awsnet.Complete(m.Spec, zones)
	if len(problems) > 0 {
		l.Fatalf("%v\n%s", problems, text)
	}
	return awsnet.Desired(n)
}

// read reads the network.
func (l *networkLab) read(s NetworkScope) awsnet.Account {
	l.Helper()
	a, err := l.client.Network(l.Context(), s)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

// apply carries out a plan, and returns the first error. After all steps that are
// ready, it waits for AWS's background actions while the fake's clock advances.
func (l *networkLab) apply(p awsnet.Plan) error {
	b := p.Binder()
	done, begun := make(map[awsnet.StepID]bool), make(map[awsnet.StepID]bool)
	for {
		ready := awsnet.Ready(p, done, begun)
		if len(ready) == 0 {
			return nil
		}
		waits := make(map[string]bool) // whether each should be gone, by ID
		for _, batch := range awsnet.Batches(ready) {
			if err := l.run(batch, b, waits); err != nil {
				return fmt.Errorf("%s: %w", batch[0].Summary, err)
			}
			for _, s := range batch {
				begun[s.StepID], done[s.StepID] = true, true
			}
		}
		if err := l.wait(waits); err != nil {
			return err
		}
	}
}

// run carries out steps that share one call.
func (l *networkLab) run(batch []awsnet.Step, b *awsnet.Binder, waits map[string]bool) error {
	if batch[0].Verb == awsnet.Wait {
		waits[batch[0].Current] = batch[0].Want == nil
		return nil
	}
	changes := make([]NetworkChange, len(batch))
	for i, s := range batch {
		changes[i] = NetworkChange{Step: s, ID: s.Current}
		if s.Have != nil {
			changes[i].Have = b.Have(s.Have)
		}
		if changes[i].Object = changes[i].Have; s.Verb != awsnet.Delete {
			var err error
			if changes[i].Object, err = b.Bind(s.Want); err != nil {
				return err
			}
		}
	}
	for _, call := range batch[0].Calls {
		made, err := l.client.ChangeNetwork(l.Context(), l.owner, call, changes...)
		if err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		for i, m := range made {
			if changes[i].ID = m.ID; batch[i].Verb == awsnet.Create && call == batch[i].Calls[0] {
				b.Learn(batch[i].Key, m.ID, m.Given)
			}
		}
	}
	if id := batch[0].Current; batch[0].Verb == awsnet.Delete && waited(id) {
		waits[id] = true
	} else if id := changes[0].ID; batch[0].Verb == awsnet.Create && waited(id) {
		waits[id] = false
	}
	return nil
}

// waited reports whether AWS takes some time to create or delete an object.
func waited(id string) bool { return isID("nat", id) || balancerARN.MatchString(id) || isID("i", id) }

func (l *networkLab) wait(waits map[string]bool) error {
	ids := slices.Collect(maps.Keys(waits))
	for range 100 {
		if len(ids) == 0 {
			return nil
		}
		l.fake.Advance(time.Minute)
		now, err := l.client.NetworkNow(l.Context(), ids...)
		if err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id string) bool {
			f, there := now[id]
			return there != waits[id] && (waits[id] || f.State == awsnet.Usable)
		})
	}
	return fmt.Errorf("still waiting for %v", ids)
}

// converge applies a spec until no steps are left, and returns the number of passes.
func (l *networkLab) converge(spec string) int {
	l.Helper()
	want := l.want(spec)
	for passes := range 5 {
		a := l.read(l.scope())
		p := awsnet.Diff(l.owner, want, a)
		if len(p.Problems)+len(p.Blocked) > 0 {
			l.Fatalf("%+v %+v", p.Problems, p.Blocked)
		}
		if len(p.Steps) == 0 {
			return passes
		}
		if err := l.apply(p); err != nil {
			l.Fatal(err)
		}
	}
	l.Fatalf("the plan does not end: %v", summaries(awsnet.Diff(l.owner, want, l.read(l.scope()))))
	return 0
}

func summaries(p awsnet.Plan) (all []string) {
	for _, s := range p.Steps {
		all = append(all, s.Summary)
	}
	return all
}

// total returns the number of calls so far.
func total(c *Client) (n int) {
	for _, calls := range c.Calls() {
		n += calls
	}
	return n
}

// destroy deletes everything of the network.
func (l *networkLab) destroy() {
	l.Helper()
	s := l.scope()
	s.Holders = true
	for range 5 {
		a := l.read(s)
		p := awsnet.Destroy(l.owner, a, false)
		if len(p.Blocked) > 0 {
			l.Fatalf("%+v", p.Blocked)
		}
		if len(p.Steps) == 0 {
			return
		}
		if err := l.apply(p); err != nil {
			l.Fatal(err)
		}
	}
	l.Fatal("the deletion does not end")
}

// owned returns the IDs of everything with the owner's tag.
func (l *networkLab) owned() (ids []string) {
	for _, f := range l.read(NetworkScope{Owner: l.owner, Balancers: true, Bastion: true, Holders: true}).Found {
		if l.owner.Owns(f.Tags) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// TestNetworkIsBuiltAndDeleted builds networks with the real planner, reads them, and
// deletes them.
func TestNetworkIsBuiltAndDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		most int // calls from the first reading to the one that finds no steps
	}{"three zones": {threeZones, 75}, "dual-stack with bastion": {dualStack, 95}} {
		t.Run(name, func(t *testing.T) {
			l := newNetworkLab(t)
			l.fake.Set(func(s *awstest.Settings) { s.NAT, s.Provision, s.Boot = 90*time.Second, 2*time.Minute, time.Minute })
			l.bastion = strings.Contains(c.spec, "bastion")
			l.converge(c.spec)
			if n := total(l.client); n > c.most {
				t.Errorf("building took %d calls, more than %d: %v", n, c.most, sortedCalls(l.client))
			} else {
				t.Logf("%d calls to build", n)
			}
			before := total(l.client)
			for range 20 {
				l.read(l.scope())
			}
			if n := total(l.client) - before; n > 20*mostIdle {
				t.Errorf("20 readings without a change took %d calls", n)
			} else {
				t.Logf("%.1f calls for each reading without a change", float64(n)/20)
			}
			l.destroy()
			if left := l.owned(); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

func sortedCalls(c *Client) (all []string) {
	calls := c.Calls()
	for _, call := range slices.SortedFunc(maps.Keys(calls), func(a, b cloud.Call) int { return strings.Compare(a.Action+a.Outcome, b.Action+b.Outcome) }) {
		all = append(all, fmt.Sprintf("%s %s: %d", call.Action, call.Outcome, calls[call]))
	}
	return all
}
