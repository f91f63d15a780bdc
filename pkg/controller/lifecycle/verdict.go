package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Why is what a Node whose instance is gone waits for.
type Why string

// The reasons.
const (
	// Due is a Node to delete now.
	Due Why = "due"
	// Observed is a Node about which not enough answers agree yet, or while too little is
	// known about the deletions of the last hour.
	Observed Why = "observed"
	// Doubted is a Node about which the last round decided nothing.
	Doubted Why = "doubted"
	// Vanished is a Node whose instance is absent, and was never shown as terminated.
	Vanished Why = "vanished"
	// Unread is a Node whose Lease cannot be read.
	Unread Why = "unread"
	// Most is a Node while most Nodes seem to be gone.
	Most Why = "most-gone"
	// Limited is a Node beyond the limit of an hour.
	Limited Why = "limit"
	// Outlived is a Node under which a kubelet worked after its instance was gone.
	Outlived Why = "outlived"
)

// Reasons are all of these.
var Reasons = []Why{Due, Observed, Doubted, Vanished, Unread, Most, Limited, Outlived}

// IsHeld reports whether a person may have to decide.
func (w Why) IsHeld() bool { return w != Due && w != Observed && w != Vanished }

// verdict is what happens to a Node whose instance is gone.
type verdict struct {
	*subject
	why   Why
	text  string
	until time.Time // when it may be another, without a round; zero is unknown
}

// suspected reports whether there is something to decide about a Node.
func (s *subject) suspected() bool {
	return s != nil && !s.deleting && (s.isHeld() || s.gone != nil && !s.ready)
}

// since returns since when the instance is gone, or zero.
func (s *subject) since() time.Time {
	if s.gone == nil {
		return time.Time{}
	}
	return s.gone.first
}

// verdicts returns what happens to the Nodes whose instances are gone, those that are
// gone the longest first. flying are deletions in flight.
func (j *judge) verdicts(now time.Time, flying int) (all []verdict) {
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
	allowed, free := j.allowed(nodes, now, flying)
	for i := range all {
		v := &all[i]
		v.why, v.text, v.until = j.judge(v.subject, now)
		switch {
		case v.why != Due:
		case most:
			v.why = Most
			v.text = fmt.Sprintf("the cloud says that the instances of %d of %d Nodes are gone, and so many are not deleted; if that is true, delete the Nodes yourself", gone, nodes)
		case j.rules.Limit > 0 && now.Sub(j.follows) < j.rules.Times.Hour:
			v.why, v.until = Observed, j.follows.Add(j.rules.Times.Hour)
			v.text = fmt.Sprintf("its instance is %s; this process watches Nodes since %s, and deletes none in its first hour: it cannot know what was deleted before",
				v.gone.text(v.state), clock(j.follows))
		case allowed <= 0:
			v.why, v.until = Limited, free
			v.text = fmt.Sprintf("%d Nodes that were not ready were deleted within the hour, and --node-deletion-limit=%d%% allows no more of %d; raise it, or delete the Node yourself", len(j.deleted), j.rules.Limit, nodes)
		default:
			allowed--
			v.text = "its instance is " + v.gone.text(v.state)
		}
	}
	return all
}

// judge returns what happens to one Node, the limits of all left aside.
func (j *judge) judge(s *subject, now time.Time) (why Why, text string, until time.Time) {
	e := s.gone
	switch {
	case s.isHeld():
		return Outlived, s.held(), until
	case j.doubt != "":
		return Doubted, "the last answer of the cloud decides nothing: " + j.doubt, until
	case e.unread != nil:
		return Unread, fmt.Sprintf("the kubelet's Lease cannot be read: %v; allow get on leases in the namespace %s", e.unread, leaseNamespace), until
	case j.blind != "" && !e.terminated:
		return Doubted, fmt.Sprintf("the cloud shows no instance of Node %s either, which is ready; check the account, the region and the permissions, or the providerID of Node %s", j.blind, j.blind), until
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

// text describes what was seen.
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

// allowed returns how many more Nodes may be deleted now, and when that changes. Nodes
// that others deleted count too: an earlier leader may have.
func (j *judge) allowed(nodes int, now time.Time, flying int) (n int, again time.Time) {
	j.outdate(now)
	for _, at := range j.deleted {
		if free := at.Add(j.rules.Times.Hour); again.IsZero() || free.Before(again) {
			again = free
		}
	}
	if j.rules.Limit <= 0 {
		return 0, again
	}
	// Those that were deleted count among the Nodes, so that the limit does not shrink.
	return max(1, (nodes+len(j.deleted))*j.rules.Limit/100) - len(j.deleted) - flying, again
}

// outdate forgets the deletions that are an hour old.
func (j *judge) outdate(now time.Time) {
	maps.DeleteFunc(j.deleted, func(_ string, at time.Time) bool { return now.Sub(at) >= j.rules.Times.Hour })
}

// lasts reports whether what holds a Node back has lasted: one error is none to report.
func (j *judge) lasts(v verdict, now time.Time) bool {
	switch {
	case v.why == Doubted && !j.since.IsZero():
		return now.Sub(j.since) >= j.rules.Times.Gap
	case v.why == Unread:
		return now.Sub(v.gone.last) >= j.rules.Times.Gap
	}
	return true
}
