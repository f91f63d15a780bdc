package clustertest

import (
	"bytes"
	"cmp"
	"strings"
	"sync"
	"time"
)

// output collects what a process writes, while other goroutines read it.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	closed  bool
	changed chan struct{} // closed at the next change
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.text.Write(b)
		o.signal()
	}
	return len(b), nil
}

// close marks the end of the output.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

func (o *output) signal() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// wait waits until the output contains text, and reports whether it does.
func (o *output) wait(text string, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	seen := 0
	for {
		o.mu.Lock()
		rest, closed, changed := o.text.Bytes()[seen:], o.closed, o.changed
		found := bytes.Contains(rest, []byte(text))
		seen = max(seen, o.text.Len()-len(text))
		o.mu.Unlock()
		if found || closed {
			return found
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// tail returns the last lines of a log.
func tail(log string) string {
	const most = 6000
	if len(log) <= most {
		return log
	}
	_, rest, _ := strings.Cut(log[len(log)-most:], "\n")
	return cmp.Or(rest, log[len(log)-most:])
}
