package lifecycle

import "time"

// enoughAnswers is the number of answers in a row that must show an instance as gone.
const enoughAnswers = 5

// Times are the durations that the rules require.
type Times struct {
	// Enough is the time for which answers must show an instance as gone.
	Enough time.Duration
	// Gap is the longest time between two such answers.
	Gap time.Duration
	// Hour is the time to which Rules.Limit applies.
	Hour time.Duration
	// Audit is the time between two rounds about all Nodes, even if all are ready. Such a
	// round finds Nodes that another machine uses. It also finds parts of an account that
	// the credentials do not show, before an absent instance counts as gone.
	Audit time.Duration
	// Pace is the shortest time between two rounds.
	Pace time.Duration
	// Gather is the time from a Node's change to unready to its round, so that other Nodes
	// can join.
	Gather time.Duration
}

// Usual are the Times of a program. Only tests have others.
var Usual = Times{
	Enough: 5 * time.Minute, Gap: 4 * time.Minute, Hour: time.Hour, Audit: 30 * time.Minute,
	Pace: 10 * time.Second, Gather: time.Second,
}

// Over returns the times, each divided by n.
func (t Times) Over(n int) Times {
	by := time.Duration(n)
	return Times{t.Enough / by, t.Gap / by, t.Hour / by, t.Audit / by, t.Pace / by, t.Gather / by}
}
