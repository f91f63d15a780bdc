package apply

import (
	"context"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Client makes the calls of a Plan.
type Client interface {
	// Change makes one call. The result has one element for each change.
	Change(ctx context.Context, call awsnet.Call, all []Change) ([]Made, error)
	// Now returns the state of objects, by ID. What is missing in the result does not exist.
	Now(ctx context.Context, ids []string) (map[string]awsnet.Found, error)
}

// Options are the limits of Apply.
type Options struct {
	// Most is how many calls are in flight at once, at least 1.
	Most int
	// Poll paces the reads of what steps wait for. It begins again when more waits.
	Poll retry.Backoff
	// Report takes each new Progress, if it is set. It must not block.
	Report func(Progress)
}

// ended is the result of a call, and seen that of a read.
type (
	ended struct {
		task Task
		made []Made
		err  error
	}
	seen struct {
		ids []string
		now map[string]awsnet.Found
		err error
	}
)

// grace is how long calls in flight may take after ctx has ended.
const grace = 15 * time.Second

// Apply carries out a Plan until nothing of it can go on, or until ctx ends. Then it begins no
// call, and waits up to grace for those in flight: their results may be new objects. It repeats
// failed polls until Expire fails the steps that wait.
func Apply(ctx context.Context, p awsnet.Plan, c Client, o Options) Progress {
	r := New(p)
	calls, reads := make(chan ended), make(chan seen)
	poll := time.NewTimer(time.Hour)
	poll.Stop()
	reading, armed, due, polls := false, false, false, 0
	defer poll.Stop()
	var last []string // what waited at the last read
	stop := ctx.Done()
	inFlight, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for {
		if ctx.Err() == nil {
			for _, t := range r.Next(max(1, o.Most) - r.calls) {
				go func() {
					made, err := c.Change(inFlight, t.Call, t.Changes)
					calls <- ended{t, made, err}
				}()
			}
			ids := r.Waiting()
			if !reading && !armed && !due && len(ids) > 0 {
				if polls++; slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(last, id) }) {
					polls = 1
				}
				armed = true
				poll.Reset(o.Poll.After(polls))
			}
			if due = due && len(ids) > 0; due {
				reading, due, last = true, false, ids
				go func() {
					now, err := c.Now(ctx, ids)
					reads <- seen{ids, now, err}
				}()
			}
		}
		now := r.Progress()
		if o.Report != nil {
			o.Report(now)
		}
		if !reading && now.Calls == 0 && (len(now.Waiting) == 0 || ctx.Err() != nil) { // nothing more can begin
			return now
		}
		select {
		case e := <-calls:
			r.Ended(e.task, e.made, e.err)
		case s := <-reads:
			if reading = false; s.err == nil {
				r.Saw(s.ids, s.now)
			}
			r.Expire(time.Now(), s.err)
		case <-poll.C:
			armed, due = false, true
		case <-stop:
			stop = nil
			defer time.AfterFunc(grace, cancel).Stop()
		}
	}
}
