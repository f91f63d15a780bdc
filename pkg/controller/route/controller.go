package route

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// Name is the controller's name, the same as in cloud controller managers.
const Name = "node-route-controller"

// Cloud is the part of a cloud's client that the controller uses.
type Cloud interface {
	// Tables returns all of the cluster's tables with all routes, or an error.
	Tables(ctx context.Context) ([]cloud.Table, error)
	// Instances returns the instances of provider IDs. If it also returns an error, those
	// that are missing from the result could not be read.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
	// ChangeRoutes makes changes, and returns the error of each.
	ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) []error
	// Forward lets an instance send and receive packets whose addresses are not its own.
	Forward(ctx context.Context, instance cloud.Instance) error
}

// Ledger stores which routes are ours.
type Ledger interface {
	// Ref names the ledger in logs and plans.
	Ref() controller.Ref
	// Read returns the contents of the ledger.
	Read(ctx context.Context) (Contents, error)
	// Write replaces entries, and returns the ledger's new version. It fails if the ledger
	// is no longer in the given version. It removes an entry without routes.
	Write(ctx context.Context, version string, entries []cloudroute.Entry) (string, error)
}

// Contents are the contents of a Ledger.
type Contents struct {
	Entries []cloudroute.Entry
	Version string
	// Problems say which entries could not be parsed, and why. Their routes count as
	// foreign.
	Problems []string
}

// Node holds the facts of a node that the controller uses.
type Node struct {
	cloudroute.Node
	// ProviderID names the instance.
	ProviderID string
	// Condition and Reason are the Node's condition NetworkUnavailable.
	Condition, Reason string
	// PublicIP are the addresses that the node publishes. Its notice contains them.
	PublicIP subnet.Pair[netip.Addr]
	// Version is the resource version that a write of the Node requires.
	Version string
	// ReadsNotices is set if the node's daemon needs notices. Notice is the node's own
	// notice, if the Source stores notices in the nodes.
	ReadsNotices bool
	Notice       string
}

// Source watches the nodes, and writes their conditions and notices.
type Source interface {
	// Follow watches all nodes. It calls List, Set and Delete in the Engine's loop.
	Follow(e *controller.Engine, to Follower)
	// Missing says why a node has no ProviderID, with the fix.
	Missing() string
	// Ref names a node in logs and plans.
	Ref(n Node) controller.Ref
	// SetCondition returns a function that writes the condition of a node. It returns nil
	// if nodes have no conditions.
	SetCondition() func(ctx context.Context, n Node, routed bool) error
	// SetNotice writes the notice of a node (subnet.Notice), or removes it if it is empty.
	SetNotice(ctx context.Context, n Node, notice string) error
	// ReadNotices returns a function that reads all notices, keyed by the names of their
	// nodes. It returns nil if the Source stores notices in the nodes.
	ReadNotices() func(ctx context.Context) (map[string]string, error)
}

// Follower receives nodes.
type Follower struct {
	List   func(all map[string]Node)
	Set    func(name string, n Node)
	Delete func(name string)
}

// Options are the settings of a Controller.
type Options struct {
	Cloud  Cloud
	Ledger Ledger
	Nodes  Source
	// Within are the ranges in which podCIDRs must lie; if empty, any is allowed.
	Within []netip.Prefix
	// Period is the time between two comparisons of all tables.
	Period time.Duration
	// Grace is the time for which a route stays after no node needs it any more.
	Grace time.Duration
	// InFlight is the maximum number of changes of the cloud in flight; 0 is usualInFlight.
	// A cloud that makes many changes in one request needs more.
	InFlight int
	// Forwarding is how the cloud calls what lets an instance forward packets.
	Forwarding cloud.Forwarding
	// DryRun is set if the Engine makes no write.
	DryRun bool
	// Event sends an event about a Node.
	Event func(controller.Event)
}

const (
	// unroutedTime is the time for which a Node may lack routes before its condition says
	// so.
	unroutedTime = 5 * time.Second
	// refreshInterval is the time between two lookups of an instance without an event. It
	// counts from the beginning of the term.
	refreshInterval = 30 * time.Minute
	// shortPace and longPace limit the time between two lookups of instances.
	shortPace, longPace = 100 * time.Millisecond, 5 * time.Second
	// leastInterval is the shortest time between two reads of the tables.
	leastInterval = 5 * time.Second
	// settleTime is the time for which a Node's next write waits for the watch to show the
	// last one.
	settleTime = time.Second
	// lateTime is the time between the first two reads of the tables in a term. By the
	// second one, late writes of the last leader have arrived.
	lateTime = 15 * time.Second
)

var (
	// lookups paces the retries of failed reads of the cloud, and stored those of the ledger
	// and the notices. No route is written before the ledger is known.
	lookups = retry.Backoff{First: time.Second, Last: time.Minute}
	stored  = retry.Backoff{First: time.Second, Last: 10 * time.Second}
	// backoff paces the retries of failed writes of one object.
	backoff = retry.Backoff{First: 200 * time.Millisecond, Last: time.Minute}
)

// Controller routes podCIDRs to instances. Only the Engine's loop uses it.
type Controller struct {
	options Options
	book    *cloudroute.Book
	nodes   map[string]*node

	instances  controller.Schedule // Nodes whose instances are looked up next
	led        time.Time           // when the term began
	lastLookup time.Time           // when the last lookup began
	lookingUp  map[string][]string // the Nodes of each provider ID that is being looked up
	steps      controller.Schedule // Nodes whose condition may need a write
	inFlight   map[string]bool     // Nodes with a write of the condition or the notice in flight
	waiting    map[string]bool     // Nodes that are not routed

	notices poll
	stored  map[string]string // the notices; nil if the Source stores them in the nodes
	sending map[string]string // the notices whose writes are in flight

	tables     poll
	ledger     poll
	version    string // of the ledger
	writing    []cloudroute.Entry
	newVersion *string // the version after the write in flight
	// unwritten counts the failed writes of the ledger in a row.
	unwritten int
	changes   map[string]cloudroute.Change // in flight, by object

	problems []string // of the ledger
}

// node is a Node, with the state of its lookups and writes.
type node struct {
	Node
	misses   int       // lookups in a row that found no instance
	failures int       // of writes of the condition in a row
	unrouted time.Time // the time since which it lacks routes; zero if it does not
	moved    bool      // its instance or its identity has changed, and was not looked up yet
	began    time.Time // the time at which the Node appeared
}

// poll paces the reads of the tables, the ledger or the notices.
type poll struct {
	due      time.Time
	inFlight bool
	known    bool      // a read has succeeded
	failures int       // in a row
	at       time.Time // of the last successful read
}

// New returns a Controller, and adds it and its feeds and lookups to the Engine.
func New(e *controller.Engine, o Options) *Controller {
	c := &Controller{
		options: o, nodes: make(map[string]*node), waiting: make(map[string]bool), lookingUp: make(map[string][]string), inFlight: make(map[string]bool), sending: make(map[string]string), changes: make(map[string]cloudroute.Change),
		instances: controller.NewSchedule(), steps: controller.NewSchedule(),
		book: cloudroute.New(cloudroute.Options{Within: o.Within, Grace: o.Grace, DryRun: o.DryRun, Forwarding: o.Forwarding}),
	}
	o.Nodes.Follow(e, Follower{List: c.list, Set: c.set, Delete: c.remove})
	controller.LookUp(e, controller.Lookup[Contents]{What: "ledger of routes", Due: c.ledgerDue, Read: c.readLedger, Take: c.takeLedger})
	controller.LookUp(e, controller.Lookup[tablesRead]{What: "route tables", Due: c.tablesDue, Read: c.readTables, Take: c.takeTables})
	if o.Nodes.ReadNotices() != nil {
		c.stored = make(map[string]string)
		controller.LookUp(e, controller.Lookup[map[string]string]{What: "notices of routes", Due: c.noticesDue, Read: c.readNotices, Take: c.takeNotices})
	}
	controller.LookUp(e, controller.Lookup[cloud.Instance]{What: "instances of routes", Due: c.instancesDue, Read: o.Cloud.Instances, Take: c.takeInstances})
	e.Add(c)
	return c
}

// usualInFlight is the maximum number of changes in flight for a cloud that takes one change in
// a request.
const usualInFlight = 16

// MostCloudWrites implements controller.CloudBatcher.
func (c *Controller) MostCloudWrites() int { return cmp.Or(c.options.InFlight, usualInFlight) }

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Lead implements controller.Controller. It drops what an earlier term has read, because another
// leader may have changed it.
func (c *Controller) Lead(election.Term) {
	now := time.Now()
	c.book.Reset(now)
	c.tables, c.ledger, c.notices = poll{due: now}, poll{due: now}, poll{due: now}
	c.version, c.writing, c.changes, c.inFlight, c.sending = "", nil, make(map[string]cloudroute.Change), make(map[string]bool), make(map[string]string)
	c.led, c.lastLookup = now, time.Time{}
	c.instances, c.steps, c.lookingUp = controller.NewSchedule(), controller.NewSchedule(), make(map[string][]string)
	for name, n := range c.nodes {
		n.misses, n.failures = 0, 0
		c.instances.Set(name, now)
		c.steps.Set(name, now)
	}
}

// Clean implements controller.Controller. A late write of a route does no harm: the
// ledger names its target, so the next comparison corrects it.
func (c *Controller) Clean() bool { return true }
