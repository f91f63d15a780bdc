package route

import (
	"context"
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/subnet"
)

// Nodes with the backend cloud send to a peer without a tunnel where the peer's notice
// says that its routes are in place. A notice is written after the routes, and withdrawn
// as soon as one is missing, is about to change, or leads to nothing. What is not known,
// as while the cloud does not answer, changes no notice.

// unknownNotice stands for a notice whose last write failed. It is never equal to one.
const unknownNotice = "unknown"

// tell returns the write of a node's notice, if it is not what it should be. With said, it
// returns only the write of one that says something: what is wrong in it misleads peers.
func (c *Controller) tell(name string, now time.Time, said bool) (w controller.Write, ok bool) {
	if c.flying[name] || c.told != nil && !c.notices.known {
		return w, false
	}
	n, v := c.nodes[name], Node{}
	v.Name = name
	want, has, known := subnet.Notice{}, c.told[name], true
	if n != nil {
		v = n.Node
		if c.told == nil {
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
	if !known || text == has || said && has == "" {
		return w, false
	}
	c.flying[name], c.telling[name] = true, text
	to := c.options.Nodes
	w = controller.Write{
		Controller: Name, Object: to.Ref(v), Verb: controller.Patch, Summary: "tell nodes that its routes are in place: " + text, Before: has, After: text,
		Do: func(ctx context.Context) error { return to.SetNotice(ctx, v, text) },
	}
	if text == "" {
		w.Summary = "withdraw that its routes are in place"
	}
	return w, true
}

// notice returns what the notice of a node is to be. A node without an address has none.
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

// ofAnother reports whether a notice is about another host than the node's, as an earlier
// holder of a lease.
func ofAnother(text string, n *node) bool {
	v, err := subnet.ParseNotice(text)
	return err == nil && v.Network != "" && v.Hosts != n.PublicIP
}

// explainNotice returns what the notice of a node says.
func (c *Controller) explainNotice(n *node) controller.Line {
	notice := n.Notice
	if c.told != nil {
		notice = c.told[n.Name]
	}
	want, _, known := c.notice(n, time.Now())
	line := controller.Line{What: "notice to nodes", OK: known && notice == want.String() && want.Subnets != (subnet.Notice{}).Subnets, Text: notice}
	switch {
	case notice == "":
		line.Text = "none; its peers send through the tunnel, and so does it"
	case want.Subnets == (subnet.Notice{}).Subnets:
		line.Text += "; its peers send through the tunnel"
	}
	return line
}

// wasTold records the outcome of a write of a notice, if it was one.
func (c *Controller) wasTold(name string, err error) {
	text, was := c.telling[name]
	delete(c.telling, name)
	switch n := c.nodes[name]; {
	case !was || err == controller.ErrNotMade || err != nil && c.told == nil: // the watch shows it
	case err != nil:
		c.told[name] = unknownNotice // it may have taken effect, or may do so
	case c.told == nil && n != nil:
		n.Notice = text
	case text == "":
		delete(c.told, name)
	case c.told != nil:
		c.told[name] = text
	}
}

// noticesDue returns when the notices are read, unless they are kept with the nodes.
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

// takeNotices takes all notices. Those of nodes that do not exist are removed.
func (c *Controller) takeNotices(_ []string, found map[string]map[string]string) {
	now := time.Now()
	all, ok := found[everything]
	first := !c.notices.known
	c.notices.end(now, ok, c.options.Period)
	if !ok {
		return
	}
	before := c.told
	c.told = make(map[string]string, len(all))
	for name, text := range all {
		if c.told[name] = text; before[name] != text {
			c.steps.Set(name, now)
		}
	}
	for name := range c.nodes {
		if first || before[name] != c.told[name] {
			c.steps.Set(name, now)
		}
	}
}
