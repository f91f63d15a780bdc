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

// Name is the controller's name, as cloud controller managers have it.
const Name = "node-route-controller"

// Cloud is what the controller needs of a cloud.
type Cloud interface {
	// Tables returns every table that is ours, complete, or an error.
	Tables(ctx context.Context) ([]cloud.Table, error)
	// Instances returns what the cloud says about each instance, by its provider ID.
	// With an error, those that are missing in the map could not be read.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
	// ChangeRoutes makes changes, and returns the error of each.
	ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) []error
	// Forward lets an instance send and receive packets with other addresses than its own.
	Forward(ctx context.Context, instance cloud.Instance) error
}

// Ledger stores which routes are ours.
type Ledger interface {
	// Ref names the ledger for people.
	Ref() controller.Ref
	// Read returns what the ledger has.
	Read(ctx context.Context) (Contents, error)
	// Write replaces entries if the ledger is still in a version, and returns its new
	// version. An entry without routes is removed.
	Write(ctx context.Context, version string, entries []cloudroute.Entry) (string, error)
}

// Contents is what a Ledger has.
type Contents struct {
	Entries []cloudroute.Entry
	Version string
	// Problems are why entries could not be read. Nothing of them is ours.
	Problems []string
}

// Node is what the controller keeps of a node.
type Node struct {
	cloudroute.Node
	// ProviderID names the instance.
	ProviderID string
	// Condition and Reason are the Node's condition NetworkUnavailable.
	Condition, Reason string
	// PublicIP are the addresses that the node publishes, which its notice names.
	PublicIP subnet.Pair[netip.Addr]
	// Version is the state that a write of the Node requires.
	Version string
	// ReadsNotices is set if the node's daemon needs notices. Notice is the node's own, if
	// notices are kept with the nodes.
	ReadsNotices bool
	Notice       string
}

// Source follows the nodes, and sets their conditions.
type Source interface {
	// Follow follows all nodes: it calls List, Set and Delete in the Engine's loop.
	Follow(e *controller.Engine, to Follower)
	// Missing is why a node without a ProviderID has none, with the fix.
	Missing() string
	// Ref returns a node for people.
	Ref(n Node) controller.Ref
	// SetCondition returns what sets whether a node is routed, or nil where nodes have no
	// conditions.
	SetCondition() func(ctx context.Context, n Node, routed bool) error
	// SetNotice writes the notice of a node (subnet.Notice), or removes it if it is empty.
	SetNotice(ctx context.Context, n Node, notice string) error
	// ReadNotices reads all notices by the names of their nodes. It is nil where they are
	// kept with the nodes.
	ReadNotices() func(ctx context.Context) (map[string]string, error)
}

// Follower takes nodes.
type Follower struct {
	List   func(all map[string]Node)
	Set    func(name string, n Node)
	Delete func(name string)
}

// Options are what a Controller needs.
type Options struct {
	Cloud  Cloud
	Ledger Ledger
	Nodes  Source
	// Within are the ranges that podCIDRs may lie in; none allows any.
	Within []netip.Prefix
	// Period is the time between two comparisons of all tables.
	Period time.Duration
	// Grace is how long a route stays that no node needs.
	Grace time.Duration
	// InFlight is how many changes of the cloud may be in flight; 0 is the usual number. A
	// cloud that makes many changes in one request needs more.
	InFlight int
	// Forwarding is how the cloud calls what lets an instance forward packets.
	Forwarding cloud.Forwarding
	// DryRun is set if the Engine makes no write.
	DryRun bool
	// Event sends an event about a Node.
	Event func(controller.Event)
}

const (
	// unroutedTime is how long a Node may wait for its routes before its condition says so.
	unroutedTime = 5 * time.Second
	// refreshInterval is how often instances are looked up without an event, since the term
	// began.
	refreshInterval = 30 * time.Minute
	// shortPace and longPace limit the time between two lookups of instances.
	shortPace, longPace = 100 * time.Millisecond, 5 * time.Second
	// leastInterval is the shortest time between two reads of the tables.
	leastInterval = 5 * time.Second
	// settleTime is how long a Node's write waits for the watch to show the last one.
	settleTime = time.Second
	// lateTime is when the tables are read again after the first time in a term: by then,
	// what the last leader sent has arrived.
	lateTime = 15 * time.Second
)

var (
	// lookups paces what cannot be read.
	lookups = retry.Backoff{First: time.Second, Last: time.Minute}
	// backoff paces the writes of one object that fail.
	backoff = retry.Backoff{First: 200 * time.Millisecond, Last: time.Minute}
)

// Controller routes podCIDRs to instances. Only the Engine's loop uses it.
type Controller struct {
	options Options
	book    *cloudroute.Book
	nodes   map[string]*node

	instances controller.Schedule // Nodes whose instances are looked up next
	led       time.Time           // when the term began
	looked    time.Time           // when the last lookup began
	asked     map[string][]string // the Nodes of each provider ID that is being looked up
	steps     controller.Schedule // Nodes whose condition may need a write
	flying    map[string]bool     // Nodes whose condition is being written
	waiting   map[string]bool     // Nodes that are not routed

	notices reading
	told    map[string]string // the notices, unless they are kept with the nodes
	telling map[string]string // those that are being written

	tables  reading
	ledger  reading
	version string // of the ledger
	writing []cloudroute.Entry
	answer  *string // the version after the write in flight
	// unwritten counts the writes of the ledger in a row that failed.
	unwritten int
	changes   map[string]cloudroute.Change // in flight, by object

	problems []string // of the ledger
}

// node is a Node, and how far it is.
type node struct {
	Node
	fruitless int       // lookups in a row that found no instance
	failures  int       // of writes of the condition in a row
	unrouted  time.Time // since when it lacks routes; zero if it does not
	moved     bool      // its instance or its identity is another one, and not looked up yet
	began     time.Time // when the first try of its routes began
}

// reading paces the reads of one thing.
type reading struct {
	due      time.Time
	reads    bool
	known    bool
	failures int
	at       time.Time // when what is known was read
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, o Options) *Controller {
	c := &Controller{
		options: o, nodes: make(map[string]*node), waiting: make(map[string]bool), asked: make(map[string][]string), flying: make(map[string]bool), telling: make(map[string]string), changes: make(map[string]cloudroute.Change),
		instances: controller.NewSchedule(), steps: controller.NewSchedule(),
		book: cloudroute.New(cloudroute.Options{Within: o.Within, Grace: o.Grace, DryRun: o.DryRun, Forwarding: o.Forwarding}),
	}
	o.Nodes.Follow(e, Follower{List: c.list, Set: c.set, Delete: c.remove})
	controller.LookUp(e, controller.Lookup[Contents]{What: "ledger of routes", Due: c.ledgerDue, Read: c.readLedger, Take: c.takeLedger})
	controller.LookUp(e, controller.Lookup[tablesRead]{What: "route tables", Due: c.tablesDue, Read: c.readTables, Take: c.takeTables})
	if o.Nodes.ReadNotices() != nil {
		c.told = make(map[string]string)
		controller.LookUp(e, controller.Lookup[map[string]string]{What: "notices of routes", Due: c.noticesDue, Read: c.readNotices, Take: c.takeNotices})
	}
	controller.LookUp(e, controller.Lookup[cloud.Instance]{What: "instances of routes", Due: c.instancesDue, Read: o.Cloud.Instances, Take: c.takeInstances})
	e.Add(c)
	return c
}

// usualInFlight is how many changes of a cloud are in flight that takes one at a time.
const usualInFlight = 16

// MostCloudWrites implements controller.CloudBatcher.
func (c *Controller) MostCloudWrites() int { return cmp.Or(c.options.InFlight, usualInFlight) }

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Lead implements controller.Controller. Another leader may have changed everything.
func (c *Controller) Lead(election.Term) {
	now := time.Now()
	c.book.Reset(now)
	c.tables, c.ledger, c.notices = reading{due: now}, reading{due: now}, reading{due: now}
	c.version, c.writing, c.changes, c.flying, c.telling = "", nil, make(map[string]cloudroute.Change), make(map[string]bool), make(map[string]string)
	c.led, c.looked = now, time.Time{}
	c.instances, c.steps, c.asked = controller.NewSchedule(), controller.NewSchedule(), make(map[string][]string)
	for name, n := range c.nodes {
		n.fruitless, n.failures = 0, 0
		c.instances.Set(name, now)
		c.steps.Set(name, now)
	}
}

// Clean implements controller.Controller. A late write of a route does no harm: the
// ledger names its target, so the next comparison corrects it.
func (c *Controller) Clean() bool { return true }
