package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
)

// lines collects an explanation.
type lines []controller.Line

func (l *lines) add(what string, ok bool, text string) {
	*l = append(*l, controller.Line{What: what, OK: ok, Text: text})
}

// Explain implements controller.Explainer. A name with a slash is that of a Service, with
// its namespace. Others are those of Nodes and of balancers without a Service.
func (c *Controller) Explain(name string) []controller.Line {
	if n, is := c.nodes[name]; is {
		return c.explainNode(n)
	}
	var l lines
	s := c.services[name]
	if s == nil {
		c.explainLeftover(&l, name)
		return l
	}
	next := c.next(s)
	code := s.code()
	l.add("Service", code == Balanced || code == Other, cmp.Or(s.text(), string(code)))
	if code == Other {
		return l
	}
	l.add("finalizer", s.finalized() != s.gone, Finalizer)
	if !c.look.accountKnown {
		l.add("load balancer", false, "the account was not read yet")
		return l
	}
	c.explainBalancer(&l, s)
	if s.wanted() {
		c.explainNodes(&l, s)
		l.add("status", s.hasHost(), cmp.Or(strings.Join(s.Hosts, ", "), "no host name yet"))
	}
	l.explainNext(next)
	return l
}

// explainBalancer shows what the account has for a Service.
func (c *Controller) explainBalancer(l *lines, s *service) {
	h := c.account.Holding(c.options.Rules.Cluster, s.Ref, nil)
	b := h.Balancer
	if b == nil {
		l.add("load balancer", !s.wanted(), pick(s.wanted(), "none yet", "none left"))
		if now, _ := c.account.Count(); s.wanted() && c.quota.Balancers > 0 && now >= c.quota.Balancers {
			l.add("quota", false, fmt.Sprintf("the cluster has %d of the %d load balancers that the account may have; ask AWS for a higher quota, or delete some", now, c.quota.Balancers))
		}
	} else {
		text := fmt.Sprintf("%s, %s, %s in %d zones", b.State, b.Scheme, b.Families, len(b.Mappings))
		if b.Why != "" {
			text += ": " + b.Why
		}
		l.add("load balancer "+b.Name, s.wanted() && (b.State == "active" || b.State == "provisioning"), text)
		for _, of := range b.Listeners {
			l.add(fmt.Sprintf("listener %s %d", of.Protocol, of.Port), of.Group != "", "leads to "+cmp.Or(of.Group, "another action"))
		}
	}
	for _, g := range h.Groups {
		text, healthy := targetsIn(g)
		l.add("target group "+g.Name, healthy, fmt.Sprintf("%s port %d: %s", g.Protocol, g.Port, text))
	}
	if h.Own != nil && !s.wanted() {
		l.add("security group "+h.Own.ID, false, "is there")
	}
}

// explainLeftover shows what goes with a balancer whose Service does not exist, and how to
// remove it. The controller never does: only people know whether it is in use.
func (c *Controller) explainLeftover(l *lines, name string) {
	cluster := c.options.Rules.Cluster
	for _, left := range c.leftovers() {
		if left.Name != name {
			continue
		}
		with := c.account.Belongings(cluster, left)
		l.add("leftover", false, fmt.Sprintf("it is of Service %s, which does not exist; if it is not in use, make these calls in this order", left.Service))
		remove := func(what, call, id string) { l.add(what, false, call+" "+id+" --region "+c.options.Region) }
		remove("load balancer", "aws elbv2 delete-load-balancer --load-balancer-arn", left.ID)
		for _, g := range with.Groups {
			remove("target group", "aws elbv2 delete-target-group --target-group-arn", g.ID)
		}
		for _, id := range with.Rules {
			l.add("rules", false, "remove the rules of "+id+" whose description has "+name)
		}
		for _, id := range with.Security {
			remove("security group", "aws ec2 delete-security-group --group-id", id)
		}
	}
}

// leftovers returns the balancers of Services that do not exist.
func (c *Controller) leftovers() []cloudbalancer.Leftover {
	names := make(map[string]string, len(c.services))
	for key, s := range c.services {
		names[key] = cloudbalancer.BalancerName(s.UID)
	}
	return c.account.Leftovers(c.options.Rules.Cluster, func(key, balancer string) bool { return names[key] == balancer })
}

// targetsIn returns how many targets of a group are in which state, and why some do not
// work. A group works if one of them is healthy, or its first health checks still run.
func targetsIn(g cloud.TargetGroup) (text string, works bool) {
	states, whys := make(map[string]int), make(map[string]string)
	for _, t := range g.Targets {
		states[t.State]++
		if t.Why != "" && whys[t.State] == "" {
			whys[t.State] = t.ID + ": " + t.Why
		}
	}
	var all []string
	for _, state := range []string{"healthy", "initial", "unhealthy", "unused", "unavailable", "draining"} {
		n := states[state]
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n, state)
		if why := whys[state]; why != "" && state != "healthy" {
			part += " (" + why + ")"
		}
		all = append(all, part)
	}
	return cmp.Or(strings.Join(all, ", "), "no targets"), states["healthy"]+states["initial"] > 0
}

// explainNodes shows which Nodes are targets, and why others are not.
func (c *Controller) explainNodes(l *lines, s *service) {
	const most = 3
	n, all := 0, 0
	var without []string
	for _, name := range c.nodeNames() {
		node := c.nodes[name]
		if !node.matches(s.want.NodeLabels) {
			continue
		}
		all++
		if text, ok := c.target(node); ok {
			n++
		} else if len(without) < most {
			without = append(without, name+": "+text)
		}
	}
	text := fmt.Sprintf("%d of %d can be targets", n, all)
	if len(s.want.NodeLabels) > 0 {
		text += ", with the labels of the annotation"
	}
	if more := all - n - len(without); more > 0 {
		without = append(without, fmt.Sprintf("%d more", more))
	}
	if len(without) > 0 {
		text += "; " + strings.Join(without, "; ")
	}
	l.add("Nodes", n > 0, text)
}

// target returns whether a Node can be a target, or why not.
func (c *Controller) target(n node) (text string, ok bool) {
	i := c.instances[n.id]
	switch {
	case n.id == "":
		return "the Node has no providerID, so its instance is not known", false
	case !n.serves:
		return "left out: it is being removed, or has the label " + ExcludeLabel, false
	case i == nil:
		return "the instance was not looked up yet", false
	case i.Problem != "":
		return i.Problem, false
	case i.State != cloud.Running && i.State != cloud.Starting:
		return "the instance is " + string(i.State), false
	}
	return "", true
}

// next returns the writes that a Service needs, in their order, as a preview has them.
// Another process makes them.
func (c *Controller) next(s *service) []controller.Write {
	if !c.options.DryRun || !s.isOurs() || !c.look.accountKnown {
		return nil
	}
	began := c.account
	defer func() { c.account = began }()
	c.account = began.Clone()
	inCloud := c.previewOf(s, new(Planned))
	c.account = began
	c.step(s, time.Now()) // the preview ends where all is done
	first, ok := c.stepOf(s, time.Now())
	if s.writing = false; !ok {
		return inCloud
	}
	return append([]controller.Write{first}, inCloud...)
}

// explainNext shows the writes that a Service needs.
func (l *lines) explainNext(all []controller.Write) {
	const most = 20
	for i, w := range all {
		if i == most {
			l.add("then", false, fmt.Sprintf("%d more writes, which a plan shows", len(all)-most))
			return
		}
		text := w.Summary
		if w.Before != "" && w.After != "" {
			text += fmt.Sprintf(" (before: %s; after: %s)", w.Before, w.After)
		}
		l.add(pick(i == 0, "next", "then"), false, text)
	}
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// explainNode reports whether a Node is a target.
func (c *Controller) explainNode(n node) []controller.Line {
	line := controller.Line{What: "target of load balancers", OK: true, Text: "its instance is registered"}
	if text, ok := c.target(n); !c.look.needed {
		line.Text = "no Service has a load balancer of ours"
	} else if !ok {
		line.OK, line.Text = n.id != "" && !n.serves, text
	} else if _, problem := c.groupOf(c.instances[n.id]); problem != "" && c.options.Rules.NodeRules {
		line.OK, line.Text = false, problem
	}
	return []controller.Line{line}
}

// nodeNames returns the names of all Nodes, in order.
func (c *Controller) nodeNames() []string {
	all := make([]string, 0, len(c.nodes))
	for name := range c.nodes {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
