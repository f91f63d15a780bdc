package cloud

import (
	"maps"
	"sync"
)

// Counter counts requests to a cloud's API by action and outcome. The zero Counter is ready to
// use, and safe for concurrent use.
type Counter struct {
	mu    sync.Mutex
	calls map[Call]int
}

// Count counts a request that ended with err.
func (c *Counter) Count(action string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = KindOf(err).String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[Call]int)
	}
	c.calls[Call{Action: action, Outcome: outcome}]++
}

// Calls returns the number of requests since the start, by action and outcome.
func (c *Counter) Calls() map[Call]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}
