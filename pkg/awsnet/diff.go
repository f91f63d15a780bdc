package awsnet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Diff returns the Plan that changes an account into want. It refuses an empty want:
// use Destroy for that.
func Diff(o Owner, want map[Key]Wanted, a Account) Plan {
	switch {
	case o.UID == "":
		return Plan{Problems: []Problem{{"metadata.uid", "the cluster has no UID, so its objects could not be recognised; set it"}}}
	case len(want) == 0:
		return Plan{Problems: []Problem{{"spec", "the network wants nothing; delete the cluster, or correct the spec"}}}
	}
	return diff(o, want, a, false)
}

// Destroy returns the Plan that deletes all of a cluster's network. With sweep, it also
// deletes the load balancers and security groups that the cluster's cloud controllers
// left.
func Destroy(o Owner, a Account, sweep bool) Plan { return diff(o, nil, a, sweep) }

func diff(o Owner, want map[Key]Wanted, a Account, sweep bool) Plan {
	h := Sort(o, want, a)
	want = known(want, h)
	h = Sort(o, want, a) // now rules with known addresses may be found in the account
	seen := h
	d := &differ{
		h: h, want: want, account: a,
		replaced: make(map[Key]bool), steps: make(map[StepID]*Step), doomed: make(map[StepID]Found),
	}
	if sweep {
		d.sweep()
	}
	d.deletions()
	d.wants()
	d.claims()
	d.link()
	d.block()
	p := d.plan()
	p.holding = seen
	return p
}

// known returns want with addresses in the rules that name elastic addresses, once AWS
// has given them.
func known(want map[Key]Wanted, h Holding) map[Key]Wanted {
	out := make(map[Key]Wanted, len(want))
	for _, w := range want {
		if r, is := w.Object.(Rule); is && r.Elastic != (Ref{}) {
			if ip := h.Ours[r.Elastic.Key].Given.Address; ip.IsValid() {
				r.Elastic, r.Addresses = Ref{}, hostPrefix(ip)
				w.Object = r
			}
		}
		out[w.Object.Key()] = w
	}
	return out
}

// differ computes a Plan.
type differ struct {
	h       Holding
	want    map[Key]Wanted
	account Account
	// replaced are the keys of objects that the Plan deletes and creates again.
	replaced map[Key]bool
	steps    map[StepID]*Step
	// doomed are the objects that the Plan deletes, by their steps.
	doomed   map[StepID]Found
	skipped  []skippedPart
	problems []Problem
	blocked  []Blocker
}

// skippedPart is a part whose deletion is left out, because AWS deletes it with the
// object that it belongs to.
type skippedPart struct {
	part Object
	with StepID
}

func (d *differ) step(s Step) *Step {
	d.steps[s.StepID] = &s
	return &s
}

// wants plans creations and changes of wanted objects.
func (d *differ) wants() {
	for _, k := range slices.SortedFunc(maps.Keys(d.want), compareKeys) {
		w := d.want[k]
		have, there := d.h.Ours[k]
		if k == (Key{KindSecurityGroup, defaultGroup}) {
			continue // the group itself never changes, only its rules
		}
		switch {
		case !there || d.replaced[k]:
			d.create(k, w)
		case have.State == Deleting:
			d.step(Step{StepID: StepID{Verb: Wait, Key: k, ID: have.ID}, Have: have.Object, Current: have.ID, Summary: fmt.Sprintf("wait until %s %s is gone", k, have.ID)})
			d.create(k, w)
		default:
			d.change(k, w, have)
		}
	}
}

func (d *differ) create(k Key, w Wanted) {
	if r, is := w.Object.(Rule); is && r.Egress && r.Protocol == "-1" && d.h.Ours[r.Owner.Key].Object == nil {
		return // AWS gives a new group these rules
	}
	if d.taken(k, w.Object) {
		return
	}
	d.step(Step{StepID: StepID{Verb: Create, Key: k}, Want: w.Object, Tags: w.Tags, Calls: callsToCreate(w.Object), Token: Token(d.h.Owner, k), Summary: "create " + describe(w.Object)})
}

// taken reports whether a foreign object occupies the place of a new one, which is a
// problem.
func (d *differ) taken(k Key, o Object) bool {
	for _, f := range d.h.Foreign {
		why := ""
		switch o := o.(type) {
		case SecurityGroup:
			if x, is := f.Object.(SecurityGroup); is && x.Title == o.Title && x.VPC == o.VPC {
				why = fmt.Sprintf("%s in this VPC is called %s, too, and is not this cluster's; rename or delete it", f.ID, o.Title)
			}
		case Subnet:
			if x, is := f.Object.(Subnet); is && x.VPC == o.VPC && x.IPv4.IsValid() && o.IPv4.IsValid() && x.IPv4.Overlaps(o.IPv4) {
				why = fmt.Sprintf("%s of %s overlaps %s, and is not this cluster's; delete it, or choose another block", x.IPv4, f.ID, o.IPv4)
			}
		case InternetGateway:
			if x, is := f.Object.(InternetGateway); is && x.VPC == o.VPC {
				why = fmt.Sprintf("%s is attached to this VPC, and is not this cluster's; detach it", f.ID)
			}
		}
		if why != "" {
			d.problems = append(d.problems, Problem{k.String(), why})
			return true
		}
	}
	return false
}

func (d *differ) change(k Key, w Wanted, have Found) {
	want := settle(w.Object, have.Object)
	foreignRule := k.Kind == KindRule && !d.h.Owner.Owns(have.Tags)
	calls, ok := edits(have.Object, want)
	if foreignRule {
		calls, ok = nil, true // the foreign rule does what ours would
	}
	if !ok {
		d.problems = append(d.problems, Problem{k.String(), conflict(have, want)})
	}
	tags := missing(w.Tags, have.Tags)
	if k.Kind == KindAddress && have.Tags[KeptTag] == "true" && w.Tags[KeptTag] == "" {
		tags[KeptTag] = "false" // the spec no longer keeps addresses
	}
	if len(tags) > 0 && !foreignRule && k != (Key{KindSecurityGroup, defaultGroup}) {
		calls = append(calls, Call{Action: tagAction(k.Kind)})
	} else {
		tags = nil
	}
	if r, is := want.(Route); is && len(calls) == 0 && d.replaced[r.Via.Key] {
		calls = []Call{{Action: "ReplaceRoute"}} // to the gateway that comes in its place
	}
	if have.State == Pending {
		d.step(Step{StepID: StepID{Verb: Wait, Key: k, ID: have.ID}, Want: want, Have: have.Object, Current: have.ID, Summary: fmt.Sprintf("wait for %s %s", k, have.ID)})
	}
	if len(calls) > 0 {
		s := d.step(Step{StepID: StepID{Verb: Change, Key: k}, Want: want, Have: have.Object, Current: have.ID, Tags: tags, Calls: calls, Token: Token(d.h.Owner, k), Summary: "change " + difference(have, want, tags)})
		if have.State == Pending {
			s.Needs = append(s.Needs, StepID{Verb: Wait, Key: k, ID: have.ID})
		}
	}
}

// claims plans tags for objects that will be twins. The next plan deletes them.
func (d *differ) claims() {
	for _, f := range d.h.Claimed {
		k := f.Object.Key()
		d.step(Step{
			StepID: StepID{Verb: Change, Key: k, ID: f.ID}, Want: f.Object, Have: f.Object, Current: f.ID,
			Tags: missing(d.want[k].Tags, f.Tags), Calls: []Call{{Action: tagAction(k.Kind)}}, Summary: fmt.Sprintf("tag %s, which is one %s too many", f.ID, k.Kind),
		})
	}
}

// missing returns the tags of want that have does not have.
func missing(want, have map[string]string) map[string]string {
	tags := make(map[string]string)
	for k, v := range want {
		if is, there := have[k]; !there || is != v {
			tags[k] = v
		}
	}
	return tags
}

func tagAction(k Kind) string {
	switch k {
	case KindBalancer, KindTargetGroup, KindListener:
		return "AddTags"
	}
	return "CreateTags"
}

// deletions plans the deletion of objects that are not wanted or must be replaced.
func (d *differ) deletions() {
	for k, have := range d.h.Ours {
		w, wanted := d.want[k]
		if !wanted || have.State == Deleting {
			continue
		}
		if have.State == Failed {
			d.replaced[k] = true
		} else if _, ok := edits(have.Object, settle(w.Object, have.Object)); !ok && replaceable(k.Kind) {
			d.replaced[k] = true
		}
	}
	for k, have := range d.h.Ours { // AWS deletes a listener with its balancer
		if l, is := have.Object.(Listener); is && d.replaced[l.Balancer.Key] {
			d.replaced[k] = true
		}
	}
	for k, have := range d.h.Ours {
		if _, wanted := d.want[k]; (!wanted || d.replaced[k]) && !d.kept(k, have) {
			d.doom(k, have)
		}
	}
	twins := make(map[string]bool)
	for _, have := range d.h.Twins {
		d.doom(have.Object.Key(), have)
		twins[have.ID] = true
	}
	// A foreign rule in a group to be deleted may name another group to be deleted. AWS
	// refuses to delete the latter while the rule exists. The rules of twins name them by ID.
	goes := func(r Ref) bool { return r.ID == "" && d.isDoomed(r.Key) || twins[r.ID] }
	for _, f := range d.h.Foreign {
		if r, is := f.Object.(Rule); is && r.Group != (Ref{}) && goes(r.Owner) && goes(r.Group) && r.Owner != r.Group {
			d.doom(f.Object.Key(), f)
		}
	}
	d.skip()
}

// kept reports whether an object stays although it is not wanted.
func (d *differ) kept(k Key, have Found) bool {
	return k.Kind == KindAddress && have.Tags[KeptTag] == "true" || k == Key{KindSecurityGroup, defaultGroup}
}

func (d *differ) doom(k Key, have Found) {
	id := StepID{Verb: Delete, Key: k, ID: have.ID}
	if have.State == Deleting {
		id.Verb = Wait
		d.step(Step{StepID: id, Have: have.Object, Current: have.ID, Summary: fmt.Sprintf("wait until %s %s is gone", k, have.ID)})
		d.doomed[id] = have
		return
	}
	d.step(Step{StepID: id, Have: have.Object, Current: have.ID, Calls: callsToDelete(have.Object), Summary: fmt.Sprintf("delete %s %s", describe(have.Object), have.ID)})
	d.doomed[id] = have
}

// isDoomed reports whether the Plan deletes the object with a Key, and not only a twin
// of it.
func (d *differ) isDoomed(k Key) bool {
	have := d.h.Ours[k]
	_, doomed := d.doomed[StepID{Delete, k, have.ID}]
	return have.Object != nil && doomed
}

// skip leaves out the deletion of parts that AWS deletes with the object that they
// belong to.
func (d *differ) skip() {
	for id, have := range d.doomed {
		if id.Verb != Delete {
			continue
		}
		if r, is := have.Object.(Rule); is && r.Group != (Ref{}) && r.Group != r.Owner {
			continue
		}
		if whole := wholeOf(have.Object); d.isDoomed(whole.Key) {
			delete(d.steps, id)
			delete(d.doomed, id)
			d.skipped = append(d.skipped, skippedPart{have.Object, StepID{Delete, whole.Key, d.h.ID(whole.Key)}})
		}
	}
}

// plan returns the steps in an order in which each comes after those that it needs.
func (d *differ) plan() Plan {
	p := Plan{Foreign: d.h.Foreign, Blocked: d.blocked, Problems: d.problems, ours: d.h.Ours}
	done := make(map[StepID]bool)
	ids := slices.SortedFunc(maps.Keys(d.steps), compareSteps)
	for len(p.Steps) < len(ids) {
		before := len(p.Steps)
		for _, id := range ids {
			s := d.steps[id]
			if done[id] || slices.ContainsFunc(s.Needs, func(n StepID) bool { return !done[n] }) {
				continue
			}
			done[id] = true
			slices.SortFunc(s.Needs, compareSteps)
			s.Needs = slices.Compact(s.Needs)
			p.Steps = append(p.Steps, *s)
		}
		if len(p.Steps) == before {
			d.circle(ids, done)
			p.Problems = d.problems
			break
		}
	}
	slices.SortFunc(p.Problems, func(a, b Problem) int { return cmp.Compare(a.String(), b.String()) })
	return p
}

// circle reports the steps that need each other, for example when a balancer is in a
// subnet that must be deleted before its successor can be created. The Plan leaves them
// out.
func (d *differ) circle(ids []StepID, done map[StepID]bool) {
	for _, id := range ids {
		if !done[id] {
			d.problems = append(d.problems, Problem{id.Key.String(), fmt.Sprintf("cannot %s it: steps of this plan need each other in a circle; make the change in two parts, what is new first", id.Verb)})
		}
	}
}

func compareSteps(a, b StepID) int {
	order := []Verb{Wait, Create, Change, Delete}
	forward := cmp.Compare(slices.Index(order, a.Verb), slices.Index(order, b.Verb))
	keys := compareKeys(a.Key, b.Key)
	if a.Verb == Delete && b.Verb == Delete {
		keys = -keys
	}
	return cmp.Or(forward, keys, cmp.Compare(a.ID, b.ID))
}
