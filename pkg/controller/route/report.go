package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
)

// Report is the state of the controller. It shares no memory with it.
type Report struct {
	Nodes int
	// Counts are the Nodes by the code of their Status.
	Counts map[cloudroute.Code]int
	Tables []cloudroute.Usage
	// Routes are the existing and the missing routes of all tables.
	Routes   []cloudroute.Row
	Findings []cloudroute.Finding
	// Ledger is the number of destinations in the ledger. Problems say which of its entries
	// could not be parsed, and why.
	Ledger   int
	Problems []string
	// Read is the time of the last read of the tables, or zero.
	Read time.Time
}

// Waiting returns the number of Nodes that wait for routes. Its cost does not depend on the
// size of the cluster. Call it in the Engine's loop.
func (c *Controller) Waiting() int { return len(c.waiting) }

// Report returns the state of the controller. Call it in the Engine's loop.
func (c *Controller) Report() Report {
	return Report{
		Nodes: len(c.nodes), Counts: c.book.Counts(), Tables: c.book.Usages(), Routes: c.book.Rows(), Findings: slices.Collect(c.book.Findings()),
		Ledger: c.book.Entries(), Problems: slices.Clone(c.problems), Read: c.tables.at,
	}
}

// Explain implements controller.Explainer.
func (c *Controller) Explain(name string) (all []controller.Line) {
	n := c.nodes[name]
	if n == nil {
		return nil
	}
	status := c.book.Status(name)
	all = append(all, controller.Line{What: "routes", OK: status.Code == cloudroute.Routed, Text: status.Text})
	for _, r := range c.book.Explain(name) {
		text := r.Text
		if r.Ours {
			text += "; ours by the ledger"
		}
		all = append(all, controller.Line{What: "route " + r.Destination + " in " + r.Table, OK: r.Code == cloudroute.Routed, Text: text})
	}
	if n.Target.Problem == "" && n.Target.Instance != "" {
		line := controller.Line{What: "forwarding of " + n.Target.Instance, OK: n.Target.Forwards || status.Code == cloudroute.Routed}
		if line.Text = c.options.Forwarding.Is(line.OK); !line.OK {
			line.Text += ", which drops packets of containers"
			if n.Target.ForwardFix != "" {
				line.Text += "; " + n.Target.ForwardFix
			}
		}
		all = append(all, line)
	}
	if n.ReadsNotices {
		all = append(all, c.explainNotice(n))
	}
	if c.options.Nodes.SetCondition() != nil {
		line := controller.Line{What: "condition NetworkUnavailable", OK: n.Condition == "False", Text: n.Condition + " " + n.Reason}
		switch {
		case n.Condition == "":
			line.Text = "missing; it is set once the routes exist"
		case n.Condition != "False" && n.Reason != noRouteCreated:
			line.Text = fmt.Sprintf("%s for the reason %s, which another program set", n.Condition, n.Reason)
		}
		all = append(all, line)
	}
	return all
}
