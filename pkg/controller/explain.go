package controller

import (
	"context"
	"time"
)

// Line is one thing that a controller does for a Node.
type Line struct {
	// What is it, like "route 10.4.7.0/24 in rtb-1".
	What string
	// OK reports whether it is done. Text is its state, or what is wrong and the fix.
	OK   bool
	Text string
}

// Explainer is a Controller that knows why a Node is not done.
type Explainer interface {
	// Explain returns what the controller does for a Node, or nothing if it does nothing
	// for that Node. The Engine calls it in the loop.
	Explain(node string) []Line
}

// Explanation is what one controller says about a Node.
type Explanation struct {
	Controller string
	Lines      []Line
}

// Explain returns what all controllers say about a Node. It waits until every feed has
// listed and every lookup has tried each object once, and returns the first failure
// beside what is known.
func (e *Engine) Explain(ctx context.Context, node string) ([]Explanation, error) {
	failed := e.Await(ctx)
	known := make(chan []Explanation, 1)
	// The deadline of ctx may have passed while it waited; the loop answers at once.
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

// explainLimit is how long the loop may take to explain a Node.
const explainLimit = 5 * time.Second
