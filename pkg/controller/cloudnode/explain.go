package cloudnode

import (
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
)

// Explain implements controller.Explainer.
func (c *Controller) Explain(name string) []controller.Line {
	n := c.nodes[name]
	if n == nil {
		return nil
	}
	if !n.needs() && !n.deleting {
		return []controller.Line{{What: "instance", OK: true, Text: "the Node has neither a providerID nor the taint " + Taint + ", so the controller ignores it"}}
	}
	return []controller.Line{c.explainInstance(n), c.explainTaint(n), c.explainAddresses(n)}
}

// explainInstance explains a Node's instance.
func (c *Controller) explainInstance(n *node) controller.Line {
	l := controller.Line{What: "instance"}
	switch i := n.instance; {
	case n.deleting:
		l.OK, l.Text = true, "the Node is being deleted"
	case i == nil && n.id != "":
		l.Text = fmt.Sprintf("the cloud has not answered about %.100q yet", n.id)
	case i == nil:
		l.Text = "the cloud has not answered about the Node's name yet"
	case !n.isDescribed():
		l.Text = absence(n)
	default:
		l.OK = true
		l.Text = fmt.Sprintf("%s is %s: %s in %s, as of %s", i.ID, i.State, i.Type, i.Zone, n.answered.UTC().Format(time.TimeOnly)+" UTC")
	}
	return l
}

// explainTaint explains why a Node has the taint.
func (c *Controller) explainTaint(n *node) controller.Line {
	l := controller.Line{What: "taint " + Taint}
	code, text := c.finding(n)
	switch {
	case !n.tainted:
		l.OK, l.Text = true, "removed"
	case n.deleting:
		l.OK, l.Text = true, "stays, because the Node is being deleted"
	case code != "":
		l.Text = text
	case !n.isDescribed():
		l.Text = "stays until the cloud describes the Node's instance"
	case c.needsPlace(n):
		l.Text = waitsForPlace(n)
	case n.failures > 0:
		l.Text = "the API server refuses the change; the Node's events say why"
	default:
		l.Text = "is being removed"
	}
	return l
}

// explainAddresses explains whether a Node has the addresses of its instance.
func (c *Controller) explainAddresses(n *node) controller.Line {
	l := controller.Line{What: "addresses"}
	switch {
	case n.problem != "":
		l.Text = n.problem
	case !n.isDescribed():
		l.Text = "unknown, because the instance is unknown"
	default:
		if all, err := newAddresses(n, n.instance); err == nil && all != nil {
			l.Text = "differ from those of the instance: " + join(all)
		} else {
			l.OK, l.Text = true, join(n.addresses)
		}
	}
	return l
}
