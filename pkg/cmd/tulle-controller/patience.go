package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/controller/service"
)

// pace is how long a command reads.
type pace struct {
	// answer is how long the API server and the cloud may take for the next answer, and all
	// is the limit of the whole. tell is the time between two reports.
	answer, all, tell time.Duration
}

// readPace is that of commands that read the cluster. A cloud's budget lets details of
// hundreds of load balancers be read in minutes only.
var readPace = pace{answer: time.Minute, all: time.Hour, tell: 10 * time.Second}

// watch ends a reading when it has taken too long without an answer, or in all. Meanwhile it
// reports how far the reading is, which read returns. It returns when ctx ends.
func (limit pace) watch(ctx context.Context, read func(context.Context) progress, end context.CancelCauseFunc) {
	tick := time.NewTicker(min(limit.answer, limit.tell, time.Second) / 4)
	defer tick.Stop()
	began := time.Now()
	answered, told := began, began
	last := read(ctx)
	first := last
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, is := time.Now(), read(ctx)
		if is.answers != last.answers {
			answered = now
		}
		last = is
		switch {
		case now.Sub(answered) >= limit.answer:
			end(fmt.Errorf("no answer for %s", limit.answer))
			return
		case now.Sub(began) >= limit.all:
			end(fmt.Errorf("not all was read within %s", limit.all))
			return
		case now.Sub(told) >= limit.tell:
			told = now
			is.tell(now.Sub(began), is.details.Read-first.details.Read)
		}
	}
}

// progress is how far the reading of the cluster is.
type progress struct {
	answers int // of the cloud, and lists of the API server
	details service.Details
}

// progress returns how far the reading of the cluster is.
func (p *process) progress(ctx context.Context) (now progress) {
	r := p.readWith(ctx, false)
	for call, n := range r.calls {
		if call.Outcome == "ok" {
			now.answers += n
		}
	}
	for _, f := range r.state.Feeds {
		if f.Listed {
			now.answers++
		}
	}
	if p.services != nil {
		known := make(chan service.Details, 1)
		if p.engine.Do(ctx, func() { known <- p.services.Details() }) {
			now.details = <-known
		}
	}
	return now
}

// tell reports a progress. Since the beginning, a time ago, the details of so many objects
// were read.
func (now progress) tell(ago time.Duration, read int) {
	d := now.details
	if d.All == 0 || d.Read == d.All {
		klog.InfoS("Still reading the cluster", "for", ago.Round(time.Second), "answers", now.answers)
		return
	}
	left := "unknown"
	if read > 0 {
		left = (ago * time.Duration(d.All-d.Read) / time.Duration(read)).Round(time.Second).String()
	}
	klog.InfoS("Reading load balancers and target groups", "read", d.Read, "of", d.All, "left", left)
}

// because returns an error with the reason why the reading was ended, if that caused it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}
