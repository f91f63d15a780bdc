package awscluster

import (
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Name is the controller's name.
const Name = "awscluster-controller"

const (
	// callTime is how long a call may take, with the wait for what was just created.
	callTime = 40 * time.Second
	// lateTime is how long AWS may take to show what a creation of an earlier leader made.
	lateTime = 20 * time.Second
	// mostCalls limits the calls in flight over all networks, and mostOfOne those of one.
	mostCalls = 48
	mostOfOne = 8
	// mostReads limits the readings at once, and mostInRegion those of one region.
	mostReads    = 16
	mostInRegion = 4
	// tellTime is the shortest time between two statuses that differ in progress alone.
	tellTime = 5 * time.Second
	// patientPasses is how many runs in a row may do something before the next one has to
	// wait.
	patientPasses = 3
)

var (
	// backoff paces readings after a failure.
	backoff = retry.Backoff{First: 5 * time.Second, Last: 5 * time.Minute}
	// holding paces those of a deletion that something holds.
	holding = retry.Backoff{First: 5 * time.Second, Last: time.Minute}
	// polling paces the reads of what AWS makes in the background. Some of it takes less than
	// a second, and some minutes.
	polling = retry.Backoff{First: 100 * time.Millisecond, Last: 15 * time.Second}
)

// Options are what a Controller needs.
type Options struct {
	Client *kube.Client
	// Region returns the account in a region. It may be slow, and is called outside the loop.
	Region func(name string) (Cloud, error)
	// Period is the time between two comparisons of a network with the account.
	Period time.Duration
	// Preview plans all calls at once, and makes none.
	Preview bool
	// Event sends an event about an AWSCluster.
	Event func(controller.Event)
}

// Controller builds and keeps networks. Only the Engine's loop uses it.
type Controller struct {
	options  Options
	networks map[string]*network // by namespace and name
	lists    int64               // the list of AWSClusters that began last
	clusters map[string]cluster  // likewise
	// claims are the AWSClusters whose annotations name a network, by namespace and name.
	claims   map[identity]map[string]*network
	versions [2]map[string]cluster
	contract capi.Contract // "" until it is read

	steps   controller.Schedule // networks that may need a write to Kubernetes
	reads   controller.Schedule // networks to read
	polls   controller.Schedule // networks of which AWS makes something
	due     time.Time           // when the contract is read next
	asking  bool
	reading shares // readings in flight, by region
	polling shares // polls in flight, likewise
	turn    string // the network that made the last call
	flights map[controller.Ref]flight
	late    time.Time // until then AWS may still show what an earlier leader made
	doubt   time.Time // when a creation last ended without an answer

	number uint64 // of Reads

	// Outside of the loop.
	jobs    sync.Map // what is being read: asked by the Read's key
	waits   sync.Map // what is being polled: wait by the Read's key
	answers sync.Map // answers to writes of objects in flight, by UID
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, o Options) *Controller {
	c := &Controller{
		options: o, networks: make(map[string]*network), clusters: make(map[string]cluster), claims: make(map[identity]map[string]*network),
		steps: controller.NewSchedule(), reads: controller.NewSchedule(), polls: controller.NewSchedule(),
		reading: newShares(mostReads, mostInRegion), polling: newShares(mostReads, mostReads), flights: make(map[controller.Ref]flight),
	}
	for i, path := range []string{capi.ClustersBeta1, capi.Clusters} {
		controller.Follow(e, controller.Feed[capi.Cluster, cluster]{
			What: "clusters of " + []string{"v1beta1", "v1beta2"}[i], Client: o.Client, Path: path, Format: capi.Format, Optional: true,
			Keep: func(o *capi.Cluster) (string, cluster) {
				return o.Metadata.Key(), cluster{o.Paused(), o.Spec.Endpoint, o.Spec.Network.APIPort}
			},
			List:   func(all map[string]cluster) { c.versions[i] = all; c.join() },
			Set:    func(key string, v cluster) { c.versions[i][key] = v; c.join(key) },
			Delete: func(key string) { delete(c.versions[i], key); c.join(key) },
		})
	}
	controller.Follow(e, controller.Feed[object, state]{
		What: "awsclusters", Client: o.Client, Path: AWSClusters, Format: objectFormat, Optional: true,
		Keep: keep, Begin: func(list int64) { c.lists = list }, NumberedList: c.list, Set: c.set, Delete: c.remove,
	})
	controller.LookUp(e, controller.Lookup[capi.Contract]{What: "contract of awsclusters", Due: c.contractDue, Read: c.readContract, Take: c.takeContract})
	controller.LookUp(e, controller.Lookup[seen]{What: "networks", Side: mostReads, Due: c.readDue, Read: c.read, Take: c.take, More: c.more})
	controller.LookUp(e, controller.Lookup[polled]{What: "objects that AWS makes", Side: mostReads, Due: c.pollDue, Read: c.poll, Take: c.takePoll})
	e.Add(c)
	return c
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// MostCloudWrites implements controller.CloudBatcher.
func (c *Controller) MostCloudWrites() int { return mostCalls }

// Lead implements controller.Controller. What was read before may be old.
func (c *Controller) Lead(t election.Term) {
	now := time.Now()
	c.reading, c.polling = newShares(mostReads, mostInRegion), newShares(mostReads, mostReads)
	c.flights, c.asking, c.due = make(map[controller.Ref]flight), false, time.Time{}
	c.reads, c.polls = controller.NewSchedule(), controller.NewSchedule()
	c.late, c.doubt = time.Time{}, time.Time{}
	if !t.Clean {
		c.late = now.Add(lateTime)
	}
	for _, n := range c.networks {
		n.writing, n.fails, n.retry, n.told = false, 0, time.Time{}, time.Time{}
		n.reading, n.stale, n.seen, n.known, n.settled = false, false, nil, known{}, false
		n.unread, n.failures, n.blocked, n.passes = 0, 0, 0, 0
		n.abandon()
		n.flying, n.polling, n.trouble, n.drifted, n.held, n.late = 0, false, nil, nil, time.Time{}, time.Time{}
		c.hold(n)
		c.judge(n, now)
	}
}

// hold holds back the readings of a network that an earlier leader may have worked on: AWS
// may not show what that made, and a plan would make it twice. A client also keeps a reading
// for the next ones.
func (c *Controller) hold(n *network) {
	if n.finalized() {
		n.late = c.late
	}
}

// Clean implements controller.Controller. A late change repeats what the network is to be,
// or was to be until its spec changed. A late creation would make a twin, or outlive a
// deletion.
func (c *Controller) Clean() bool {
	return len(c.flights) == 0 && time.Since(c.doubt) >= lateTime
}

// join sets the Clusters of both versions, or some of them. The newer version wins.
func (c *Controller) join(keys ...string) {
	from := c.versions[1]
	if from == nil {
		from = c.versions[0]
	}
	c.clusters = from
	now := time.Now()
	if len(keys) == 0 {
		for _, n := range c.networks {
			c.judge(n, now)
		}
		return
	}
	for _, n := range c.networks {
		if slices.ContainsFunc(n.Owners, func(o capi.Owner) bool { return slices.Contains(keys, n.Namespace+"/"+o.Name) }) {
			c.judge(n, now)
		}
	}
}

// list replaces all AWSClusters. A server without the resource has none. The list may be older
// than a write that ended after the list began. After a restore of the cluster from a backup, it
// may also be older than the known state.
func (c *Controller) list(number int64, all map[string]state) {
	controller.Replace(c.networks, all, func(key string, s state) {
		if n := c.networks[key]; n == nil || n.written < number || !s.isOlder(n.state) {
			c.enter(key, s)
		}
	}, c.remove)
}

// set takes a state of an AWSCluster from the watch, unless the answer to a write has shown a
// later one.
func (c *Controller) set(key string, s state) {
	if n := c.networks[key]; n == nil || !s.isOlder(n.state) {
		c.enter(key, s)
	}
}

// enter replaces the state of an AWSCluster.
func (c *Controller) enter(key string, s state) {
	n, now := c.networks[key], time.Now()
	if n == nil || n.UID != s.UID {
		if n != nil {
			c.release(n, now)
		}
		n = &network{state: s, preview: c.options.Preview}
		c.networks[key] = n
		c.hold(n)
	}
	if n.state = s; n.fails == 0 {
		n.retry = time.Time{} // a write waited for this, and not because it failed
	}
	c.judge(n, now)
}

// remove takes the deletion of an AWSCluster.
func (c *Controller) remove(key string) {
	n := c.networks[key]
	delete(c.networks, key)
	c.steps.Remove(key)
	c.reads.Remove(key)
	c.polls.Remove(key)
	if n != nil {
		c.release(n, time.Now())
	}
}
