package route

import (
	"context"
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/subnet"
)

// A node with the backend cloud sends to a peer without a tunnel if the peer's notice names the
// peer's range. The controller writes a notice after the routes. It withdraws the notice as
// soon as a route is missing, is about to change, or leads to a blackhole. A failed read, as
// while the cloud does not answer, changes no notice.

// unknownNotice stands for a notice whose last write failed. No notice is equal to it.
const unknownNotice = "unknown"

// planNotice returns the write of a node's notice, if the notice is wrong or missing. If urgent
// is set, it omits the write of a missing notice. A wrong notice is urgent because it misleads
// the peers.
func (c *Controller) planNotice(name string, now time.Time, urgent bool) (w controller.Write, ok bool) {
	if c.inFlight[name] || c.stored != nil && !c.notices.known {
		return w, false
	}
	n, v := c.nodes[name], Node{}
	v.Name = name
	want, has, known := subnet.Notice{}, c.stored[name], true
	if n != nil {
		v = n.Node
		if c.stored == nil {
			has = n.Notice
		}
	}
	if n != nil && n.ReadsNotices {
		var again time.Time
		if want, again, known = c.notice(n, now); known {
			n.moved = false
		}
		if !again.IsZero() {
			c.steps.Set(name, again)
		}
		known = known || n.moved || ofAnother(has, n)
	}
	text := want.String()
	if !known || text == has || urgent && has == "" {
		return w, false
	}
	c.inFlight[name], c.sending[name] = true, text
	to := c.options.Nodes
	w = controller.Write{
		Controller: Name, Object: to.Ref(v), Verb: controller.Patch, Summary: "publish the notice " + text, Before: has, After: text,
		Do: func(ctx context.Context) error { return to.SetNotice(ctx, v, text) },
	}
	if text == "" {
		w.Summary = "withdraw the notice"
	}
	return w, true
}

// notice returns the notice that a node should have. A node without an address has none.
func (c *Controller) notice(n *node, now time.Time) (want subnet.Notice, again time.Time, known bool) {
	want, again, known = c.book.Notice(n.Name, now)
	if n.PublicIP == (subnet.Pair[netip.Addr]{}) {
		return subnet.Notice{}, again, known
	}
	if want.Network != "" {
		want.Hosts = n.PublicIP
	}
	return want, again, known
}

// ofAnother reports whether a notice names another host than the node's, such as the earlier
// holder of a lease.
func ofAnother(text string, n *node) bool {
	v, err := subnet.ParseNotice(text)
	return err == nil && v.Network != "" && v.Hosts != n.PublicIP
}

// explainNotice explains the notice of a node.
func (c *Controller) explainNotice(n *node) controller.Line {
	notice := n.Notice
	if c.stored != nil {
		notice = c.stored[n.Name]
	}
	want, _, known := c.notice(n, time.Now())
	line := controller.Line{What: "notice to nodes", OK: known && notice == want.String() && want.Subnets != (subnet.Notice{}).Subnets, Text: notice}
	switch {
	case notice == "":
		line.Text = "none; the node and its peers use the tunnel"
	case want.Subnets == (subnet.Notice{}).Subnets:
		line.Text += "; its peers use the tunnel"
	}
	return line
}

// noticeDone records the outcome of a write of a Node, if it was one of a notice.
func (c *Controller) noticeDone(name string, err error) {
	text, was := c.sending[name]
	delete(c.sending, name)
	switch n := c.nodes[name]; {
	case !was || err == controller.ErrNotMade || err != nil && c.stored == nil: // the watch shows it
	case err != nil:
		c.stored[name] = unknownNotice // the write may have been applied, or may still be
	case c.stored == nil && n != nil:
		n.Notice = text
	case text == "":
		delete(c.stored, name)
	case c.stored != nil:
		c.stored[name] = text
	}
}

// noticesDue returns when to read the notices that are not stored in the nodes.
func (c *Controller) noticesDue(now time.Time) (keys []string, again time.Time) {
	return c.notices.begin(now, c.notices.due)
}

func (c *Controller) readNotices(ctx context.Context, _ []string) (map[string]map[string]string, error) {
	all, err := c.options.Nodes.ReadNotices()(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]map[string]string{everything: all}, nil
}

// takeNotices applies a read of all notices. It schedules the withdrawal of those whose nodes do
// not exist.
func (c *Controller) takeNotices(_ []string, found map[string]map[string]string) {
	now := time.Now()
	all, ok := found[everything]
	first := !c.notices.known
	c.notices.end(now, ok, c.options.Period, stored)
	if !ok {
		return
	}
	before := c.stored
	c.stored = make(map[string]string, len(all))
	for name, text := range all {
		if c.stored[name] = text; before[name] != text {
			c.steps.Set(name, now)
		}
	}
	for name := range c.nodes {
		if first || before[name] != c.stored[name] {
			c.steps.Set(name, now)
		}
	}
}
