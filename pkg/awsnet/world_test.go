package awsnet_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/awsnettest"
)

// world applies plans to a model of an account, in any order that Ready allows.
type world struct {
	testing.TB
	account *awsnettest.Account
	owner   awsnet.Owner
	rnd     *rand.Rand
	// crash is the number of further calls after which a pass ends. The last call is
	// made, and its answer is lost. A negative number means never.
	crash int
	// loose permits calls to fail, because the account hides new objects.
	loose bool
	calls int
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{TB: t, account: awsnettest.New(), owner: awsnet.Owner{Cluster: "prod", UID: "uid-1"}, rnd: rand.New(rand.NewPCG(seed, 1)), crash: -1}
}

var regions = []awsnet.Zone{
	{Name: "us-east-1a", Type: awsnet.RegularZone, Usable: true}, {Name: "us-east-1b", Type: awsnet.RegularZone, Usable: true}, {Name: "us-east-1c", Type: awsnet.RegularZone, Usable: true},
	{Name: "us-east-1-bos-1a", Type: awsnet.LocalZone, Parent: "us-east-1b", Usable: true}, {Name: "us-east-1-wl1-bos-wlz-1", Type: awsnet.WavelengthZone, Parent: "us-east-1a", Usable: true},
}

// want returns the objects of a spec in YAML.
func (w *world) want(spec string) map[awsnet.Key]awsnet.Wanted {
	w.Helper()
	text := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod}\nspec:\n  region: us-east-1\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ")
	m, err := awsnet.ParseFile([]byte(text))
	if err != nil {
		w.Fatalf("%v\n%s", err, text)
	}
	m.Spec.UID = w.owner.UID
	n, problems := awsnet.Complete(m.Spec, awsnet.Prefer(regions, w.owner, w.account.Read()))
	if len(problems) > 0 {
		w.Fatalf("%v\n%s", problems, text)
	}
	return awsnet.Desired(n)
}

var errCrash = errors.New("crashed")

// pass runs one plan. It returns errCrash if the process dies meanwhile.
func (w *world) pass(p awsnet.Plan) error {
	w.Helper()
	b := p.Binder()
	done, begun := make(map[awsnet.StepID]bool), make(map[awsnet.StepID]bool)
	for {
		ready := awsnet.Ready(p, done, begun)
		if len(ready) == 0 {
			return nil
		}
		batches := awsnet.Batches(ready)
		for _, s := range batches[w.rnd.IntN(len(batches))] {
			begun[s.StepID] = true
			err := w.run(s, b)
			switch {
			case errors.Is(err, errCrash):
				return err
			case err != nil && w.loose:
				continue
			case err != nil:
				w.Fatalf("%s: %v", s.Summary, err)
			}
			done[s.StepID] = true
		}
	}
}

func (w *world) run(s awsnet.Step, b *awsnet.Binder) error {
	if s.Verb == awsnet.Wait {
		w.account.Tick()
		return nil
	}
	o, id := s.Want, s.Current
	if s.Verb == awsnet.Delete {
		o = s.Have
	}
	for _, c := range s.Calls {
		bound, err := o, error(nil)
		if s.Verb != awsnet.Delete {
			bound, err = b.Bind(o)
		} else if bound = b.Have(o); slices.ContainsFunc(awsnet.Named(bound), func(r awsnet.Ref) bool { return r.ID == "" && r != awsnet.Ref{} }) {
			w.Errorf("%s: the call %s would not know what %v names", s.Summary, c, bound)
		}
		if err != nil {
			return err
		}
		created, given, err := w.account.Do(s, c, id, bound)
		w.calls++
		if err != nil {
			return err
		}
		if w.crash >= 0 {
			if w.crash--; w.crash < 0 {
				return errCrash
			}
		}
		if s.Verb == awsnet.Create {
			id = created
			b.Learn(s.Key, id, given)
		}
	}
	if s.Verb != awsnet.Change {
		w.account.Tick() // an executor waits for the object here
	}
	return nil
}

// until plans and applies until no steps are left, and returns the last plan.
func (w *world) until(plan func(awsnet.Account) awsnet.Plan) awsnet.Plan {
	w.Helper()
	for range 30 {
		a := w.account.Read()
		p := plan(a)
		w.check(p)
		if len(p.Steps) == 0 {
			return p
		}
		if err := w.pass(p); err != nil && w.loose {
			w.account.Hide(w.rnd.IntN(3))
		}
	}
	w.Fatalf("the plans do not end: %v", summaries(plan(w.account.Read())))
	return awsnet.Plan{}
}

// apply changes the account into want.
func (w *world) apply(want map[awsnet.Key]awsnet.Wanted) awsnet.Plan {
	w.Helper()
	return w.until(func(a awsnet.Account) awsnet.Plan { return awsnet.Diff(w.owner, want, a) })
}

// destroy deletes everything.
func (w *world) destroy(sweep bool) awsnet.Plan {
	w.Helper()
	return w.until(func(a awsnet.Account) awsnet.Plan { return awsnet.Destroy(w.owner, a, sweep) })
}

// check checks what must hold for every plan.
func (w *world) check(p awsnet.Plan) {
	w.Helper()
	seen := make(map[awsnet.StepID]bool)
	for _, s := range p.Steps {
		for _, n := range s.Needs {
			if !seen[n] {
				w.Errorf("%s needs %v, which is not before it", s.Summary, n)
			}
		}
		if seen[s.StepID] {
			w.Errorf("%v is there twice", s.StepID)
		}
		seen[s.StepID] = true
		if have := w.account.Get(s.ID); s.Verb == awsnet.Delete && s.Key.Kind.Tagged() && !w.owner.Owns(have.Tags) && have.Tags["kubernetes.io/service-name"] == "" {
			w.Errorf("%s: it is not ours: %v", s.Summary, have.Tags)
		}
		if s.Summary == "" || (s.Verb == awsnet.Wait) != (len(s.Calls) == 0) {
			w.Errorf("%+v", s)
		}
	}
}

// exact fails the test unless the account has each wanted object once, and no other
// object of ours.
func (w *world) exact(want map[awsnet.Key]awsnet.Wanted) {
	w.Helper()
	a := w.account.Read()
	h := awsnet.Sort(w.owner, want, a)
	if len(h.Twins) > 0 {
		w.Errorf("twins remain: %v", h.Twins)
	}
	for k := range want {
		if h.Ours[k].Object == nil && !strings.Contains(k.Name, "/address:") {
			w.Errorf("%s is missing", k)
		}
	}
	for k, f := range h.Ours {
		if _, wanted := want[k]; !wanted && k.Kind != awsnet.KindRule {
			w.Errorf("%s %s is left over", k, f.ID)
		}
	}
	known := make(map[string]bool)
	for _, f := range h.Ours {
		known[f.ID] = true
	}
	for _, f := range a.Found {
		if f.Tags[prodTag] == "owned" && !known[f.ID] {
			w.Errorf("%s has our tag and is not ours", f.ID)
		}
	}
}

// empty fails the test unless the account has no object left.
func (w *world) empty() {
	w.Helper()
	for _, f := range w.account.Read().Found {
		w.Errorf("%s is left: %v", f.ID, f.Object)
	}
}

func summaries(p awsnet.Plan) string {
	var lines []string
	for _, s := range p.Steps {
		lines = append(lines, fmt.Sprintf("%s (needs %v, calls %v)", s.Summary, s.Needs, s.Calls))
	}
	for _, b := range p.Blocked {
		lines = append(lines, "blocked: "+b.By)
	}
	for _, b := range p.Problems {
		lines = append(lines, "problem: "+b.String())
	}
	return strings.Join(lines, "\n")
}
