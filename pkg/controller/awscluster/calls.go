package awscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

// flight is a call in flight.
type flight struct {
	key    string // of its network
	uid    string
	region string
	run    *apply.Run
	task   apply.Task
	made   *[]apply.Made // what Do sets
}

// PlanCloud implements controller.CloudPlanner: the calls that can begin now, of each network
// in turn.
func (c *Controller) PlanCloud(now time.Time, most int) (writes []controller.Write, again time.Time) {
	flying := newShares(mostCalls, mostCalls)
	for _, f := range c.flights {
		flying.take(f.region)
	}
	for _, key := range c.inTurn() {
		n := c.networks[key]
		switch {
		case c.options.Preview && n.works() && n.seen != nil && len(n.seen.short)+len(n.seen.problems) == 0:
			writes = append(writes, n.previewed()...)
			continue
		case n.run == nil || !n.works():
			continue
		case now.Before(n.held):
			again = controller.Earlier(again, n.held)
			continue
		}
		room := min(mostOfOne-n.flying, most-len(writes), flying.left(n.job.region))
		if room <= 0 {
			continue
		}
		tasks := n.run.Next(room)
		for _, t := range tasks {
			writes = append(writes, c.call(n, t))
			flying.take(n.job.region)
			c.turn = key
		}
		c.schedulePoll(n, now)
		if len(tasks) > 0 {
			continue
		}
		if c.over(n, now); n.run == nil { // the Engine looks up what is due before it plans
			again = now
		}
	}
	return writes, again
}

// inTurn returns the keys of all networks. It begins after the one that came last.
func (c *Controller) inTurn() []string {
	keys := slices.Sorted(maps.Keys(c.networks))
	i, _ := slices.BinarySearch(keys, c.turn+"\x00")
	return slices.Concat(keys[i:], keys[:i])
}

// call returns a call as a write.
func (c *Controller) call(n *network, t apply.Task) controller.Write {
	first := t.Changes[0].Step
	ref := n.part(first)
	if _, flies := c.flights[ref]; flies { // a twin: the IDs differ
		ref.Name += " " + first.Current
	}
	f := flight{key: n.Key(), uid: n.UID, region: n.job.region, run: n.run, task: t, made: new([]apply.Made)}
	c.flights[ref] = f
	n.flying++
	owner, region, open := n.seen.whose, n.job.region, c.options.Region
	return controller.Write{
		Controller: Name, Object: ref, Verb: verbOf(first), Summary: summaryOf(t), Cloud: true, Within: callTime,
		Do: func(ctx context.Context) error {
			in, err := open(region)
			if err == nil {
				*f.made, err = in.Change(ctx, owner, t.Call, t.Changes)
			}
			return err
		},
	}
}

// previewed returns all steps of a plan as writes.
func (n *network) previewed() (writes []controller.Write) {
	for _, s := range n.seen.plan.Steps {
		if len(s.Calls) > 0 {
			writes = append(writes, controller.Write{Controller: Name, Object: n.part(s), Verb: verbOf(s), Summary: s.Summary, Cloud: true})
		}
	}
	return writes
}

// part returns an object of a network as what a write changes.
func (n *network) part(s awsnet.Step) controller.Ref {
	return controller.Ref{APIVersion: apiVersion, Kind: string(s.Key.Kind), Namespace: n.Namespace, Name: n.Name + ": " + s.Key.Name, UID: n.UID}
}

func verbOf(s awsnet.Step) string {
	switch s.Verb {
	case awsnet.Create:
		return controller.Create
	case awsnet.Delete:
		return controller.Delete
	}
	return controller.Patch
}

func summaryOf(t apply.Task) string {
	text := t.Call.String() + ": " + t.Changes[0].Step.Summary
	if more := len(t.Changes) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// called takes the outcome of a call.
func (c *Controller) called(w controller.Write, err error) {
	f, flies := c.flights[w.Object]
	if !flies {
		return
	}
	delete(c.flights, w.Object)
	n, now := c.networks[f.key], time.Now()
	if w.Verb == controller.Create && err != nil && !cloud.KindOf(err).IsFinal() {
		c.doubt = now
	}
	if n == nil || n.UID != f.uid {
		return
	}
	n.flying--
	if f.run != n.run { // it was abandoned
		c.plan(n, now, true)
		return
	}
	f.run.Ended(f.task, *f.made, err)
	c.steps.Advance(f.key, now)
	c.schedulePoll(n, now)
	c.over(n, now)
}

// summaries returns what steps do.
func summaries(steps []awsnet.Step) (all []string) {
	for _, s := range steps {
		all = append(all, s.Summary)
	}
	return all
}

// fewTexts is how many of many texts a message has.
const fewTexts = 5

// listed joins the first of several texts.
func listed(all []string, by string) string {
	if len(all) <= fewTexts {
		return strings.Join(all, by)
	}
	return strings.Join(all[:fewTexts], by) + fmt.Sprintf("%sand %d more", by, len(all)-fewTexts)
}

func problemsText(all []awsnet.Problem) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return listed(texts, "; ")
}

func blockedText(p awsnet.Plan) string {
	var texts []string
	for _, b := range p.Blocked {
		texts = append(texts, b.By)
	}
	for _, x := range p.Problems {
		texts = append(texts, x.String())
	}
	if len(texts) == 0 {
		texts = []string{"AWS still shows objects of this network"}
	}
	return listed(texts, "; ")
}

func troubleText(all []apply.Failure) string {
	var texts []string
	for _, f := range all {
		text := f.Err.Error()
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return listed(texts, "; ")
}
