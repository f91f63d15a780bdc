// Package trouble logs a failure once, keeps which operations of a store fail,
// and defines how stores report their status.
package trouble

import (
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Log logs each failing operation once for each kind of reason, and its
// recovery.
type Log struct {
	// Explain returns an error's kind, and the error in words.
	Explain func(error) (kind, words string)

	mu     sync.Mutex
	now    map[string]string          // the failing operations, and why they fail
	logged map[string]map[string]bool // by operation: the kinds of reason that were logged
	last   Trouble
}

// Trouble is an operation that failed, why, and when.
type Trouble struct {
	What, Why string
	At        time.Time
}

// Failed records that an operation fails.
func (l *Log) Failed(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.now, l.logged = make(map[string]string), make(map[string]map[string]bool)
	}
	kind, why := l.Explain(err)
	l.now[what], l.last = why, Trouble{what, why, time.Now()}
	if l.logged[what] == nil {
		l.logged[what] = make(map[string]bool)
	}
	if !l.logged[what][kind] {
		l.logged[what][kind] = true
		klog.ErrorS(nil, "Store operation failed; retrying", "operation", what, "reason", why)
	}
}

// Over records that the operation works again.
func (l *Log) Over(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, was := l.now[what]; was {
		l.drop(what)
		klog.InfoS("Store operation recovered", "operation", what)
	}
}

// Forget drops an operation that is no longer tried. It is Over without a log line.
func (l *Log) Forget(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(what)
}

func (l *Log) drop(what string) {
	delete(l.now, what)
	delete(l.logged, what)
}

// Status is the present state of a store.
type Status struct {
	// Failing are the failing operations, and why they fail. It is empty if all work.
	Failing map[string]string
	// Last is the last failure, if there was one.
	Last Trouble
	// Watching is since when the leases have been watched without a break. It is zero
	// while they are not watched.
	Watching time.Time
	// Revision is the latest known revision of the store.
	Revision int64
	// Renewed is when the store last accepted or confirmed this node's lease. It is
	// zero before that, and where leases do not expire.
	Renewed time.Time
	// LeaseEnds is when this node's lease ends, at the latest, unless it is renewed;
	// zero where leases do not expire.
	LeaseEnds time.Time
}

// List returns the failing operations, and the last failure.
func (l *Log) List() (now map[string]string, last Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.now), l.last
}
