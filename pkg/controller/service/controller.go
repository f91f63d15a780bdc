package service

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Name is the controller's name, as cloud controller managers have it.
const Name = "service-lb-controller"

// Cloud is what the controller needs of a cloud. A reading is complete, or has an error.
type Cloud interface {
	// Instances returns what the cloud says about each instance, by its provider ID.
	// With an error, those that are missing in the map could not be read.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
	// Subnets returns the subnets of the cluster's network.
	Subnets(ctx context.Context) ([]cloud.Subnet, error)
	// Balancing returns what has the cluster's tag, without details.
	Balancing(ctx context.Context) (cloud.Balancing, error)
	// Details returns the details of balancers and target groups. What does not exist any
	// more is missing. With an error, what is missing is unknown.
	Details(ctx context.Context, ids []string) (cloud.Balancing, error)
	// SecurityGroups returns security groups, whatever their tags.
	SecurityGroups(ctx context.Context, ids []string) ([]cloud.SecurityGroup, error)
	// ChangeBalancing makes a change, and returns what it created.
	ChangeBalancing(ctx context.Context, c cloud.BalancerChange) (cloud.Balancing, error)
	// BalancerQuota returns how many objects the cloud allows.
	BalancerQuota(ctx context.Context) (cloud.BalancerQuota, error)
}

// Options are what a Controller needs.
type Options struct {
	Client *kube.Client
	Cloud  Cloud
	Rules  cloudbalancer.Options
	// Period is how often everything is compared with the cloud.
	Period time.Duration
	// DryRun plans all changes of the cloud at once.
	DryRun bool
	// Only, if set, is the only Service whose details are read, with its namespace.
	Only string
	// Region is the cloud's region, for the calls that Explain shows.
	Region string
	// Late is how long the cloud may take to make, and to show, what a creation without an
	// answer asked for; 0 is 30 s.
	Late time.Duration
	// Event sends an event about a Service.
	Event func(controller.Event)
}

const (
	// gatherTime is how long a change of Nodes waits for others.
	gatherTime = 500 * time.Millisecond
	// cloudTime is how long a change of the cloud may take.
	cloudTime = 30 * time.Second
	// lateTime is the default of Options.Late.
	lateTime = 30 * time.Second
	// patientTime is how long a security group may be in use after its balancer is gone,
	// before that is told.
	patientTime = 5 * time.Minute
	// refusedTime is how long an instance that the cloud refuses as a target is left out.
	refusedTime = 5 * time.Minute
)

var (
	// backoff paces what fails for one Service.
	backoff = retry.Backoff{First: time.Second, Last: 5 * time.Minute}
	// lingering paces deletions of what is still in use.
	lingering = retry.Backoff{First: 5 * time.Second, Last: 30 * time.Second}
)

// service is a Service that is of the type LoadBalancer, or has our finalizer.
type service struct {
	state
	claim cloudbalancer.Claim
	want  cloudbalancer.Want
	// wrong is what is wrong with the Service itself, and problems with what the cloud
	// has.
	wrong, problems []cloudbalancer.Problem
	// known is set if the Service was ours since the start, or the account has objects with
	// its UID.
	known bool
	// began is when the present work began; zero if there is none.
	began time.Time

	// The writes to Kubernetes.
	writing bool
	written int64 // the list that had begun last when the last one ended
	fails   int   // in a row
	retry   time.Time

	// The changes of the cloud.
	flying   int
	worked   bool   // changes were made since the last time that all was done
	moved    bool   // these were of targets alone
	failed   bool   // in this round
	trouble  string // the last failure, until all is done
	failures int    // rounds in a row that failed
	paused   time.Time
	stale    bool // its details have to be read again
	// doubted is when a change last ended such that the account may have another state than
	// was known. Nothing is changed before a later reading.
	doubted time.Time
	done    bool // it has all that it wants
	gone    bool // nothing of it is left
	// unanswered is until when the cloud may make what a creation without an answer asked
	// for. Only a later reading of the account shows whether it did.
	unanswered time.Time
	host       string
	targets    int
	chunk      int                  // limits the targets of a call; 0 is the cloud's limit
	refused    map[string]time.Time // instances that the cloud does not take, until when
	told       string               // the problems that an event has told
	denied     string               // the reason for which readings are denied, as an event has told
}

// isOurs reports whether the cloud has, or is to have, something for the Service.
func (s *service) isOurs() bool { return s.wanted() || s.leaving() }

// wanted reports whether the Service is to have a balancer.
func (s *service) wanted() bool { return s.claim.Ours && !s.deleting }

// leaving reports whether what the Service has is to be removed. A Service that no longer
// is of the type LoadBalancer does not say any more whose it was.
func (s *service) leaving() bool {
	return s.finalized() && (s.deleting && (s.claim.Ours || s.known) || !s.Balances)
}

// Controller gives Services load balancers. Only the Engine's loop uses it.
type Controller struct {
	options   Options
	services  map[string]*service // by namespace and name
	lists     int64               // the list of Services that began last
	nodes     map[string]node
	instances map[string]*cloud.Instance // by provider ID
	backends  map[string]*backend
	gathered  time.Time // until then, changes of Nodes are gathered
	account   *cloudbalancer.Account
	subnets   []cloud.Subnet
	quota     cloud.BalancerQuota
	look      look
	planned   Planned // of the last preview
	// running is the reading that goes on, for read alone.
	running atomic.Pointer[request]

	steps   controller.Schedule       // Services for Kubernetes
	clouds  controller.Schedule       // Services for the cloud
	changes map[controller.Ref]change // in flight
	pauses  time.Time                 // all changes, after one was throttled
	term    election.Term
	// late is until when creations of the last leader may arrive, or zero. unanswered is
	// the latest of it and of all Services.
	late, unanswered time.Time
	// answers are those to the writes of Services in flight, by UID.
	answers sync.Map
}

// change is a change in flight.
type change struct {
	cloudbalancer.Change
	key    string // of its Service
	uid    string
	answer *cloud.Balancing
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, o Options) *Controller {
	o.Late = cmp.Or(o.Late, lateTime)
	c := &Controller{
		options: o, services: make(map[string]*service), nodes: make(map[string]node), instances: make(map[string]*cloud.Instance),
		backends: make(map[string]*backend), account: cloudbalancer.NewAccount(), look: newLook(), changes: make(map[controller.Ref]change),
	}
	c.look.needed = o.DryRun && cloudbalancer.IsBalancerName(o.Only)
	controller.Follow(e, controller.Feed[object, state]{
		What: "services", Client: o.Client, Path: Services, Format: objectFormat,
		Keep: keep, Begin: func(list int64) { c.lists = list }, NumberedList: c.list, Set: c.set, Delete: c.remove,
	})
	controller.Follow(e, controller.Feed[kube.Node, node]{
		What: "nodes", Client: o.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: keepNode, List: c.listNodes, Set: c.setNode, Delete: c.deleteNode,
	})
	controller.LookUp(e, controller.Lookup[found]{What: "load balancers", Due: c.lookDue, Read: c.read, Take: c.take})
	e.Add(c)
	return c
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Lead implements controller.Controller. What was read before may be old.
func (c *Controller) Lead(t election.Term) {
	if c.term, c.late = t, (time.Time{}); !t.Clean {
		c.late = time.Now().Add(c.options.Late)
		c.unanswered = latest(c.unanswered, c.late)
	}
	c.account, c.look, c.changes, c.pauses = cloudbalancer.NewAccount(), newLook(), make(map[controller.Ref]change), time.Time{}
	c.instances, c.subnets = make(map[string]*cloud.Instance), nil
	clear(c.backends)
	for _, n := range c.nodes {
		if n.serves {
			c.look.instances[n.id] = true
		}
	}
	for key, s := range c.services {
		c.look.needed = c.look.needed || s.isOurs() || s.finalized()
		s.writing, s.flying, s.failures, s.fails, s.paused, s.retry, s.stale = false, 0, 0, 0, time.Time{}, time.Time{}, false
		s.done, s.gone, s.failed, s.began, s.refused, s.chunk, s.doubted = false, false, false, time.Time{}, nil, 0, time.Time{}
		c.due(key, time.Now())
	}
}

// Clean implements controller.Controller. A late creation may make what no Service owns any
// more. Other late changes repeat what the same Service wanted, of objects that carry its
// name, and the next comparison shows it.
func (c *Controller) Clean() bool { return !time.Now().Before(c.unanswered) }

// due makes a Service due.
func (c *Controller) due(key string, now time.Time) {
	c.steps.Set(key, now)
	if s := c.services[key]; s != nil && s.paused.After(now) {
		now = s.paused
	}
	c.clouds.Set(key, now)
}

// list replaces all Services. The list may be older than a write that ended after the list
// began. After a restore of the cluster from a backup, it may also be older than the known
// state.
func (c *Controller) list(number int64, all map[string]state) {
	controller.Replace(c.services, all, func(key string, v state) {
		if s := c.services[key]; s == nil || s.written < number || !v.isOlder(s.state) {
			c.enter(key, v)
		}
	}, c.remove)
}

// set takes a state of a Service from the watch, unless the answer to a write has shown a
// later one.
func (c *Controller) set(key string, v state) {
	if s := c.services[key]; s == nil || !v.isOlder(s.state) {
		c.enter(key, v)
	}
}

// enter replaces the state of a Service.
func (c *Controller) enter(key string, v state) {
	s, now := c.services[key], time.Now()
	switch {
	case !v.Balances && !v.finalized():
		c.remove(key)
		return
	case s == nil || s.UID != v.UID:
		s = &service{}
		c.services[key] = s
	}
	if v.version != s.version { // another program's change may be the fix
		s.retry, s.fails = time.Time{}, 0
	}
	wanted, want := s.wanted(), s.want
	s.state = v
	s.claim = c.options.Rules.Claim(v.Service)
	if s.claim.Ours {
		s.known = true
		s.want, s.wrong = c.options.Rules.Read(v.Service)
	}
	if s.wanted() != wanted || !reflect.DeepEqual(s.want, want) {
		s.paused, s.failures = time.Time{}, 0 // what has changed may be the fix
	}
	c.recognize(s)
	if s.isOurs() || s.finalized() { // the account shows whether a finalizer is ours
		c.look.needed = true
	}
	c.due(key, now)
}

// recognize makes a Service known if the account has objects with its UID, which an
// earlier process made: the Service itself may no longer say that it is ours.
func (c *Controller) recognize(s *service) {
	if s.known || !s.finalized() || !c.look.accountKnown {
		return
	}
	h := c.account.Holding(c.options.Rules.Cluster, s.Ref, nil)
	has := func(tags map[string]string) bool { return tags[cloudbalancer.UIDTag] == s.UID }
	s.known = h.Balancer != nil && has(h.Balancer.Tags) || h.Own != nil && has(h.Own.Tags) ||
		slices.ContainsFunc(h.Groups, func(g cloud.TargetGroup) bool { return has(g.Tags) })
}

// remove takes the deletion of a Service.
func (c *Controller) remove(key string) {
	delete(c.services, key)
	c.steps.Remove(key)
	c.clouds.Remove(key)
}
