package lifecycle

import (
	"cmp"
	"fmt"
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
	// Observed is a Node about which not enough answers agree yet.
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
)

// Reasons are all of these.
var Reasons = []Why{Due, Observed, Doubted, Vanished, Unread, Most, Limited}

// IsHeld reports whether a person may have to decide.
func (w Why) IsHeld() bool { return w != Due && w != Observed && w != Vanished }

// verdict is what happens to a Node whose instance is gone.
type verdict struct {
	*subject
	why   Why
	text  string
	until time.Time // when it may be another, without a round; zero is unknown
}

// verdicts returns what happens to the Nodes whose instances are gone, those that are
// gone the longest first. flying are deletions in flight.
func (j *judge) verdicts(now time.Time, flying int) (all []verdict) {
	nodes := 0
	for _, s := range j.subjects {
		if !s.deleting {
			nodes++
		}
		if s.gone != nil {
			all = append(all, verdict{subject: s})
		}
	}
	slices.SortFunc(all, func(a, b verdict) int {
		return cmp.Or(a.gone.first.Compare(b.gone.first), cmp.Compare(a.name, b.name))
	})
	most := 2*len(all) > nodes
	allowed, free := j.allowed(nodes, now, flying)
	for i := range all {
		v := &all[i]
		v.why, v.text, v.until = j.judge(v.subject, now)
		switch {
		case v.why != Due:
		case most:
			v.why = Most
			v.text = fmt.Sprintf("the cloud says that the instances of %d of %d Nodes are gone, and so many are not deleted; if that is true, delete the Nodes yourself", len(all), nodes)
		case allowed <= 0:
			v.why, v.until = Limited, free
			v.text = fmt.Sprintf("%d Nodes were deleted within the hour, and --node-deletion-limit=%d%% allows no more of %d; raise it, or delete the Node yourself", len(j.deleted), j.rules.Limit, nodes)
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
	case j.doubt != "":
		return Doubted, "the last answer of the cloud decides nothing: " + j.doubt, until
	case e.unread != nil:
		return Unread, fmt.Sprintf("the kubelet's Lease cannot be read: %v; allow get on leases in the namespace %s", e.unread, leaseNamespace), until
	case e.answers < enoughAnswers, e.last.Sub(e.first) < enoughTime, e.last.Before(j.began.Add(enoughTime)):
		return Observed, fmt.Sprintf("its instance is %s; it is deleted if the cloud says so for %s and in %d answers", e.text(s.state), enoughTime, enoughAnswers), until
	case !e.terminated && e.last.Sub(e.first) < j.rules.Remembers:
		return Vanished, fmt.Sprintf("the cloud shows no instance since %s, though it shows terminated ones for %s; the Node is deleted if there is none at %s",
			clock(e.first), j.rules.Remembers, clock(e.first.Add(j.rules.Remembers))), until
	case now.Sub(e.last) > longestGap:
		return Doubted, "the last answer of the cloud is of " + clock(e.last), until
	}
	return Due, "", until
}

// text describes what was seen.
func (e *evidence) text(s cloud.State) string {
	return fmt.Sprintf("%s, in %d answers since %s", s, e.answers, clock(e.first))
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + " UTC" }

// allowed returns how many more Nodes may be deleted now, and when that changes.
func (j *judge) allowed(nodes int, now time.Time, flying int) (n int, again time.Time) {
	j.deleted = slices.DeleteFunc(j.deleted, func(at time.Time) bool { return now.Sub(at) >= fullHour })
	if len(j.deleted) > 0 {
		again = slices.MinFunc(j.deleted, time.Time.Compare).Add(fullHour)
	}
	if j.rules.Limit <= 0 {
		return 0, again
	}
	// Those that were deleted count among the Nodes, so that the limit does not shrink.
	return max(1, (nodes+len(j.deleted))*j.rules.Limit/100) - len(j.deleted) - flying, again
}
