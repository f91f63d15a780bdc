// Package trouble keeps what does not work with a store, and tells of it once, and
// has the words in which stores say how they do.
package trouble

import (
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Log has each thing that goes wrong told once for each kind of reason, and its
// end.
type Log struct {
	// Explain is an error in words, and what kind it is.
	Explain func(error) (kind, words string)

	mu   sync.Mutex
	now  map[string]string          // what goes wrong, and how
	told map[string]map[string]bool // the kinds of reason, by what
	last Trouble
}

// Trouble is something that did not work, and when that was.
type Trouble struct {
	What, Why string
	At        time.Time
}

// Failed takes note that something does not work.
func (l *Log) Failed(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.now, l.told = make(map[string]string), make(map[string]map[string]bool)
	}
	kind, why := l.Explain(err)
	l.now[what], l.last = why, Trouble{what, why, time.Now()}
	if l.told[what] == nil {
		l.told[what] = make(map[string]bool)
	}
	if !l.told[what][kind] {
		l.told[what][kind] = true
		klog.ErrorS(nil, what+" does not work; trying again", "reason", why)
	}
}

// Over takes note that it works.
func (l *Log) Over(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, was := l.now[what]; was {
		l.drop(what)
		klog.InfoS(what + " works again")
	}
}

// Forget is Over without a word, for who does not try any more.
func (l *Log) Forget(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(what)
}

func (l *Log) drop(what string) {
	delete(l.now, what)
	delete(l.told, what)
}

// Status is how a store does at present.
type Status struct {
	// Failing is what does not work, and why; empty when all is well.
	Failing map[string]string
	// Last is what did not work last, if anything did not.
	Last Trouble
	// Watching is since when the leases are watched without a break; zero when they
	// are not.
	Watching time.Time
	// Revision is how far the store's history is known.
	Revision int64
	// Renewed is when the store last took this node's lease, or was found to have
	// it; zero before, and where leases do not expire.
	Renewed time.Time
}

// List is all that goes wrong, and what did last.
func (l *Log) List() (now map[string]string, last Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.now), l.last
}
