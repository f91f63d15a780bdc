package cloudbalancer

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

const testCluster = "prod"

// lab is a cloud, and what is known of it.
type lab struct {
	*testing.T
	fleet   *cloudtest.Fleet
	cloud   *cloudtest.Balancers
	account *Account
	options Options
	setting Setting
	now     time.Time
	calls   int
}

func newLab(t *testing.T) *lab {
	l := &lab{T: t, fleet: cloudtest.NewFleet(), account: NewAccount(), now: time.Unix(1_700_000_000, 0)}
	l.cloud = cloudtest.NewBalancers(l.fleet, testCluster)
	l.options = Options{Cluster: testCluster, Class: "tulle.net/nlb", Default: true}
	l.setting = Setting{NodeGroups: []string{cloudtest.NodeGroup}, NodesKnown: true, NodeRules: true}
	l.nodes(2)
	l.read()
	return l
}

// nodes makes so many instances the targets.
func (l *lab) nodes(n int) {
	l.setting.Targets = nil
	for i := range n {
		name := fmt.Sprintf("worker-%03d", i)
		l.fleet.Launch(name)
		l.setting.Targets = append(l.setting.Targets, "i-"+name)
	}
}

// read reads the account.
func (l *lab) read() {
	l.Helper()
	l.now = l.now.Add(time.Minute)
	all, err := l.cloud.Balancing(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	l.account.Set(all, nil, l.now)
	if l.setting.Subnets, err = l.cloud.Subnets(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// service returns a Service with a port.
func service(name string, change ...func(*Service)) Service {
	s := Service{
		Ref: Ref{"default", name, "12345678-90ab-cdef-1234-" + fmt.Sprintf("%012x", []byte(name))[:12]}, Balances: true,
		Annotations: map[string]string{Prefix + aType: "nlb"}, Ports: []Port{{"http", "TCP", 80, 30080}},
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// annotate returns a function that sets annotations.
func annotate(pairs ...string) func(*Service) {
	return func(s *Service) {
		s.Annotations = maps.Clone(s.Annotations)
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[Prefix+pairs[i]] = pairs[i+1]
		}
	}
}

// want returns what a Service wants. It fails if something is wrong with it.
func (l *lab) want(s Service) Want {
	l.Helper()
	if c := l.options.Claim(s); !c.Ours {
		l.Fatalf("not ours: %s", c.Why)
	}
	w, problems := l.options.Read(s)
	if len(problems) > 0 {
		l.Fatalf("%+v", problems)
	}
	return w
}

// step returns what is to be done for a Service, after reading what that needs.
func (l *lab) step(next func(Holding) Step, s Ref) Step {
	l.Helper()
	for {
		step := next(l.account.Holding(testCluster, s, l.setting.NodeGroups))
		if len(step.Details)+len(step.Security) == 0 {
			return step
		}
		all, err := l.cloud.Details(l.Context(), step.Details)
		groups, failed := l.cloud.SecurityGroups(l.Context(), step.Security)
		if err != nil || failed != nil {
			l.Fatal(err, failed)
		}
		l.account.SetDetails(step.Details, all, true, l.now)
		l.account.SetSecurity(groups)
	}
}

// make makes changes. All must succeed.
func (l *lab) make(changes []Change) {
	l.Helper()
	seen := make(map[string]bool)
	for _, c := range changes {
		if key := string(c.Verb) + c.Object; seen[key] {
			l.Fatalf("%s: two changes of %s in one step", c.Verb, c.Object)
		} else {
			seen[key] = true
		}
		answer, err := l.cloud.ChangeBalancing(l.Context(), c.BalancerChange)
		if l.calls++; err != nil {
			l.Fatalf("%s: %v", c.Summary, err)
		}
		l.account.Apply(c.BalancerChange, answer, l.now)
	}
}

// settle makes all changes for a Service, and returns the rounds and the last step.
func (l *lab) settle(w Want) (rounds int, last Step) {
	l.Helper()
	for rounds = range 20 {
		last = l.step(func(h Holding) Step { return Next(w, h, l.setting) }, w.Ref)
		if len(last.Changes) == 0 {
			return rounds, last
		}
		l.make(last.Changes)
	}
	l.Fatalf("no end: %+v", last)
	return 0, last
}

// balance makes the balancer of a Service, and checks that it is done, and that what was
// read again needs no change.
func (l *lab) balance(s Service) Want {
	l.Helper()
	w := l.want(s)
	if _, last := l.settle(w); !last.Done || len(last.Problems) > 0 {
		l.Fatalf("%+v", last)
	}
	l.read()
	fresh := NewAccount()
	all, _ := l.cloud.Balancing(l.Context())
	fresh.Set(all, nil, l.now)
	l.account = fresh
	if step := l.step(func(h Holding) Step { return Next(w, h, l.setting) }, w.Ref); !step.Done {
		l.Fatalf("after reading: %+v", step)
	}
	return w
}

// remove removes what was made for a Service.
func (l *lab) remove(s Ref) {
	l.Helper()
	for range 10 {
		step := l.step(func(h Holding) Step { return Remove(testCluster, s, h) }, s)
		if step.Done {
			return
		}
		for _, c := range step.Changes {
			if c.Mark == "" {
				l.Errorf("no mark: %+v", c)
			}
		}
		l.make(step.Changes)
	}
	l.Fatal("no end")
}

// summaries returns what changes do.
func summaries(all []Change) (texts []string) {
	for _, c := range all {
		texts = append(texts, string(c.Verb))
	}
	slices.Sort(texts)
	return texts
}
