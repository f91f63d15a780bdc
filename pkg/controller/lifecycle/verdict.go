package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Why is the reason for which a Node whose instance is gone is deleted or not.
type Why string

// The reasons.
const (
	// Due means that the Node is deleted now.
	Due Why = "due"
	// Observed means that not enough answers agree yet, or that this process has not
	// watched the Nodes for an hour.
	Observed Why = "observed"
	// Doubted means that the last round was not credible.
	Doubted Why = "doubted"
	// Vanished means that the instance is absent, and was never shown as terminated.
	Vanished Why = "vanished"
	// Unread means that the Node's Lease cannot be read.
	Unread Why = "unread"
	// Most means that most Nodes seem to be gone.
	Most Why = "most-gone"
	// Limited means that the limit of an hour is used up.
	Limited Why = "limit"
	// Outlived means that a kubelet has used the Node after its instance was gone.
	Outlived Why = "outlived"
)

// Reasons are all reasons.
var Reasons = []Why{Due, Observed, Doubted, Vanished, Unread, Most, Limited, Outlived}

// IsHeld reports whether the deletion may wait for the decision of a person.
func (w Why) IsHeld() bool { return w != Due && w != Observed && w != Vanished }

// verdict is the decision about a Node whose instance is gone.
type verdict struct {
	*subject
	why   Why
	text  string
	until time.Time // the time at which it may change without a round, or zero
}

// suspected reports whether a Node needs a verdict.
func (s *subject) suspected() bool {
	return s != nil && !s.deleting && (s.isHeld() || s.gone != nil && !s.ready)
}

// since returns the time at which the instance was first seen as gone, or zero.
func (s *subject) since() time.Time {
	if s.gone == nil {
		return time.Time{}
	}
	return s.gone.first
}

// verdicts returns the verdicts of all Nodes whose instances are gone, in the order in which
// that was first seen. inFlight is the number of deletions in flight.
func (j *judge) verdicts(now time.Time, inFlight int) (all []verdict) {
	gone := 0
	for name := range j.suspects {
		switch s := j.subjects[name]; {
		case s.suspected():
			all = append(all, verdict{subject: s})
			if s.gone != nil && !s.ready {
				gone++
			}
		case s == nil || s.gone == nil && !s.isHeld():
			delete(j.suspects, name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b verdict) int {
		return cmp.Or(a.since().Compare(b.since()), cmp.Compare(a.name, b.name))
	})
	nodes := j.lasting
	most := 2*gone > nodes
	allowed, free := j.allowed(nodes, now, inFlight)
	for i := range all {
		v := &all[i]
		v.why, v.text, v.until = j.judge(v.subject, now)
		switch {
		case v.why != Due:
		case most:
			v.why = Most
			v.text = fmt.Sprintf("the cloud says that the instances of %d of %d Nodes are gone, and so many are not deleted; if that is true, delete the Nodes yourself", gone, nodes)
		case j.rules.Limit > 0 && now.Sub(j.watching) < j.rules.Times.Hour:
			v.why, v.until = Observed, j.watching.Add(j.rules.Times.Hour)
			v.text = fmt.Sprintf("its instance is %s; this process watches Nodes since %s, and deletes none in its first hour: it cannot know what was deleted before",
				v.gone.text(v.state), clock(j.watching))
		case allowed <= 0:
			v.why, v.until = Limited, free
			v.text = fmt.Sprintf("%d Nodes that were not ready were deleted within the hour, and %s=%d%% allows no more of %d; raise it, or delete the Node yourself", len(j.deleted), cmp.Or(j.rules.LimitName, "the limit"), j.rules.Limit, nodes)
		default:
			allowed--
			v.text = "its instance is " + v.gone.text(v.state)
		}
	}
	return all
}

// judge returns the verdict of one Node, without the limits that apply to all Nodes together.
func (j *judge) judge(s *subject, now time.Time) (why Why, text string, until time.Time) {
	e := s.gone
	switch {
	case s.isHeld():
		return Outlived, s.held(), until
	case j.doubt != "":
		return Doubted, "the last answer of the cloud decides nothing: " + j.doubt, until
	case e.unread != nil:
		return Unread, fmt.Sprintf("the kubelet's Lease cannot be read: %v; allow get on leases in the namespace %s", e.unread, leaseNamespace), until
	case j.absentReady != "" && !e.terminated:
		return Doubted, fmt.Sprintf("the cloud shows no instance of Node %s either, which is ready; check the account, the region and the permissions, or the providerID of Node %s", j.absentReady, j.absentReady), until
	case !e.isEnough(j.rules.Times.Enough), e.last.Before(j.began.Add(j.rules.Times.Enough)):
		return Observed, fmt.Sprintf("its instance is %s; it is deleted if the cloud says so for %s and in %d answers", e.text(s.state), j.rules.Times.Enough, enoughAnswers), until
	case !e.terminated && e.last.Sub(e.first) < j.rules.Remembers:
		return Vanished, fmt.Sprintf("the cloud shows no instance since %s, though it shows terminated ones for %s; the Node is deleted if there is none at %s",
			clock(e.first), j.rules.Remembers, clock(e.first.Add(j.rules.Remembers))), until
	case now.Sub(e.last) > j.rules.Times.Gap:
		return Doubted, "the last answer of the cloud is of " + clock(e.last), until
	}
	return Due, "", until
}

// text describes the evidence.
func (e *evidence) text(s cloud.State) string {
	return fmt.Sprintf("%s, in %s since %s", s, answers(e.answers), clock(e.first))
}

func answers(n int) string {
	if n == 1 {
		return "1 answer"
	}
	return fmt.Sprint(n, " answers")
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + " UTC" }

// allowed returns how many more Nodes may be deleted now, and when that number may grow. It
// counts the deletions of all programs, because an earlier leader may have made them.
func (j *judge) allowed(nodes int, now time.Time, inFlight int) (n int, again time.Time) {
	j.outdate(now)
	for _, at := range j.deleted {
		if free := at.Add(j.rules.Times.Hour); again.IsZero() || free.Before(again) {
			again = free
		}
	}
	if j.rules.Limit <= 0 {
		return 0, again
	}
	// Deleted Nodes count among the Nodes, so that the limit does not shrink.
	return max(1, (nodes+len(j.deleted))*j.rules.Limit/100) - len(j.deleted) - inFlight, again
}

// outdate drops the deletions that are an hour old.
func (j *judge) outdate(now time.Time) {
	maps.DeleteFunc(j.deleted, func(_ string, at time.Time) bool { return now.Sub(at) >= j.rules.Times.Hour })
}

// lasts reports whether the reason for a verdict has lasted long enough for an event. A single
// error causes none.
func (j *judge) lasts(v verdict, now time.Time) bool {
	switch {
	case v.why == Doubted && !j.since.IsZero():
		return now.Sub(j.since) >= j.rules.Times.Gap
	case v.why == Unread:
		return now.Sub(v.gone.last) >= j.rules.Times.Gap
	}
	return true
}
