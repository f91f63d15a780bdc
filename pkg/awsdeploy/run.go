package awsdeploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Result is how a run ended.
type Result struct {
	// View is the last reading. Its Plan lacks the steps that ended well since.
	View   awsnet.View
	Passes int
	// Done is how many steps ended well, in all passes.
	Done int
	// Failed are the failures of the last pass, and Left how many of its steps are left.
	Failed []apply.Failure
	Left   int
}

const (
	// mostRepeats limits how often a plan that failed nothing may come back unchanged: AWS may show
	// the changes late.
	mostRepeats = 4
	// mostRounds limits how many plans of one run may make progress: another program may undo a
	// different part of the network each time. The first mostSwift follow one another without a pause.
	mostRounds, mostSwift = 20, 3
)

// Build makes the account what a spec says. An error after changes is a *RunError.
func (d *Deployer) Build(ctx context.Context, s awsnet.Spec) (Result, error) {
	var before *awsnet.View
	return d.run(ctx, run{
		owner: awsnet.Owner{Cluster: s.Cluster, UID: s.UID},
		read: func(ctx context.Context) (awsnet.View, error) {
			v, err := d.read(ctx, s, before)
			if err == nil && before == nil {
				before = &v
			}
			return v, err
		},
		check: func(ctx context.Context, v awsnet.View) error {
			if d.o.AnyQuota {
				return nil
			}
			h, err := d.Headroom(ctx, v)
			if err == nil && len(h.Short()) > 0 {
				err = QuotaError{h}
			}
			return err
		},
	})
}

// Destroy deletes a cluster's network. What holds a part of it is in the Result's View, and the
// error names it.
func (d *Deployer) Destroy(ctx context.Context, e End) (Result, error) {
	return d.run(ctx, run{
		owner:  e.Owner,
		linger: d.o.Linger,
		read:   func(ctx context.Context) (awsnet.View, error) { return d.ReadEnd(ctx, e) },
		check: func(ctx context.Context, v awsnet.View) error {
			if d.o.Approve == nil {
				return nil
			}
			return d.o.Approve(ctx, v)
		},
	})
}

// run is what Build and Destroy have in common.
type run struct {
	owner awsnet.Owner
	read  func(context.Context) (awsnet.View, error)
	// check refuses a plan before its first call.
	check func(context.Context, awsnet.View) error
	// linger is how long to wait for the end of what holds something.
	linger time.Duration
}

// run repeats passes until nothing is left to do, or nothing more can be done.
func (d *Deployer) run(ctx context.Context, u run) (r Result, err error) {
	report := func(p Progress) {
		if p.Pass = r.Passes; d.o.Report != nil {
			d.o.Report(p)
		}
	}
	moved, failures, repeats, rounds, begun := time.Now(), 0, 0, 0, false
	var last []string // what the last pass did
	for {
		r.Passes++
		report(Progress{Doing: Reading})
		v, err := u.read(ctx)
		switch {
		case ctx.Err() != nil:
			return r, &RunError{Result: r, Err: interrupted(ctx)}
		case err != nil && passes(err) && !isSpec(err) && time.Since(moved) < d.patience(begun, err):
			failures++
			report(Progress{Doing: Waiting, Why: err.Error()})
			if d.o.Retry.Sleep(ctx, failures) != nil {
				return r, &RunError{Result: r, Err: interrupted(ctx)}
			}
			continue
		case err != nil && passes(err) && !isSpec(err) && !begun:
			return r, fmt.Errorf("%w; nothing was changed", err)
		case err != nil:
			return r, r.because(err)
		}
		r.View, r.Failed, r.Left = v, nil, 0
		if len(v.Plan.Steps) == 0 {
			if len(v.Plan.Blocked) == 0 || r.Done == 0 || time.Since(moved) > u.linger {
				return r, r.because(open(v))
			}
			failures++
			report(Progress{Doing: Waiting, Why: v.Plan.Blocked[0].By})
			if retry.Sleep(ctx, d.o.Retry.After(failures)) != nil {
				return r, &RunError{Result: r, Err: interrupted(ctx)}
			}
			continue
		}
		if !begun {
			if err := u.check(ctx, v); err != nil {
				return r, r.because(err)
			}
			moved, begun = time.Now(), true // a person may have thought about it
		}
		if rounds == mostRounds {
			r.Left = len(v.Plan.Steps)
			return r, &RunError{Result: r, Err: fmt.Errorf("%d rounds of changes did not suffice: %q is still to do; another program may undo them", rounds, v.Plan.Steps[0].Summary)}
		}
		p := apply.Apply(ctx, v.Plan, caller{d.cloud.NetworkChanger(u.owner), d.o.Called}, apply.Options{
			Most: d.o.Most, Poll: d.o.Poll, Report: func(p apply.Progress) { report(Progress{Doing: Applying, Plan: p}) },
		})
		r.Done += p.Done
		r.Failed, r.Left = p.Failed, p.Steps-p.Done
		r.View.Plan.Steps = stepsOf(v.Plan, p.Open)
		if p.Done > 0 {
			moved = time.Now()
			rounds++
		}
		switch {
		case ctx.Err() != nil:
			return r, &RunError{Result: r, Err: interrupted(ctx)}
		case len(p.Failed) == 0:
			failures = 0
			if now := summaries(v.Plan); slices.Equal(now, last) {
				repeats++
			} else {
				repeats, last = 0, now
			}
			if repeats > mostRepeats {
				r.View = v // the steps came back each time
				return r, &RunError{Result: r, Err: fmt.Errorf("AWS took %s %d times, and still shows no effect: %q; another program may undo it", plural(len(last), "change"), repeats+1, last[0])}
			}
			if pause := max(repeats, rounds-mostSwift); pause > 0 && d.o.Retry.Sleep(ctx, pause) != nil {
				return r, &RunError{Result: r, Err: interrupted(ctx)}
			}
			continue
		case !slices.ContainsFunc(p.Failed, func(f apply.Failure) bool { return passes(f.Err) }) || time.Since(moved) > d.o.Patience:
			return r, &RunError{Result: r, Err: errors.New(plural(len(p.Failed), "step") + " failed")}
		}
		failures++
		report(Progress{Doing: Waiting, Plan: p, Why: p.Failed[0].Err.Error()})
		if d.o.Retry.Sleep(ctx, failures) != nil {
			return r, &RunError{Result: r, Err: interrupted(ctx)}
		}
	}
}

// stepsOf returns some of a plan's steps.
func stepsOf(p awsnet.Plan, some []awsnet.StepID) []awsnet.Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s awsnet.Step) bool { return !slices.Contains(some, s.StepID) })
}

// summaries returns the steps of a plan for people.
func summaries(p awsnet.Plan) (all []string) {
	for _, s := range p.Steps {
		all = append(all, s.Summary)
	}
	return all
}

func isSpec(err error) bool { _, is := errors.AsType[SpecError](err); return is }

// because returns an error as it is before the first change, and otherwise with the Result.
func (r Result) because(err error) error {
	if err == nil || r.Done+len(r.Failed) == 0 {
		return err
	}
	return &RunError{Result: r, Err: err}
}

// open returns what no step can change, or nil.
func open(v awsnet.View) error {
	var lines []string
	for _, p := range v.Plan.Problems {
		lines = append(lines, p.String())
	}
	for _, b := range v.Plan.Blocked {
		lines = append(lines, b.By)
	}
	if len(lines) == 0 {
		return nil
	}
	return &OpenError{Problems: v.Plan.Problems, Blocked: v.Plan.Blocked, text: strings.Join(lines, "\n  ")}
}

// OpenError says what is left that no step can change.
type OpenError struct {
	Problems []awsnet.Problem
	Blocked  []awsnet.Blocker
	text     string
}

func (e *OpenError) Error() string {
	return plural(len(e.Problems)+len(e.Blocked), "object") + " cannot be made what the spec says:\n  " + e.text
}

// errInterrupted is the end of a run by a signal.
var errInterrupted = errors.New("interrupted")

func interrupted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("the time limit is over")
	}
	return errInterrupted
}

// RunError is why a run ended before everything was done. The next run continues.
type RunError struct {
	Result
	Err error
}

func (e *RunError) Unwrap() error { return e.Err }

func (e *RunError) Error() string {
	text := e.Err.Error()
	for _, f := range e.Failed {
		text += fmt.Sprintf("\n  %s %s: %v", f.Step.Verb, f.Step.Key, f.Err)
	}
	if n := e.Left - len(e.Failed); n > 0 {
		text += fmt.Sprintf("\n%s left to do", plural(n, "further step"))
	}
	return text
}
