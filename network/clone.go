package network

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// twins are the other machines that share this one's ID, by what they lease.
type twins map[subnet.Pair[netip.Prefix]]subnet.Attrs

// forks makes the node go by an ID of its own where err says that another machine
// goes by the one of claim, and reports whether it did. The lease is asked for
// again then.
func (a *Agent) forks(ctx context.Context, claim subnet.Claim, err error) bool {
	var twin *subnet.TwinError
	if a.Identity == nil || !errors.As(err, &twin) {
		return false
	}
	return a.ask(ctx, func() bool {
		if claim.Node.ID == a.Node.ID && claim.Node.Instance == a.Node.Instance {
			a.fork(twin)
		}
		return true
	})
}

// fork makes the node go by an ID of its own. What it publishes beside that stays,
// but for what the twin publishes too, as a copy of its memory would.
func (a *Agent) fork(twin *subnet.TwinError) {
	a.setNode(a.Identity.Fork(twin, a.claim.Attrs))
	for f, data := range twin.Lease.BackendData {
		for _, published := range []*subnet.Lease{&a.own, &a.before} {
			if published.BackendData[f] == data {
				published.BackendData[f] = ""
			}
		}
	}
	a.refresh()
}

func (a *Agent) setNode(n subnet.Node) {
	a.nodeMu.Lock()
	defer a.nodeMu.Unlock()
	a.Node = n
}

// node returns who this is, for any goroutine.
func (a *Agent) node() subnet.Node {
	a.nodeMu.Lock()
	defer a.nodeMu.Unlock()
	return a.Node
}

// isThis reports whether n is this node as it was in an earlier run.
func (a *Agent) isThis(n subnet.Node) bool {
	if n.Instance != "" && a.Node.Instance != "" {
		return n.Instance == a.Node.Instance
	}
	return n.ID == a.Node.ID
}

// findTwins notes which other machines share this one's ID. Where one of them
// publishes it now, as two may that start at the same time, the lease is acquired
// again: that finds out which of the two gives the ID up.
func (a *Agent) findTwins(u subnet.Update) {
	if a.Identity == nil {
		return
	}
	if u.Complete || a.twins == nil {
		a.twins = make(twins)
	}
	if len(a.twins) > 0 {
		for _, key := range u.Gone {
			if subnets, err := subnet.ParseKey(key); err == nil {
				delete(a.twins, subnets)
			}
		}
	}
	shared, contested := subnet.SharedID(a.Node.ID), false
	for i := range u.Leases {
		l := &u.Leases[i]
		copied := l.Node.Instance == a.Node.Instance
		if l.Subnets == a.own.Subnets || !copied && subnet.SharedID(l.Node.ID) != shared {
			delete(a.twins, l.Subnets)
			continue
		}
		a.twins[l.Subnets] = l.Attrs
		contested = contested || copied || l.Node.ID == a.Node.ID
	}
	if contested {
		a.keep(a.claim)
	}
}

// clone reports which other machine goes by this one's ID, as long as one does.
func (a *Agent) clone() *status.Clone {
	if a.Identity == nil {
		return nil
	}
	known := a.Identity.Clone()
	if known == nil || a.listed && len(a.twins) == 0 {
		return nil
	}
	c := &status.Clone{ID: known.Of, Name: known.Name, Addresses: known.Addresses, Since: known.Since, Fix: a.Identity.Fix()}
	if !a.listed {
		return c
	}
	// Whoever goes by the very ID, or else any other that was copied.
	all := slices.SortedFunc(maps.Values(a.twins), func(x, y subnet.Attrs) int {
		return cmp.Or(cmp.Compare(len(x.Node.ID), len(y.Node.ID)), x.PublicIP[subnet.IPv4].Compare(y.PublicIP[subnet.IPv4]))
	})
	c.Name, c.Addresses = all[0].Node.Name, valid(all[0].PublicIP)
	return c
}
