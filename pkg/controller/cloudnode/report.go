package cloudnode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

// Code is the kind of a Finding.
type Code string

// The codes.
const (
	Foreign    Code = "foreign-instance"  // the providerID is not of this cloud
	NoInstance Code = "no-instance"       // the Node waits, and the cloud shows no instance for it
	Shared     Code = "shared-instance"   // another Node has the same instance
	BadAddress Code = "requested-address" // the kubelet requests an address that the instance does not have
)

// Codes are all codes.
var Codes = []Code{Foreign, NoInstance, Shared, BadAddress}

// The reasons of events.
const (
	notFound     = "InstanceNotFound"
	conflicts    = "InstanceConflict"
	invalidIP    = "NodeAddressInvalid"
	updateFailed = "NodeUpdateFailed"
)

var reasons = map[Code]string{Foreign: conflicts, NoInstance: notFound, Shared: conflicts, BadAddress: invalidIP}

// Finding is a problem of a Node, with the fix.
type Finding struct {
	Node, UID string
	Code      Code
	Text      string
}

// announce sends an event for each finding. The Engine limits them.
func (c *Controller) announce(now time.Time) (again time.Time) {
	return c.reports.Send(now, func() bool {
		all := c.findings()
		for _, f := range all {
			c.options.Event(controller.Event{Object: controller.Ref{Kind: "Node", Name: f.Node, UID: f.UID}, Warning: true, Reason: reasons[f.Code], Message: f.Text})
		}
		return len(all) > 0
	})
}

// event sends a warning about a Node.
func (c *Controller) event(n *node, reason, text string) {
	c.options.Event(controller.Event{Object: n.ref(), Warning: true, Reason: reason, Message: text})
}

// findings returns the findings of all Nodes, in the order of the Nodes' names.
func (c *Controller) findings() (all []Finding) {
	for _, n := range c.nodes {
		if code, text := c.finding(n); code != "" {
			all = append(all, Finding{n.name, n.uid, code, text})
		}
	}
	slices.SortFunc(all, func(a, b Finding) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// finding returns the problem of a Node with the fix, if there is one.
func (c *Controller) finding(n *node) (code Code, text string) {
	i := n.instance
	if n.deleting || i == nil {
		return "", ""
	}
	other := c.shares.other(n)
	switch {
	case i.Problem != "" && i.State != cloud.Absent:
		return Foreign, i.Problem
	case n.tainted && !n.isDescribed():
		return NoInstance, fmt.Sprintf("the cloud shows no instance of the Node, so the Node keeps its taint: %s", absence(n))
	case other != nil && n.tainted:
		return Shared, fmt.Sprintf("instance %s belongs to Node %s, so this Node keeps its taint; delete the Node that does not belong to this machine", i.ID, other.name)
	case other != nil:
		return Shared, fmt.Sprintf("Node %[2]s has the same instance %[1]s; delete the Node that does not belong to this machine", i.ID, other.name)
	case n.problem != "":
		return BadAddress, n.problem
	}
	return "", ""
}

// absence says why there is no instance for a Node, with the fix.
func absence(n *node) string {
	switch i := n.instance; {
	case i.Problem != "":
		return i.Problem
	case i.State.IsGone():
		return fmt.Sprintf("instance %s is %s; delete the Node", i.ID, i.State)
	}
	return fmt.Sprintf("there is none of %.100q; delete the Node if its machine is gone", strings.TrimPrefix(strings.TrimPrefix(n.key(), byID), byName))
}

// Report is the state of the controller. It shares no memory with it.
type Report struct {
	Nodes int
	// Waiting are the Nodes with the taint that are not being deleted.
	Waiting  int
	Retrying int
	Findings []Finding
}

// Report returns the state of the controller. Call it in the Engine's loop.
func (c *Controller) Report(time.Time) Report {
	r := Report{Nodes: len(c.nodes), Findings: c.findings()}
	for _, n := range c.nodes {
		if n.tainted && !n.deleting {
			r.Waiting++
		}
		if n.failures > 0 {
			r.Retrying++
		}
	}
	return r
}
