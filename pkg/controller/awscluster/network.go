package awscluster

import (
	"reflect"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// Gate is why nothing is done for an AWSCluster, or "" if it is open.
type Gate string

// The gates.
const (
	Open Gate = ""
	// Foreign is an AWSCluster that another program manages.
	Foreign Gate = "managed by another program"
	// Paused is one that is paused, or whose Cluster is.
	Paused Gate = "paused"
	// Unowned is one whose Cluster is not known yet.
	Unowned Gate = "waits for its Cluster"
	// Leaving is one without our finalizer that is being deleted.
	Leaving Gate = "leaving"
)

// network is an AWSCluster and its network.
type network struct {
	state
	preview  bool // of Options
	gate     Gate
	job      job
	claimed  identity         // the network that its annotation names, or the zero value
	problems []awsnet.Problem // of the object alone
	outer    capi.Endpoint    // of its Cluster

	// The writes to Kubernetes.
	writing bool
	written int64 // the list that had begun last when the last one ended
	fails   int   // in a row
	retry   time.Time
	told    time.Time // when the status was last written

	// The readings.
	late     time.Time // none before
	reading  bool
	stale    bool  // the job changed after the reading began
	seen     *seen // the last one, or nil
	known    known
	unread   int // readings in a row that failed
	failures int // runs that failed, or lacked quota, since a run last did something
	blocked  int // readings of a deletion that something holds
	passes   int // runs in a row that did something
	settled  bool

	// The run of a plan.
	run     *apply.Run
	polls   int
	polling bool
	polled  []string // what the last poll reads
	flying  int      // calls in flight
	trouble []apply.Failure
	drifted []string  // what is restored, for an event
	held    time.Time // no call before
}

// cluster is what is kept of a Cluster.
type cluster struct {
	paused   bool
	endpoint capi.Endpoint
	port     int // of the API servers, or 0
}

// gateOf returns what keeps an AWSCluster from being worked on, and the name of its Cluster.
func (c *Controller) gateOf(s state) (Gate, string) {
	owner, owned := capi.ClusterOf(s.Owners)
	at, exists := c.clusters[s.Namespace+"/"+owner.Name]
	switch {
	case s.Has(capi.ManagedByAnnotation) || s.Labels[capi.ManagedByAnnotation] != "":
		return Foreign, owner.Name
	case s.Has(capi.PausedAnnotation) || exists && at.paused:
		return Paused, owner.Name
	case s.deleting && !s.finalized():
		return Leaving, owner.Name
	case s.deleting:
		return Open, owner.Name
	case !owned || !exists:
		return Unowned, owner.Name
	}
	return Open, owner.Name
}

// judge decides what an AWSCluster needs, after something about it has changed.
func (c *Controller) judge(n *network, now time.Time) {
	c.claim(n, now)
	gate, name := c.gateOf(n.state)
	from := c.clusters[n.Namespace+"/"+name]
	n.outer = from.endpoint
	j, problems := jobOf(n.state, name, from.port)
	if twin := c.twinOf(n); twin != "" {
		problems = append(problems, awsnet.Problem{Field: field(NetworkAnnotation), Text: j.identity.String() + " is also the network of " + twin + "; remove the annotation from the one that was copied"})
	}
	changed := gate != n.gate || !reflect.DeepEqual(j, n.job) || !slices.Equal(problems, n.problems)
	n.gate, n.job, n.problems = gate, j, problems
	if changed {
		n.unread, n.failures, n.blocked, n.passes = 0, 0, 0, 0
		n.settled, n.stale, n.known.whole = false, n.reading, false
		n.abandon()
		n.seen, n.trouble = nil, nil
	}
	c.steps.Advance(n.Key(), now)
	c.plan(n, now, changed)
}

// plan schedules the next reading of a network.
func (c *Controller) plan(n *network, now time.Time, at bool) {
	key := n.Key()
	switch {
	case !n.works() || n.reading || n.run != nil || n.flying > 0:
		c.reads.Remove(key)
	case at || n.seen == nil && !c.reads.Has(key):
		c.reads.Set(key, later(now, n.late))
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// works reports whether calls may be made for a network.
func (n *network) works() bool {
	return n.gate == Open && len(n.problems) == 0 && (n.finalized() || n.preview)
}

// abandon ends a run. What is in flight ends by itself.
func (n *network) abandon() { n.run, n.polls, n.polled = nil, 0, nil }
