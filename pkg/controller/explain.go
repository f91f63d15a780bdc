package controller

import (
	"context"
	"time"
)

// Line is the state of one thing that a controller does for a Node.
type Line struct {
	// What names it, like "route 10.4.7.0/24 in rtb-1".
	What string
	// OK is set if it is done. Text is its state, or what is wrong and the fix.
	OK   bool
	Text string
}

// Explainer is a Controller that can explain what it does for a Node.
type Explainer interface {
	// Explain returns what the controller does for a Node, or nil if that is nothing. The
	// Engine calls it in the loop.
	Explain(node string) []Line
}

// Explanation is what one controller does for a Node.
type Explanation struct {
	Controller string
	Lines      []Line
}

// Explain returns what all controllers do for a Node. It first waits until every feed has
// listed and every lookup has tried each object once. With the first failure, it also returns
// what is known.
func (e *Engine) Explain(ctx context.Context, node string) ([]Explanation, error) {
	failed := e.Await(ctx)
	known := make(chan []Explanation, 1)
	// ctx may have ended during Await, but the loop answers at once.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainLimit)
	defer cancel()
	ok := e.Do(within, func() {
		var all []Explanation
		for _, c := range e.controllers {
			if x, is := c.(Explainer); is {
				if lines := x.Explain(node); len(lines) > 0 {
					all = append(all, Explanation{c.Name(), lines})
				}
			}
		}
		known <- all
	})
	if !ok {
		if failed == nil {
			failed = within.Err()
		}
		return nil, failed
	}
	return <-known, failed
}

// explainLimit is the time in which the loop must explain a Node.
const explainLimit = 5 * time.Second
