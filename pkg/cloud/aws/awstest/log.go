package awstest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Call is a call of the server.
type Call struct {
	ID                           string // the request ID
	At                           time.Time
	Service, Action, Region, Key string
	// Status is the HTTP status, or 0 if the server closed the connection. Code is the
	// error's.
	Status int
	Code   string
	Took   time.Duration

	form *form
}

// Value returns a parameter, such as Filter.1.Name.
func (c Call) Value(name string) string {
	if c.form == nil {
		return ""
	}
	return c.form.at(strings.Split(name, ".")...).value
}

// Parameters returns all parameters.
func (c Call) Parameters() map[string]string {
	if c.form == nil {
		return nil
	}
	return c.form.flat()
}

func (c Call) String() string {
	text := c.Action
	if c.form != nil {
		text = strings.TrimSuffix(c.form.print("Version", "ClientToken"), "&")
	}
	return fmt.Sprintf("%s %s %d %s", c.At.UTC().Format("15:04:05.000"), text, c.Status, c.Code)
}

// unfiltered reports whether a read requests all objects at once.
func (c Call) unfiltered() bool {
	if c.form == nil {
		return true
	}
	for name := range c.form.kids {
		switch name {
		case "Action", "Version", "DryRun":
		default:
			return false
		}
	}
	return true
}

// maxCalls limits the calls that are kept. The counts include all.
const maxCalls = 20000

type record struct {
	calls  []Call
	counts map[string]int
}

func (s *Server) keep(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.record.calls) >= maxCalls {
		s.record.calls = append([]Call(nil), s.record.calls[maxCalls/2:]...)
	}
	s.record.calls = append(s.record.calls, *c)
	s.record.counts[c.Action]++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Calls returns the last calls, the oldest first.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.record.calls...)
}

// Count returns the number of calls of an action, with any outcome. "" counts all actions.
func (s *Server) Count(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if action != "" {
		return s.record.counts[action]
	}
	sum := 0
	for _, n := range s.record.counts {
		sum += n
	}
	return sum
}

// Counts returns the number of calls of each action.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.record.counts)
}

// Forget forgets all calls.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.calls = nil
	clear(s.record.counts)
}

// Wait waits until the condition holds. It checks the condition after each call.
func (s *Server) Wait(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
