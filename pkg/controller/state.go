package controller

import (
	"context"
	"maps"
	"slices"
	"time"
)

// State is the state of an Engine.
type State struct {
	Mode Mode
	// Leading is set while this process leads, and Term is the number of its term.
	Leading bool
	Term    int64
	// Planning is set if every feed has read the list that a plan needs.
	Planning bool
	Feeds    []FeedState
	InFlight int
	// Paused is when every write may begin again, if the server fails, has asked for a
	// pause, or denies the writes of a controller; otherwise zero.
	Paused time.Time
	// Counts counts the writes that ended since the start.
	Counts map[Count]int
	Took   Seconds
	// Recent are the last writes that ended, the oldest first.
	Recent []Made
	// Planned are the writes of the last plan in ObserveMode, by controller.
	Planned map[string][]Write
	Events  EventCounts
}

// Count is the key of writes that are counted together.
type Count struct {
	Controller, Verb string
	Outcome          Outcome
}

// Made is a write that ended.
type Made struct {
	At             time.Time
	Object, Change string
	Outcome        Outcome
	Why            string // of an Outcome other than Written
}

// bounds are the upper bounds of the buckets of Seconds, in seconds.
var bounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}

// Seconds is a histogram of how long writes took.
type Seconds struct {
	Count   int
	Sum     float64
	buckets [len(bounds)]uint64 // writes up to a bound, and above the one before
}

func (s *Seconds) add(d time.Duration) {
	s.Count++
	s.Sum += d.Seconds()
	if i, _ := slices.BinarySearch(bounds[:], d.Seconds()); i < len(bounds) {
		s.buckets[i]++
	}
}

// Buckets returns how many writes took at most as long as each bound.
func (s Seconds) Buckets() map[float64]uint64 {
	all, sum := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		sum += s.buckets[i]
		all[bound] = sum
	}
	return all
}

// State returns the state of the Engine, and whether the loop answered before ctx ended.
// Without an answer, only Feeds is set.
func (e *Engine) State(ctx context.Context) (s State, ok bool) {
	// If the loop does not answer in time, it may still set this later.
	var known State
	ok = e.Do(ctx, func() {
		known = State{
			Mode: e.options.Mode, Leading: e.term != nil,
			InFlight: e.writer.inFlight + e.writer.cloudInFlight(), Counts: maps.Clone(e.writer.counts), Took: e.writer.seconds,
			Recent: slices.Clone(e.writer.recent), Events: e.events.counts,
		}
		if e.term != nil {
			known.Term, known.Planning = e.term.Number, e.fresh()
		}
		if e.options.Mode == ObserveMode {
			known.Planned, known.Planning = maps.Clone(e.planned), e.listed()
		}
		if until := e.writer.pausedUntil(""); time.Now().Before(until) {
			known.Paused = until
		}
	})
	if ok {
		s = known
	}
	for _, f := range e.feeds {
		s.Feeds = append(s.Feeds, f.state())
	}
	for _, l := range e.lookups {
		s.Feeds = append(s.Feeds, l.state())
	}
	return s, ok
}

// Listed reports whether every feed has listed since the start. For each of the others, it
// returns why it has not.
func (s State) Listed() (all bool, waiting []string) {
	for _, f := range s.Feeds {
		if !f.Listed {
			why := "not listed yet"
			if f.Problem != "" {
				why = f.Problem
			}
			waiting = append(waiting, f.What+": "+why)
		}
	}
	return len(waiting) == 0, waiting
}

// PlanAll waits until every feed has listed, and returns all writes that the controllers
// would make now. It returns the first failure of a feed.
func (e *Engine) PlanAll(ctx context.Context) ([]Write, error) {
	if err := e.Await(ctx); err != nil {
		return nil, err
	}
	var writes []Write // the loop may still append to it after ctx has ended
	ok := e.Do(ctx, func() {
		for _, c := range e.controllers {
			planned, _ := e.plan(c, time.Now())
			writes = append(writes, planned...)
		}
	})
	if !ok {
		return nil, ctx.Err()
	}
	return writes, nil
}

// Await waits until every feed has listed, and every lookup has tried each object once.
// It returns the first failure.
func (e *Engine) Await(ctx context.Context) error {
	for _, f := range e.feeds {
		if err := f.await(ctx); err != nil {
			return err
		}
	}
	for _, l := range e.lookups {
		if err := l.await(ctx); err != nil {
			return err
		}
	}
	return nil
}
