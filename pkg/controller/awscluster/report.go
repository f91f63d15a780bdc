package awscluster

import (
	"maps"
	"slices"

	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// Code is how far an AWSCluster is.
type Code string

// The codes.
const (
	Ready    Code = "ready"
	Building Code = "building"
	Deleting Code = "deleting"
	Failing  Code = "failing"
	Invalid  Code = "invalid"
	Waiting  Code = "waiting" // for its Cluster, or the end of a pause
	Other    Code = "other"   // managed by another program, or not ours to delete
)

// Codes are all codes.
var Codes = []Code{Ready, Building, Deleting, Failing, Invalid, Waiting, Other}

// Report is the state of the controller.
type Report struct {
	Counts map[Code]int
	Rows   []Row
}

// Row is an AWSCluster in a Report.
type Row struct {
	// Cluster has the namespace.
	Cluster, Region string
	Code            Code
	Text            string
	Endpoint        string
	// Read is whether the account was read without an error, and Settled whether nothing was
	// to do then.
	Read, Settled bool
	// Foreign counts objects in the network that are not ours.
	Foreign int
}

// code returns how far a network is, and why.
func (n *network) code() (Code, string) {
	switch n.gate {
	case Foreign, Leaving:
		return Other, string(n.gate)
	case Paused, Unowned:
		return Waiting, string(n.gate)
	}
	all, known := n.conditions()
	if !known {
		return Building, "the account is being read"
	}
	i := slices.IndexFunc(all, func(c capi.Condition) bool { return c.Type == readyCondition })
	c := all[i]
	switch {
	case c.Status == capi.True:
		return Ready, ""
	case c.Reason == reasonInvalid:
		return Invalid, c.Message
	case c.Severity == capi.Error || c.Severity == capi.Warning || c.Reason == reasonUnread:
		return Failing, c.Message
	case n.deleting:
		return Deleting, c.Message
	}
	return Building, c.Message
}

// Busy returns how many networks are not ready, of those that are to be worked on.
func (c *Controller) Busy() (busy int) {
	for _, n := range c.networks {
		if code, _ := n.code(); code != Ready && code != Other && code != Waiting {
			busy++
		}
	}
	return busy
}

// Report returns the state of the controller. Call it in the Engine's loop.
func (c *Controller) Report() (r Report) {
	r.Counts = make(map[Code]int)
	for _, key := range slices.Sorted(maps.Keys(c.networks)) {
		n := c.networks[key]
		row := Row{Cluster: key, Region: n.job.region, Endpoint: n.endpoint.Host, Settled: n.settled}
		row.Code, row.Text = n.code()
		if s := n.seen; s != nil {
			row.Read, row.Foreign = s.err == nil, len(s.plan.Foreign)
		}
		r.Counts[row.Code]++
		r.Rows = append(r.Rows, row)
	}
	return r
}
