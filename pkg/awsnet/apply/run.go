package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// Change is one object of a call.
type Change struct {
	Step awsnet.Step
	// ID is the ID of the object, unless the call creates it.
	ID string
	// Object is what the call makes, or deletes, with IDs in its Refs. Have is what there is.
	Object, Have awsnet.Object
}

// Made is what a call created, in the order of its changes.
type Made struct {
	ID    string
	Given awsnet.Given
}

// Task is a call that can be made now. Tasks are independent of each other.
type Task struct {
	Call    awsnet.Call
	Changes []Change

	at int // which of the steps' calls it is
}

// Run is a Plan that is being carried out. It is not safe for concurrent use.
type Run struct {
	plan   awsnet.Plan
	binder *awsnet.Binder
	begun  map[awsnet.StepID]bool
	done   map[awsnet.StepID]bool
	failed map[awsnet.StepID]error
	next   []Task             // further calls of steps that have begun
	calls  int                // in flight
	waits  map[string]waiting // what steps wait for, by ID
}

// waiting is a step that waits until its object can be used, or is gone.
type waiting struct {
	step awsnet.Step
	gone bool
	// since is when Expire first saw it waiting.
	since time.Time
	// missing is set if the last reading lacked an object that was created, and missed is when
	// Expire first saw that.
	missing bool
	missed  time.Time
}

// New begins a Plan.
func New(p awsnet.Plan) *Run {
	return &Run{
		plan: p, binder: p.Binder(), begun: make(map[awsnet.StepID]bool), done: make(map[awsnet.StepID]bool), failed: make(map[awsnet.StepID]error),
		waits: make(map[string]waiting),
	}
}

// Next returns calls that can begin, no more than most. The caller makes each, and passes its
// result to Ended.
func (r *Run) Next(most int) (all []Task) {
	for len(r.next) > 0 && len(all) < most {
		all, r.next = append(all, r.next[0]), r.next[1:]
	}
	for {
		began := false
		for _, batch := range awsnet.Batches(awsnet.Ready(r.plan, r.done, r.begun)) {
			if len(batch[0].Calls) > 0 && len(all) >= most {
				continue
			}
			began = true
			for _, s := range batch {
				r.begun[s.StepID] = true
			}
			if len(batch[0].Calls) == 0 {
				r.waits[batch[0].Current] = waiting{step: batch[0], gone: batch[0].Want == nil}
				continue
			}
			t, err := r.task(batch)
			if err != nil {
				r.fail(batch, err)
				continue
			}
			all = append(all, t)
		}
		if !began {
			break
		}
	}
	r.calls += len(all)
	return all
}

// task returns the first call of steps that one call does.
func (r *Run) task(batch []awsnet.Step) (Task, error) {
	t := Task{Call: batch[0].Calls[0]}
	for _, s := range batch {
		c := Change{Step: s, ID: s.Current}
		if s.Have != nil {
			c.Have = r.binder.Have(s.Have)
		}
		if c.Object = c.Have; s.Verb != awsnet.Delete {
			var err error
			if c.Object, err = r.binder.Bind(s.Want); err != nil {
				return t, err
			}
		}
		t.Changes = append(t.Changes, c)
	}
	return t, nil
}

func (t Task) steps() (all []awsnet.Step) {
	for _, c := range t.Changes {
		all = append(all, c.Step)
	}
	return all
}

func (r *Run) fail(steps []awsnet.Step, err error) {
	for _, s := range steps {
		r.failed[s.StepID] = err
	}
}

// Ended takes the result of a call. Steps that need a failed one never begin; the rest goes on.
func (r *Run) Ended(t Task, made []Made, err error) {
	r.calls--
	if err == nil && len(made) != len(t.Changes) {
		err = fmt.Errorf("%s: %d results for %d objects", t.Call, len(made), len(t.Changes))
	}
	if err != nil {
		r.fail(t.steps(), err)
		return
	}
	for i, m := range made {
		if c := &t.Changes[i]; c.Step.Verb == awsnet.Create && t.at == 0 {
			c.ID = m.ID
			r.binder.Learn(c.Step.Key, m.ID, m.Given)
		}
	}
	if calls := t.Changes[0].Step.Calls; t.at+1 < len(calls) {
		t.at++
		t.Call = calls[t.at]
		r.next = append(r.next, t)
		return
	}
	for _, c := range t.Changes {
		if slow(c.Step) && c.ID != "" {
			r.waits[c.ID] = waiting{step: c.Step, gone: c.Step.Verb == awsnet.Delete}
			continue
		}
		r.done[c.Step.StepID] = true
	}
}

// slow reports whether AWS ends a step in the background, and other steps need its end.
func slow(s awsnet.Step) bool {
	switch s.Key.Kind {
	case awsnet.KindNATGateway, awsnet.KindBalancer, awsnet.KindBastion:
		return s.Verb == awsnet.Create || s.Verb == awsnet.Delete
	case awsnet.KindBlock:
		return s.Verb == awsnet.Create
	}
	return false
}

// Waiting returns the IDs of what steps wait for. The caller polls them, and passes what it read
// to Saw. Meanwhile other calls go on.
func (r *Run) Waiting() []string { return slices.Sorted(maps.Keys(r.waits)) }

// Saw takes a complete reading of objects that steps wait for. What it lacks does not exist, but
// what was just created may not be shown yet.
func (r *Run) Saw(ids []string, now map[string]awsnet.Found) {
	for _, id := range ids {
		w, waits := r.waits[id]
		f, shown := now[id]
		there := shown && f.State != awsnet.Gone
		switch {
		case !waits:
			continue
		case !w.gone && !shown:
			w.missing = true
			r.waits[id] = w
			continue
		case w.gone && there, !w.gone && f.State == awsnet.Pending:
			w.missing, w.missed = false, time.Time{}
			r.waits[id] = w
			continue
		case !w.gone && !there:
			r.failed[w.step.StepID] = &LostError{w.step.Key, id}
		case !w.gone && f.State != awsnet.Usable:
			r.failed[w.step.StepID] = &WaitError{w.step.Key, id, fmt.Sprintf("is %s: %s; run again to replace it", f.State, strings.TrimSpace(f.Why)), nil}
		default:
			if !w.gone {
				r.binder.Learn(w.step.Key, id, f.Given)
			}
			r.done[w.step.StepID] = true
		}
		delete(r.waits, id)
	}
}

// limits are how long a step may wait for AWS, by the kind of its object. AWS takes a minute or
// two for NAT gateways, and up to five for load balancers.
var limits = map[awsnet.Kind]time.Duration{
	awsnet.KindNATGateway: 15 * time.Minute, awsnet.KindBalancer: 15 * time.Minute, awsnet.KindBastion: 10 * time.Minute,
}

const (
	// otherLimit is the limit of other kinds.
	otherLimit = 5 * time.Minute
	// lostLimit is how long AWS may not show what it has created.
	lostLimit = 2 * time.Minute
)

// Expire fails the steps that wait for longer than AWS needs. The caller calls it after each poll.
// why is the error of that poll, or nil.
func (r *Run) Expire(at time.Time, why error) {
	for _, id := range r.Waiting() {
		w := r.waits[id]
		if w.since.IsZero() {
			w.since = at
		}
		if w.missing && w.missed.IsZero() {
			w.missed = at
		}
		r.waits[id] = w
		if w.missing && at.Sub(w.missed) >= lostLimit {
			r.failed[w.step.StepID] = &LostError{w.step.Key, id}
			delete(r.waits, id)
			continue
		}
		limit, has := limits[w.step.Key.Kind]
		if !has {
			limit = otherLimit
		}
		if at.Sub(w.since) < limit {
			continue
		}
		state := "cannot be used yet"
		if w.gone {
			state = "still exists"
		}
		r.failed[w.step.StepID] = &WaitError{w.step.Key, id, fmt.Sprintf("%s after %s, longer than AWS usually needs; look at it in AWS, and try again", state, at.Sub(w.since).Round(time.Second)), why}
		delete(r.waits, id)
	}
}

// WaitError is why AWS did not finish what it does in the background. Another try of the same
// plan does not help.
type WaitError struct {
	Key      awsnet.Key
	ID, Text string
	// Err is why the last read failed, or nil.
	Err error
}

func (e *WaitError) Error() string {
	text := fmt.Sprintf("%s %s %s", e.Key, e.ID, e.Text)
	if e.Err != nil {
		text += "; the last read failed: " + e.Err.Error()
	}
	return text
}

func (e *WaitError) Unwrap() error { return e.Err }

// IsWaitError reports whether err is a WaitError.
func IsWaitError(err error) bool { _, is := errors.AsType[*WaitError](err); return is }

// LostError says that an object does not exist although its creation succeeded: another program
// deleted it, or AWS repeated the answer to an earlier creation with the same client token, whose
// object is deleted. Another reading and plan helps.
type LostError struct {
	Key awsnet.Key
	ID  string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s %s does not exist any more, although AWS answered that it was created; creating another one", e.Key, e.ID)
}

// Progress is how far a Run is. It is a value that the Run does not change later.
type Progress struct {
	Steps, Done int
	Calls       int // in flight
	// Waiting are the IDs of what steps wait for.
	Waiting []string
	// Failed are the errors of steps, and Left how many steps cannot begin because of them.
	Failed []Failure
	Left   int
	// Open are the steps that are not done: those that failed, too.
	Open []awsnet.StepID
}

// Failure is a step that failed.
type Failure struct {
	Step awsnet.StepID
	Err  error
}

// Progress returns how far the Run is.
func (r *Run) Progress() Progress {
	p := Progress{Steps: len(r.plan.Steps), Done: len(r.done), Calls: r.calls, Waiting: r.Waiting()}
	lost := make(map[awsnet.StepID]bool)
	for _, s := range r.plan.Steps { // each comes after those that it needs
		if !r.done[s.StepID] {
			p.Open = append(p.Open, s.StepID)
		}
		if err := r.failed[s.StepID]; err != nil {
			p.Failed = append(p.Failed, Failure{s.StepID, err})
			lost[s.StepID] = true
		} else if slices.ContainsFunc(s.Needs, func(n awsnet.StepID) bool { return lost[n] }) {
			lost[s.StepID] = true
			p.Left++
		}
	}
	return p
}

// Over reports whether nothing is in flight, waits, or can begin.
func (p Progress) Over() bool {
	return p.Calls == 0 && len(p.Waiting) == 0 && p.Done+len(p.Failed)+p.Left == p.Steps
}
