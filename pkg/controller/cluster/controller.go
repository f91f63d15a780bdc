package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Name is the controller's name.
const Name = "cluster-controller"

const (
	// waitingPeriod is how often the Secrets and the API server of a Cluster are looked at that
	// is not initialized, and restPeriod of one that is.
	waitingPeriod = 20 * time.Second
	restPeriod    = 10 * time.Minute
	// mostReads is how many Clusters are looked at side by side.
	mostReads = 8
	// longestEvent limits the message of an event. The API allows 1024 bytes.
	longestEvent = 1000
	// shownLimit is how long a write waits for the watch to show it.
	shownLimit = time.Second
)

var backoff = retry.Backoff{First: time.Second, Last: 5 * time.Minute}

// Options are what a Controller needs.
type Options struct {
	Client *kube.Client
	// Preview plans all writes at once, and makes none.
	Preview bool
	// Event sends an event about a Cluster.
	Event func(controller.Event)
	// probe asks an API server; nil is the package's own.
	probe func(ctx context.Context, a access) error
}

// Controller does the core's part for Clusters on AWSClusters. Only the Engine's loop uses it.
type Controller struct {
	options  Options
	versions [2]map[string]capi.Cluster // by namespace and name; nil for what the server lacks
	infras   map[string]infra
	states   map[string]*state // of Clusters that are ours
	steps    controller.Schedule
	reads    controller.Schedule
	number   uint64                    // of Reads
	asked    sync.Map                  // what is being looked at: question by the Read's key
	flights  map[controller.Ref]string // the Clusters of writes in flight
}

// state is what is known of a Cluster beside the object.
type state struct {
	secrets secretState
	looking bool
	looked  capi.Endpoint // what the last reading was for
	fails   int           // of looking, in a row
	flying  bool
	failed  int // writes in a row
	retry   time.Time
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, o Options) *Controller {
	if o.probe == nil {
		o.probe = probe
	}
	c := &Controller{
		flights: make(map[controller.Ref]string), options: o, infras: make(map[string]infra), states: make(map[string]*state), steps: controller.NewSchedule(), reads: controller.NewSchedule(),
	}
	for i, path := range []string{capi.ClustersBeta1, capi.Clusters} {
		controller.Follow(e, controller.Feed[capi.Cluster, capi.Cluster]{
			What: "whole clusters of " + []string{"v1beta1", "v1beta2"}[i], Client: o.Client, Path: path, Format: capi.Format, Optional: true,
			Keep:   func(o *capi.Cluster) (string, capi.Cluster) { return o.Metadata.Key(), *o },
			List:   func(all map[string]capi.Cluster) { c.versions[i] = all; c.judgeAll() },
			Set:    func(key string, v capi.Cluster) { c.versions[i][key] = v; c.judge(key) },
			Delete: func(key string) { delete(c.versions[i], key); c.judge(key) },
		})
	}
	controller.Follow(e, controller.Feed[infra, infra]{
		What: "infrastructure of clusters", Client: o.Client, Path: infraPath, Format: infraFormat, Optional: true,
		Keep:   func(i *infra) (string, infra) { return i.Metadata.Key(), *i },
		List:   func(all map[string]infra) { c.infras = all; c.judgeAll() },
		Set:    func(key string, v infra) { c.infras[key] = v; c.judgeUsers(v.Metadata) },
		Delete: func(key string) { i := c.infras[key]; delete(c.infras, key); c.judgeUsers(i.Metadata) },
	})
	controller.LookUp(e, controller.Lookup[found]{What: "kubeconfigs of clusters", Side: mostReads, Due: c.readDue, Read: c.read, Take: c.take})
	e.Add(c)
	return c
}

// version returns the newest version of Clusters that the server has.
func (c *Controller) version() int {
	if c.versions[beta2] != nil {
		return beta2
	}
	return beta1
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Clean implements controller.Controller. Every write has the version of its object as a
// precondition, or creates what another one of the same name would refuse.
func (c *Controller) Clean() bool { return true }

// Lead implements controller.Controller.
func (c *Controller) Lead(election.Term) {
	clear(c.states)
	clear(c.flights)
	c.steps, c.reads = controller.NewSchedule(), controller.NewSchedule()
	c.judgeAll()
}

func (c *Controller) judgeAll() {
	for key := range c.states {
		c.judge(key)
	}
	for key := range c.versions[c.version()] {
		c.judge(key)
	}
}

// judgeUsers judges the Clusters that refer to an infrastructure.
func (c *Controller) judgeUsers(of capi.Meta) {
	for key, o := range c.versions[c.version()] {
		if o.Spec.Infrastructure.Name == of.Name && o.Metadata.Namespace == of.Namespace {
			c.judge(key)
		}
	}
}

// judge decides what a Cluster needs, after something about it has changed.
func (c *Controller) judge(key string) {
	o, is := c.versions[c.version()][key]
	if !is || !o.Spec.Infrastructure.In(infraGroup, infraKind) || o.Metadata.DeletionTimestamp != "" || o.Paused() {
		delete(c.states, key)
		c.steps.Remove(key)
		c.reads.Remove(key)
		return
	}
	s, now := c.states[key], time.Now()
	if s == nil {
		s = new(state)
		c.states[key] = s
	}
	c.steps.Advance(key, now)
	if e := o.Spec.Endpoint; e.Valid() && !s.looking && (e != s.looked || !c.reads.Has(key)) {
		c.reads.Set(key, now)
	}
}

// infraOf returns the infrastructure of a Cluster, or nil and why it has none. One that belongs
// to another Cluster does not count: its machines would join that one's network.
func (c *Controller) infraOf(o capi.Cluster) (*infra, string) {
	name := o.Spec.Infrastructure.Name
	i, is := c.infras[o.Metadata.Namespace+"/"+name]
	if !is {
		return nil, infraKind + " " + name + " does not exist"
	}
	owner, owned := capi.ClusterOf(i.Metadata.Owners)
	switch {
	case owned && owner.UID == o.Metadata.UID:
		return &i, ""
	case owned && owner.Name != o.Metadata.Name:
		return nil, infraKind + " " + name + " belongs to Cluster " + owner.Name + "; create another one for this Cluster"
	case i.Metadata.DeletionTimestamp != "":
		return nil, infraKind + " " + name + " is being deleted, and does not belong to this Cluster"
	}
	return &i, ""
}

// question is what is looked at, and found the answer.
type (
	question struct {
		meta     capi.Meta
		endpoint capi.Endpoint
		up       bool
	}
	found struct {
		of    question
		state secretState
		err   error
	}
)

func (c *Controller) readDue(now time.Time) ([]string, time.Time) {
	for {
		key, due := c.reads.Pop(now)
		if !due {
			return nil, c.reads.Next()
		}
		s, o := c.states[key], c.versions[c.version()][key]
		if s == nil || s.looking {
			continue
		}
		s.looking, s.looked = true, o.Spec.Endpoint
		// Each Read has a key of its own: a Cluster may be created again while one of the earlier
		// Cluster goes on.
		c.number++
		id := strconv.FormatUint(c.number, 10)
		c.asked.Store(id, question{o.Metadata, o.Spec.Endpoint, o.Status.Initialization.ControlPlane || isTrue(o.Status.Conditions, initialized)})
		return []string{id}, time.Time{}
	}
}

func (c *Controller) read(ctx context.Context, keys []string) (map[string]found, error) {
	what, _ := c.asked.LoadAndDelete(keys[0])
	q := what.(question)
	s, err := c.look(ctx, q.meta, q.endpoint, q.up)
	return map[string]found{keys[0]: {q, s, err}}, err
}

func (c *Controller) take(keys []string, all map[string]found) {
	f, now := all[keys[0]], time.Now()
	key := f.of.meta.Key()
	s := c.states[key]
	if s == nil {
		return
	}
	s.looking = false
	next := waitingPeriod
	switch o := c.versions[c.version()][key]; {
	case f.of.meta.UID != o.Metadata.UID || f.of.endpoint != o.Spec.Endpoint:
		next = 0 // it is of an earlier Cluster of this name, or of another endpoint
	case f.err != nil:
		s.fails++
		next = controller.Backoff(backoff, s.fails, f.err)
	default:
		s.fails, s.secrets = 0, f.state
		if f.state.make == "" && f.state.problem == "" && f.state.silent == "" {
			next = restPeriod
		}
	}
	c.reads.Set(key, now.Add(next))
	c.steps.Advance(key, now)
}

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, most int) (writes []controller.Write, again time.Time) {
	if c.options.Preview { // a preview shows all, also what is not due yet
		for _, key := range slices.Sorted(maps.Keys(c.states)) {
			if s := c.states[key]; !s.flying {
				writes = append(writes, c.writesOf(key, s, now)...)
			}
		}
		return writes, time.Time{}
	}
	for len(writes) < most {
		key, due := c.steps.Pop(now)
		if !due {
			break
		}
		s := c.states[key]
		switch {
		case s == nil || s.flying:
		case now.Before(s.retry):
			c.steps.Set(key, s.retry)
		default:
			writes = append(writes, c.writesOf(key, s, now)...)
		}
	}
	return writes, c.steps.Next()
}

// writesOf returns what a Cluster needs now: the owner first, then the endpoint, the status
// and the kubeconfig, each of another object or part.
func (c *Controller) writesOf(key string, s *state, now time.Time) []controller.Write {
	o, version := c.versions[c.version()][key], c.version()
	i, none := c.infraOf(o)
	if i != nil && i.Metadata.DeletionTimestamp == "" && !i.Metadata.Has(capi.PausedAnnotation) {
		if w, needed := c.own(o, *i, version); needed {
			if _, flying := c.flights[w.Object]; flying { // another Cluster's, which names it as well
				c.steps.Set(key, now.Add(shownLimit))
				return nil
			}
			return c.fly(key, w)
		}
	}
	if i != nil && i.provisioned() && !o.Spec.Endpoint.Valid() && i.Spec.Endpoint.Valid() {
		return c.fly(key, c.endpoint(o, i.Spec.Endpoint, version))
	}
	if patch := statusOf(o, i, none, s.secrets, version, now); patch != nil {
		return c.fly(key, c.status(o, patch, version))
	}
	// What makes the control plane makes the kubeconfig, too, if the Cluster names it.
	if why := s.secrets.make; why != "" && o.Spec.Endpoint.Valid() && (o.Spec.ControlPlane.Kind == "" || s.secrets.have.UID != "") {
		return c.fly(key, c.kubeconfig(o, why, s.secrets.have, version))
	}
	return nil
}

// fly marks a write as in flight.
func (c *Controller) fly(key string, w controller.Write) []controller.Write {
	c.states[key].flying = true
	c.flights[w.Object] = key
	return []controller.Write{w}
}

func apiVersion(version int) string {
	return capi.Group + "/" + []string{"v1beta1", "v1beta2"}[version]
}

// ref returns a Cluster as an object of writes.
func ref(o capi.Cluster, version int) controller.Ref {
	m := o.Metadata
	return controller.Ref{APIVersion: apiVersion(version), Kind: "Cluster", Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// merge returns a write of a Cluster, or of its status.
func (c *Controller) merge(o capi.Cluster, version int, summary string, m kube.Merge, part ...string) controller.Write {
	path := kube.Path("apis/"+apiVersion(version)+"/namespaces", append([]string{o.Metadata.Namespace, "clusters", o.Metadata.Name}, part...)...)
	return controller.Write{
		Controller: Name, Object: ref(o, version), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) error { _, err := c.options.Client.Merge(ctx, path, m); return err },
	}
}

func (c *Controller) endpoint(o capi.Cluster, e capi.Endpoint, version int) controller.Write {
	return c.merge(o, version, fmt.Sprintf("set controlPlaneEndpoint %s:%d", e.Host, e.Port), kube.Merge{If: o.Metadata.Version, Spec: map[string]any{"controlPlaneEndpoint": e}})
}

func (c *Controller) status(o capi.Cluster, patch map[string]any, version int) controller.Write {
	return c.merge(o, version, "set the status: "+text(patch), kube.Merge{If: o.Metadata.Version, Status: patch}, "status")
}

// own returns the write that makes a Cluster the owner of its infrastructure, and false if it
// is. An earlier Cluster of its name loses it.
func (c *Controller) own(o capi.Cluster, i infra, version int) (w controller.Write, needed bool) {
	owner, has := capi.ClusterOf(i.Metadata.Owners)
	if has && owner.UID == o.Metadata.UID && i.Metadata.Labels[capi.NameLabel] == o.Metadata.Name {
		return w, false
	}
	yes := true
	mine := capi.Owner{APIVersion: apiVersion(version), Kind: "Cluster", Name: o.Metadata.Name, UID: o.Metadata.UID, Controller: &yes}
	owners := slices.DeleteFunc(slices.Clone(i.Metadata.Owners), func(x capi.Owner) bool { return x == owner && has })
	m := kube.Merge{If: i.Metadata.Version, Metadata: map[string]any{"ownerReferences": append(owners, mine), "labels": map[string]string{capi.NameLabel: o.Metadata.Name}}}
	path := kube.Path("apis/"+infraVersion+"/namespaces", i.Metadata.Namespace, "awsclusters", i.Metadata.Name)
	return controller.Write{
		Controller: Name, Object: i.ref(), Verb: controller.Patch, Summary: "make Cluster " + o.Metadata.Name + " its owner",
		Do: func(ctx context.Context) error { _, err := c.options.Client.Merge(ctx, path, m); return err },
	}, true
}

// kubeconfig returns the write of the Secret with the kubeconfig.
func (c *Controller) kubeconfig(o capi.Cluster, why string, have kube.Version, version int) controller.Write {
	m, e, verb := o.Metadata, o.Spec.Endpoint, controller.Create
	if have.UID != "" {
		verb = controller.Patch
	}
	named := []string{"v1beta1", "v1beta2"}[version]
	return controller.Write{
		Controller: Name, Object: controller.Ref{Kind: "Secret", Namespace: m.Namespace, Name: m.Name + kubeconfigSuffix}, Verb: verb,
		Summary: "make the kubeconfig, because " + why,
		Do:      func(ctx context.Context) error { return c.makeSecret(ctx, m, named, e, have) },
	}
}

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	key, now := c.flights[w.Object], time.Now()
	delete(c.flights, w.Object)
	s := c.states[key]
	if s == nil {
		return
	}
	s.flying = false
	switch {
	case err == controller.ErrNotMade:
		return
	case err == nil || kube.Moved(err):
		s.failed, s.retry = 0, now.Add(shownLimit)
		if w.Object.Kind == "Secret" {
			s.secrets = secretState{}
			c.reads.Set(key, now)
		}
	default:
		s.failed++
		s.retry = now.Add(controller.Backoff(backoff, s.failed, err))
		c.options.Event(controller.Event{Object: ref(c.versions[c.version()][key], c.version()), Warning: true, Reason: "WriteFailed", Message: strings.ToValidUTF8(err.Error()[:min(len(err.Error()), longestEvent)], "")})
	}
	c.steps.Advance(key, now)
}

// Report is the state of the controller: how many Clusters it serves, and how many of them
// wait for their infrastructure or their API server.
type Report struct{ Clusters, Waiting int }

// Report returns the state of the controller. Call it in the Engine's loop.
func (c *Controller) Report() (r Report) {
	for key := range c.states {
		o := c.versions[c.version()][key]
		r.Clusters++
		if !isTrue(o.Status.Conditions, initialized) {
			r.Waiting++
		}
	}
	return r
}
