package controller

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// backoff paces all writes while the server fails.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: 10 * time.Second}

// patience limits a pause that the server asks for.
const patience = 5 * time.Minute

// mostRecent is how many of the last writes State shows.
const mostRecent = 20

// writer is the loop's state of the writes.
type writer struct {
	inFlight int
	inCloud  map[string]int      // those of PlanCloud, by controller
	paused   time.Time           // until then no write begins
	failures int                 // of the server, in a row
	failed   time.Time           // when the last of them was counted
	denied   map[string]*denials // by controller
	unsure   time.Time           // when a write last ended without an answer
	context  context.Context
	cancel   context.CancelFunc // ends the writes in flight
	idle     chan<- bool        // waits for the last write of a term that is over

	counts  map[Count]int
	recent  []Made
	outcome trouble.Outcome
	refused trouble.Outcome // of the writes that get a final answer
	cloud   trouble.Outcome // of the writes to a cloud
	seconds Seconds
}

func newWriter() writer {
	return writer{
		cancel: func() {}, counts: make(map[Count]int), inCloud: make(map[string]int),
		outcome: trouble.Outcome{Failed: "Failed to write to the API server; retrying", Works: "Writing to the API server works again"},
		refused: trouble.Outcome{Failed: "The API server refused a write; retrying"},
		cloud:   trouble.Outcome{Failed: "Failed to change the cloud; retrying", Works: "Changing the cloud works again"},
	}
}

// begin resets the writer for a new term.
func (w *writer) begin() {
	w.cancel()
	w.context, w.cancel = context.WithCancel(context.Background())
	w.paused, w.failures, w.failed, w.idle = time.Time{}, 0, time.Time{}, nil
	w.denied = make(map[string]*denials)
}

// begin begins a write. cloud is set for a write from PlanCloud, which counts separately.
func (e *Engine) begin(c Controller, w Write, cloud bool) {
	if cloud {
		e.writer.inCloud[c.Name()]++
	} else {
		e.writer.inFlight++
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(e.writer.context, cmp.Or(w.Within, e.options.WriteTimeout))
	e.writes.Go(func() {
		defer cancel()
		err := w.Do(ctx)
		e.post(func() {
			if cloud {
				e.writer.inCloud[c.Name()]--
			} else {
				e.writer.inFlight--
			}
			e.end(c, w, began, err)
		})
	})
}

// end records a write's outcome.
func (e *Engine) end(c Controller, w Write, began time.Time, err error) {
	now := time.Now()
	how := outcomeOf(w, err)
	e.writer.took(w, how, began, now, err)
	switch {
	case w.Cloud:
	case how == Failed:
		e.writer.pause(began, now, err)
	default:
		e.writer.failures = 0
		e.writer.answered(w, now, err)
	}
	if !w.Cloud && kube.OutcomeOf(err) == kube.Ambiguous {
		e.writer.unsure = now
	}
	if how != Begun && how != Throttled && !kube.Moved(err) { // a conflict shows nothing about the server
		e.writer.log(w, how, err)
	}
	klog.V(1).InfoS("Wrote", "object", w.Object.String(), "verb", w.Verb, "change", w.Summary, "outcome", how, "took", now.Sub(began))
	c.Done(w, err)
	e.reportIdle(now)
}

// reportIdle reports the end of a term's last write, and whether a late write can no
// longer do harm.
func (e *Engine) reportIdle(now time.Time) {
	w := &e.writer
	if w.idle == nil || w.inFlight+w.cloudInFlight() > 0 {
		return
	}
	clean := w.unsure.IsZero() || now.Sub(w.unsure) >= settleTime
	for _, c := range e.controllers {
		clean = clean && c.Clean()
	}
	w.idle <- clean
	w.idle = nil
	w.cancel()
}

// cloudInFlight returns how many writes of PlanCloud are in flight.
func (w *writer) cloudInFlight() (n int) {
	for _, of := range w.inCloud {
		n += of
	}
	return n
}

// pause stops all writes for as long as the server asks, or for a back-off that grows with
// the failures in a row. Writes that were in flight together fail once.
func (w *writer) pause(began, now time.Time, err error) {
	if began.After(w.failed) {
		w.failures, w.failed = w.failures+1, now
	}
	d := backoff.After(w.failures)
	if refused, ok := errors.AsType[*kube.Error](err); ok && refused.After > 0 {
		after := min(refused.After, patience)
		d = max(d, after+rand.N(after/4+1))
	}
	if until := now.Add(d); until.After(w.paused) {
		w.paused = until
	}
}

// log logs the first of several failed writes, and the first success after them.
func (w *writer) log(what Write, how Outcome, err error) {
	facts := []any{"object", what.Object.String(), "verb", what.Verb, "change", what.Summary}
	switch {
	case what.Cloud:
		w.cloud.Was(err, facts...)
	case how == Failed:
		w.outcome.Was(explain(err), facts...)
	default:
		// A server that denies a write may still be unable to make any.
		if err == nil || concernsObject(err) {
			w.outcome.Was(nil, facts...)
		}
		w.refused.Was(explain(err), facts...)
	}
}

// answered records a final answer to a write.
func (w *writer) answered(what Write, now time.Time, err error) {
	d := w.denied[what.Controller]
	if d == nil {
		d = new(denials)
		w.denied[what.Controller] = d
	}
	switch {
	case err == nil:
		d.clear(what.Object)
	case !concernsObject(err):
		d.add(what.Object, now)
	}
}

// pausedUntil returns when the next write of a controller may begin. For "", it returns when
// every controller may write.
func (w *writer) pausedUntil(controller string) time.Time {
	until := w.paused
	for name, d := range w.denied {
		if (controller == "" || name == controller) && d.until.After(until) {
			until = d.until
		}
	}
	return until
}

// took records a write that ended.
func (w *writer) took(what Write, how Outcome, began, now time.Time, err error) {
	w.counts[Count{what.Controller, what.Verb, how}]++
	w.seconds.add(now.Sub(began))
	made := Made{At: now, Object: what.Object.String(), Change: what.Verb + ": " + what.Summary, Outcome: how}
	if err != nil {
		made.Why = err.Error()
	}
	if len(w.recent) == mostRecent {
		w.recent = append(w.recent[:0], w.recent[1:]...)
	}
	w.recent = append(w.recent, made)
}

// Outcome is how a write ended.
type Outcome string

// The outcomes.
const (
	Written Outcome = "written"
	// Refused is a write that was not made, and that the same server would refuse again.
	Refused Outcome = "refused"
	// Failed is a write that the server could not make or did not answer.
	Failed Outcome = "failed"
	// Begun is a write that the cloud has begun and not finished in time.
	Begun Outcome = "begun"
	// Throttled is a write that was not made, because it exceeds the rate of requests that
	// the cloud allows, or that the program allows itself.
	Throttled Outcome = "throttled"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Written, Refused, Failed, Begun, Throttled} }

// outcomeOf returns how a write ended.
func outcomeOf(w Write, err error) Outcome {
	if err == nil {
		return Written
	}
	if w.Cloud {
		switch cloud.KindOf(err) {
		case cloud.Pending:
			return Begun
		case cloud.Throttled:
			return Throttled
		case cloud.Refused, cloud.Missing, cloud.Changed, cloud.Taken, cloud.Full:
			return Refused
		}
		return Failed
	}
	if serverFailed(err) {
		return Failed
	}
	return Refused
}

// serverFailed reports whether a server could not make a write, or did not answer it.
func serverFailed(err error) bool {
	return kube.OutcomeOf(err) != kube.Refused || kube.Code(err) == http.StatusTooManyRequests
}

// concernsObject reports whether a server refused a write because of the object, which does
// not allow it or is not in the required state.
func concernsObject(err error) bool {
	switch kube.Code(err) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}
