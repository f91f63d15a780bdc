package awscluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// contractPeriod is how often the contract of the CustomResourceDefinition is read.
const contractPeriod = 10 * time.Minute

func (c *Controller) contractDue(now time.Time) ([]string, time.Time) {
	switch {
	case len(c.networks) == 0 || c.asking:
		return nil, time.Time{}
	case now.Before(c.due):
		return nil, c.due
	}
	c.asking = true
	return []string{definition}, time.Time{}
}

// definitionMeta is what is read of a CustomResourceDefinition.
type definitionMeta struct{ Metadata capi.Meta }

var definitionFormat = kube.JSON[definitionMeta]("CustomResourceDefinition")

func (c *Controller) readContract(ctx context.Context, keys []string) (map[string]capi.Contract, error) {
	var d definitionMeta
	if err := kube.Get(ctx, c.options.Client, definition, definitionFormat, &d); err != nil {
		return nil, fmt.Errorf("read the CustomResourceDefinition of AWSClusters, whose labels name the contract: %w; the role needs get of it", err)
	}
	return map[string]capi.Contract{keys[0]: capi.ContractOf(d.Metadata.Labels, version)}, nil
}

func (c *Controller) takeContract(_ []string, found map[string]capi.Contract) {
	c.asking = false
	now := time.Now()
	read, ok := found[definition]
	if !ok {
		c.due = now.Add(backoff.After(3))
		return
	}
	c.due = now.Add(contractPeriod)
	if c.contract != read {
		c.contract = read
		for key := range c.networks {
			c.steps.Advance(key, now)
		}
	}
}

// more reports whether networks have not been read yet.
func (c *Controller) more() bool {
	for _, n := range c.networks {
		if n.works() && n.seen == nil {
			return true
		}
	}
	return false
}

// readDue returns one network to read.
func (c *Controller) readDue(now time.Time) (keys []string, again time.Time) {
	var busy []string
	for {
		key, due := c.reads.Pop(now)
		if !due {
			again = c.reads.Next()
			break
		}
		n := c.networks[key]
		if n == nil || !n.works() || n.reading || n.run != nil {
			continue
		}
		if c.reading.left(n.job.region) == 0 {
			busy = append(busy, key)
			continue
		}
		n.reading, n.stale = true, false
		c.reading.take(n.job.region)
		keys = c.ask(&c.jobs, asked{key, n.job, n.known})
		break
	}
	for _, key := range busy { // the end of a reading leads here again
		c.reads.Set(key, now)
	}
	return keys, again
}

// ask keeps what a Read is about, and returns the key that the Read gets. Each has one of its
// own: an object may be created again while a Read of the earlier one goes on.
func (c *Controller) ask(in *sync.Map, what any) []string {
	c.number++
	key := strconv.FormatUint(c.number, 10)
	in.Store(key, what)
	return []string{key}
}

// asked is what a reading is about.
type asked struct {
	key   string // of the network
	job   job
	known known
}

// read reads a network. A failure is part of what was found, because it concerns one network.
func (c *Controller) read(ctx context.Context, keys []string) (map[string]seen, error) {
	what, _ := c.jobs.LoadAndDelete(keys[0])
	of := what.(asked)
	in, err := c.options.Region(of.job.region)
	if err != nil {
		return map[string]seen{keys[0]: {key: of.key, job: of.job, err: err}}, nil
	}
	s := look(ctx, in, of.job, of.known)
	s.key = of.key
	if c.options.Preview {
		return map[string]seen{keys[0]: s}, s.err
	}
	return map[string]seen{keys[0]: s}, nil
}

// take takes what a reading found.
func (c *Controller) take(keys []string, found map[string]seen) {
	s, now := found[keys[0]], time.Now()
	key := s.key
	c.reading.give(s.job.region)
	n := c.networks[key]
	if n == nil || !n.reading { // it was deleted, and perhaps created again
		return
	}
	n.reading = false
	c.steps.Advance(key, now)
	if n.stale || !n.works() || !reflect.DeepEqual(s.job, n.job) { // or it is of an earlier object of this name
		n.stale = false
		c.plan(n, now, true)
		return
	}
	c.took(n, s, now)
}

// took decides what follows from a reading.
func (c *Controller) took(n *network, s seen, now time.Time) {
	key, before := n.Key(), n.seen
	if s.err != nil {
		n.unread++
		if before != nil && before.err == nil { // what was known stays known
			kept := *before
			kept.err = s.err
			s = kept
		}
		n.seen = &s
		c.reads.Set(key, now.Add(pause(s.err, n.unread)))
		c.warn(n, "ReadingFailed", s.err.Error())
		return
	}
	n.seen, n.known, n.unread = &s, s.known, 0
	switch {
	case len(s.problems) > 0:
		c.warn(n, "InvalidSpec", problemsText(s.problems))
		c.reads.Set(key, now.Add(c.options.Period))
	case len(s.short) > 0:
		n.failures++
		c.warn(n, "QuotaExceeded", s.shortage().Error())
		c.reads.Set(key, now.Add(max(c.options.Period/2, backoff.After(n.failures))))
	case len(s.plan.Steps) == 0:
		c.rest(n, now)
	default:
		c.begin(n, now)
	}
}

// rest is called when a reading found nothing to do.
func (c *Controller) rest(n *network, now time.Time) {
	n.trouble, n.failures, n.passes = nil, 0, 0
	if n.job.end {
		if s := n.seen; !s.gone {
			n.blocked++
			c.warn(n, "DeletionBlocked", blockedText(s.plan))
			c.reads.Set(n.Key(), now.Add(holding.After(n.blocked)))
		}
		return // or the finalizer goes
	}
	n.settled = len(n.seen.plan.Problems) == 0
	if len(n.drifted) > 0 {
		c.note(n, "Restored", listed(n.drifted, "; "))
		n.drifted = nil
	}
	if len(n.seen.plan.Problems) > 0 {
		c.warn(n, "CannotChange", problemsText(n.seen.plan.Problems))
	}
	c.reads.Set(n.Key(), now.Add(c.options.Period))
}

// begin begins the plan of a reading.
func (c *Controller) begin(n *network, now time.Time) {
	if n.settled && !n.job.end {
		n.drifted = summaries(n.seen.plan.Steps)
	}
	n.settled = false
	if c.options.Preview {
		c.reads.Set(n.Key(), now.Add(c.options.Period))
		return
	}
	if more := n.passes + 1 - patientPasses; more > 0 {
		if at := now.Add(backoff.After(more)); n.held.Before(at) {
			n.held = at
		}
	}
	n.run, n.polls, n.polled = apply.New(n.seen.plan), 0, nil
	if n.job.end && len(n.seen.plan.Blocked) > 0 {
		c.warn(n, "DeletionBlocked", blockedText(n.seen.plan))
	}
}

// pause returns how long to wait after a failed reading.
func pause(err error, failures int) time.Duration {
	if cloud.KindOf(err) == cloud.Pending { // AWS does not show something yet
		return backoff.First
	}
	return backoff.After(failures)
}

// pollDue returns one network of which AWS makes something.
func (c *Controller) pollDue(now time.Time) (keys []string, again time.Time) {
	var busy []string
	for {
		key, due := c.polls.Pop(now)
		if !due {
			again = c.polls.Next()
			break
		}
		n := c.networks[key]
		if n == nil || n.run == nil || n.polling {
			continue
		}
		ids := n.run.Waiting()
		if len(ids) == 0 {
			continue
		}
		if c.polling.left(n.job.region) == 0 {
			busy = append(busy, key)
			continue
		}
		n.polling = true
		c.polling.take(n.job.region)
		keys = c.ask(&c.waits, wait{key, n.job.region, n.run, ids})
		break
	}
	for _, key := range busy { // the end of a poll leads here again
		c.polls.Set(key, now)
	}
	return keys, again
}

// wait is what is polled, and polled what was found.
type (
	wait struct {
		key    string // of the network
		region string
		run    *apply.Run
		ids    []string
	}
	polled struct {
		wait
		now map[string]awsnet.Found
		err error
	}
)

func (c *Controller) poll(ctx context.Context, keys []string) (map[string]polled, error) {
	what, _ := c.waits.LoadAndDelete(keys[0])
	p := polled{wait: what.(wait)}
	in, err := c.options.Region(p.region)
	if err == nil {
		p.now, err = in.Now(ctx, p.ids)
	}
	p.err = err
	return map[string]polled{keys[0]: p}, nil
}

func (c *Controller) takePoll(keys []string, found map[string]polled) {
	p, now := found[keys[0]], time.Now()
	key := p.key
	n := c.networks[key]
	c.polling.give(p.region)
	if n == nil {
		return
	}
	if n.polling = false; n.run == nil {
		return
	}
	if n.run != p.run {
		c.schedulePoll(n, now)
		return
	}
	if p.err == nil {
		n.run.Saw(p.ids, p.now)
	}
	n.run.Expire(now, p.err)
	c.steps.Advance(key, now)
	c.schedulePoll(n, now)
	c.over(n, now)
}

// schedulePoll makes the next poll due. It comes soon after something new waits.
func (c *Controller) schedulePoll(n *network, now time.Time) {
	if n.run == nil {
		return
	}
	ids := n.run.Waiting()
	if len(ids) == 0 || n.polling {
		c.polls.Remove(n.Key())
		n.polled = nil
		return
	}
	if slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(n.polled, id) }) {
		n.polls = 0
	} else if c.polls.Has(n.Key()) {
		return
	}
	n.polled = ids
	n.polls++
	c.polls.Set(n.Key(), now.Add(polling.After(n.polls)))
}

// over ends a run of which nothing can go on.
func (c *Controller) over(n *network, now time.Time) {
	if n.run == nil || n.flying > 0 {
		return
	}
	p := n.run.Progress()
	if !p.Over() {
		return
	}
	key := n.Key()
	n.abandon()
	c.polls.Remove(key)
	c.steps.Advance(key, now)
	if p.Done > 0 { // what failed before may work again
		n.failures = 0
		n.passes++
	}
	if n.trouble = p.Failed; len(p.Failed) == 0 {
		c.reads.Set(key, now)
		return
	}
	n.failures++
	c.warn(n, "ChangeFailed", troubleText(p.Failed))
	c.reads.Set(key, now.Add(backoff.After(n.failures)))
}

// note sends an event.
func (c *Controller) note(n *network, reason, text string) {
	c.options.Event(controller.Event{Object: n.ref(), Reason: reason, Message: clip(text)})
}

// warn sends a warning.
func (c *Controller) warn(n *network, reason, text string) {
	c.options.Event(controller.Event{Object: n.ref(), Warning: true, Reason: reason, Message: clip(text)})
}

// longestEvent limits the message of an event. The API allows 1024 bytes.
const longestEvent = 1000

func clip(text string) string {
	if len(text) <= longestEvent {
		return text
	}
	return strings.ToValidUTF8(text[:longestEvent], "") + " …"
}
