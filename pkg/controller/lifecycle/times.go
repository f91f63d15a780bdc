package lifecycle

import "time"

// enoughAnswers is how many answers in a row must say that an instance is gone.
const enoughAnswers = 5

// Times are the durations that the rules require.
type Times struct {
	// Enough is how long answers must say that an instance is gone.
	Enough time.Duration
	// Gap is the longest time between two such answers.
	Gap time.Duration
	// Hour is the time to which Rules.Limit applies.
	Hour time.Duration
	// Audit is how often a round asks about all Nodes, while all are ready too. It finds
	// Nodes whose name went to another machine, and parts of an account that are hidden,
	// before an absent instance counts as gone.
	Audit time.Duration
	// Pace is the shortest time between two rounds.
	Pace time.Duration
	// Gather is how long a Node that is no longer ready waits for others.
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
