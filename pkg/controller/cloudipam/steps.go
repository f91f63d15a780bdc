package cloudipam

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// step returns the next write of a Node, if it needs one. The order is: add the range that the
// instance lacks (see PlanCloud), set the Node's podCIDRs, set the Node's condition.
func (c *Controller) step(n *node, now time.Time) (w controller.Write, ok bool) {
	if !c.isIdle(n) {
		return w, false
	}
	switch ranges := c.ranges(n); {
	case len(n.cidrs) == 0 && ranges != nil:
		if c.rival(n, ranges) == "" {
			return c.setCIDRs(n, texts(ranges)), true
		}
		c.steps.Set(n.name, now.Add(lookups.Last))
	case ranges == nil && c.missing(n).IsValid():
		c.adds.Set(n.name, now)
	case ranges == nil && len(n.cidrs) > 0 && c.options.Mode == FromCluster:
		c.steps.Set(n.name, now.Add(lookups.Last))
	case ranges != nil && slices.Equal(n.cidrs, texts(ranges)) && n.unrouted:
		return c.setRouted(n), true
	}
	return w, false
}

// add returns the change that adds the missing range to a Node's instance, if it still lacks
// one.
func (c *Controller) add(n *node, now time.Time) (w controller.Write, ok bool) {
	if !c.isIdle(n) || c.ranges(n) != nil {
		return w, false
	}
	missing := c.missing(n)
	if !missing.IsValid() {
		return w, false
	}
	return c.addAlias(n, missing, now)
}

// isIdle reports whether a Node's instance is known, and no write of the Node is in flight.
func (c *Controller) isIdle(n *node) bool {
	_, flies := c.flying[n.name]
	return !flies && !n.deleting && n.isKnown()
}

// missing returns the range to add to an instance: the podCIDR that its Node has or was
// granted.
func (c *Controller) missing(n *node) netip.Prefix {
	switch p := c.own(n); {
	case c.options.Mode != FromCluster:
		return netip.Prefix{}
	case len(n.cidrs) == 0:
		return n.granted
	case p.IsValid() && c.rival(n, []netip.Prefix{p}) == "":
		return p
	}
	return netip.Prefix{}
}

// own returns a Node's podCIDR if it has exactly one, which lies in the pool.
func (c *Controller) own(n *node) netip.Prefix {
	if len(n.cidrs) != 1 {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(n.cidrs[0])
	if err != nil || p != p.Masked() || subnet.FamilyOf(p.Addr()) != subnet.IPv4 || !c.holds(p) {
		return netip.Prefix{}
	}
	return p
}

// rival returns another Node whose podCIDRs overlap ranges, or "".
func (c *Controller) rival(n *node, ranges []netip.Prefix) string {
	for _, p := range ranges {
		for other := range c.book.Owners(p) {
			if other != n.name {
				return other
			}
		}
	}
	return ""
}

// write returns a write of a Node, or of its instance.
func (c *Controller) write(n *node, f flight, summary string, do func(context.Context) error) controller.Write {
	f.uid, f.version = n.uid, n.version
	c.flying[n.name] = f
	w := controller.Write{Controller: c.Name(), Object: ref(n), Verb: controller.Patch, Summary: summary, Do: do}
	if f.change.ID != "" {
		w.Object.Kind, w.Cloud, w.Within = "Instance", true, changeLimit
	}
	return w
}

func (c *Controller) setCIDRs(n *node, cidrs []string) controller.Write {
	client, path := c.options.Client, kube.Path(kube.Nodes, n.name)
	m := kube.Merge{Kind: kube.StrategicMergePatch, If: kube.Version{UID: n.uid, ResourceVersion: n.version}, Spec: map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}}
	answer := new(kube.Version)
	return c.write(n, flight{cidrs: cidrs, answer: answer}, "set podCIDRs "+strings.Join(cidrs, ","), func(ctx context.Context) (err error) {
		*answer, err = client.Merge(ctx, path, m)
		return err
	})
}

// setRouted returns the write that sets NetworkUnavailable to False, so that pods can run on
// the Node. The reason is kube-controller-manager's.
func (c *Controller) setRouted(n *node) controller.Write {
	client, path := c.options.Client, kube.Path(kube.Nodes, n.name, "status")
	at := time.Now().UTC().Format(time.RFC3339)
	change, err := json.Marshal(map[string]any{
		"metadata": kube.Version{UID: n.uid, ResourceVersion: n.version},
		"status": map[string]any{"conditions": []map[string]string{{
			"type": kube.NetworkUnavailable, "status": "False", "reason": "RouteCreated",
			"message": "The cloud routes the Node's podCIDRs to its instance", "lastHeartbeatTime": at, "lastTransitionTime": at,
		}}},
	})
	answer := new(kube.Version)
	return c.write(n, flight{routed: true, answer: answer}, "set NetworkUnavailable to False", func(ctx context.Context) error {
		if err != nil {
			return err
		}
		var shown kube.Node
		err := kube.Patch(ctx, client, path, kube.StrategicMergePatch, change, kube.NodeMetadata, &shown)
		if err == nil {
			answer.ResourceVersion = string(shown.ResourceVersion)
		}
		return err
	})
}

// addAlias returns the change that adds a range to a Node's instance. If the version of the
// instance is unknown, it schedules a lookup instead.
func (c *Controller) addAlias(n *node, add netip.Prefix, now time.Time) (w controller.Write, ok bool) {
	if n.instance.Version == "" {
		c.again(n, now)
		return w, false
	}
	change, to := c.changeFor(n, add), c.options.Cloud
	summary := "add alias range " + add.String()
	if from := c.options.Secondary; from != "" {
		summary += " of " + from
	}
	return c.write(n, flight{change: change}, summary, func(ctx context.Context) error { return to.AddAlias(ctx, change) }), true
}

func ref(n *node) controller.Ref {
	return controller.Ref{Kind: "Node", Name: n.name, UID: n.uid}
}
