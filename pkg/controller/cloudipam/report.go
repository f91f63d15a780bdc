package cloudipam

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// These are the codes of findings, in addition to those of package ipam.
const (
	NoProviderID ipam.Code = "no-provider-id" // the Node has no providerID
	NoInstance   ipam.Code = "no-instance"    // the cloud has no such instance, or it is not the Node's
	NoAlias      ipam.Code = "no-alias"       // the instance has no range for pods
	Mismatch     ipam.Code = "mismatch"       // the Node's podCIDRs are not what the cloud routes to it
	Shared       ipam.Code = "shared"         // another Node has what the cloud routes to this one
)

// Codes are the codes of this package.
var Codes = []ipam.Code{NoProviderID, NoInstance, NoAlias, Mismatch, Shared}

// These are the reasons of events, as kube-controller-manager has them.
const (
	notAvailable     = "CIDRNotAvailable"
	assignmentFailed = "CIDRAssignmentFailed"
	invalid          = "CIDRInvalid"
	mismatch         = "CloudCIDRAllocatorMismatch"
)

// reportFindings sends an event for each finding, and reports whether there is a finding. The
// Engine limits the events.
func (c *Controller) reportFindings() (some bool) {
	for _, f := range c.findings() {
		reason := invalid
		switch {
		case f.Code == Mismatch || f.Code == Shared:
			reason = mismatch
		case f.Code.Waits() || slices.Contains(Codes, f.Code):
			reason = notAvailable
		}
		some = true
		c.options.Event(controller.Event{Object: controller.Ref{Kind: "Node", Name: f.Node, UID: f.UID}, Warning: true, Reason: reason, Message: f.Text})
	}
	return some
}

// event sends a warning about a Node.
func (c *Controller) event(n *node, reason, text string) {
	c.options.Event(controller.Event{Object: ref(n), Warning: true, Reason: reason, Message: text})
}

// findings returns all findings, in the order of the Nodes' names.
func (c *Controller) findings() (all []ipam.Finding) {
	for f := range c.book.Findings() {
		if f.Code != ipam.Outside || c.options.Pool != nil {
			all = append(all, f)
		}
	}
	for _, n := range c.nodes {
		if code, text := c.finding(n); code != "" {
			all = append(all, ipam.Finding{Node: n.name, UID: n.uid, Code: code, Text: text})
		}
	}
	slices.SortStableFunc(all, func(a, b ipam.Finding) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// finding returns the finding about a Node and its instance, with the fix, or "".
func (c *Controller) finding(n *node) (code ipam.Code, text string) {
	switch {
	case n.deleting:
		return "", ""
	case n.id == "" && len(n.cidrs) == 0:
		return NoProviderID, "the Node has no providerID, so its instance is not known; run the cloud's node controller, or start the kubelet with one"
	case n.instance == nil:
		return "", ""
	case n.instance.Problem != "":
		return NoInstance, n.instance.Problem
	case !n.isNamed():
		return NoInstance, fmt.Sprintf("providerID %.100q belongs to the instance %s, but the Node has another name; re-create the Node with the name of its instance", n.id, n.instance.Name)
	}
	ranges := c.ranges(n)
	if ranges != nil && len(n.cidrs) == 0 {
		if other := c.rival(n, ranges); other != "" {
			return Shared, fmt.Sprintf("the instance has the range %s, which overlaps a podCIDR of Node %s; delete and re-create that Node, or give the instance another range", strings.Join(texts(ranges), ","), other)
		}
	}
	switch {
	case ranges == nil && c.options.Mode != FromCluster:
		return NoAlias, fmt.Sprintf("the instance %s has no %s for pods%s; add it to its first network interface", n.instance.Name, c.lacking(n), c.from())
	case len(n.cidrs) > 0 && ranges != nil && !slices.Equal(n.cidrs, texts(ranges)):
		return Mismatch, fmt.Sprintf("podCIDRs %.100q are not the range %s of the instance %s; make the instance's alias ranges match, or delete and re-create the Node", strings.Join(n.cidrs, ","), strings.Join(texts(ranges), ","), n.instance.Name)
	case len(n.cidrs) > 0 && ranges == nil && !c.own(n).IsValid():
		return Mismatch, fmt.Sprintf("podCIDRs %.100q are not in the range of podCIDRs, so the instance %s gets no alias range; delete and re-create the Node", strings.Join(n.cidrs, ","), n.instance.Name)
	}
	return "", ""
}

// lacking returns the name of the range that an instance lacks.
func (c *Controller) lacking(n *node) string {
	if c.alias(n).IsValid() {
		return "IPv6 range"
	}
	return "alias range"
}

// from returns the required secondary range of aliases, for a text.
func (c *Controller) from() string {
	if c.options.Secondary == "" {
		return ""
	}
	return " of the secondary range " + c.options.Secondary
}

// Layouts returns the Layouts of the Book, as ipam.Book.Layouts does. Call it in the Engine's
// loop.
func (c *Controller) Layouts(now time.Time, most, parts int) []ipam.Layout {
	return c.book.Layouts(now, most, parts)
}

// Progress returns the number of Nodes that wait for podCIDRs. There are no fences. The cost
// does not depend on the number of Nodes. Call it in the Engine's loop.
func (c *Controller) Progress() (waiting, fences int) { return c.waiting, 0 }

// Report returns the state of the controller. It examines all Nodes. Call it in the Engine's
// loop.
func (c *Controller) Report(now time.Time) nodeipam.Report {
	r := nodeipam.Report{Nodes: len(c.nodes), Waiting: c.waiting, Pools: c.book.Usage(now), Findings: c.findings()}
	for _, n := range c.nodes {
		if n.failures > 0 {
			r.Retrying++
		}
	}
	return r
}
