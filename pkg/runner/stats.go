package runner

import (
	"maps"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Count is what is known of the runs of one command of the config.
type Count struct {
	Runs, Failed, Killed uint64
	Took                 time.Duration // all runs together
}

// Status is what a Runner reports.
type Status struct {
	Counts  map[string]Count // by the config's key
	Running string           // what runs at present, or ""
	Since   time.Time        // when it began
	Waiting int              // commands that are to be run, or undone
	Failing int              // those of them that failed
}

// stats are counts, and what runs at present.
type stats struct {
	counts  map[string]Count
	running string
	since   time.Time
}

// begin records what runs from now on.
func (s *stats) begin(k netstate.Key, now time.Time) { s.running, s.since = k.String(), now }

// count counts a run.
func (r *Runner) count(name string, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.counts == nil {
		r.stats.counts = make(map[string]Count)
	}
	c := r.stats.counts[name]
	c.Runs++
	c.Took += o.took
	if o.err != nil {
		c.Failed++
	}
	if o.killed {
		c.Killed++
	}
	r.stats.counts[name] = c
}

// Status returns the present status.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Counts: maps.Clone(r.stats.counts), Running: r.stats.running, Since: r.stats.since}
	for _, e := range r.entries {
		if e.right() || e.asked == 0 {
			continue
		}
		s.Waiting++
		if e.err != nil {
			s.Failing++
		}
	}
	return s
}
