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

// twins are the leases of other machines with this one's ID.
type twins map[subnet.Pair[netip.Prefix]]subnet.Attrs

// forks reports whether err means that another machine has the claim's ID. If so, the
// node takes an ID of its own, and requests its lease again.
func (a *Agent) forks(ctx context.Context, claim subnet.Claim, err error) bool {
	var twin *subnet.TwinError
	if a.Identity == nil || !errors.As(err, &twin) {
		return false
	}
	_, ok := callAndWait(ctx, a, func() struct{} {
		if claim.Node.ID == a.Node.ID && claim.Node.Instance == a.Node.Instance {
			a.fork(twin)
		}
		return struct{}{}
	})
	return ok
}

// fork gives the node an ID of its own. Published backend data stays, unless the
// twin publishes the same, for example because this node's snapshot is a copy.
func (a *Agent) fork(twin *subnet.TwinError) {
	a.setNode(a.Identity.Fork(twin, a.claim.Attrs))
	a.show()
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

// node returns Node, for any goroutine.
func (a *Agent) node() subnet.Node {
	a.nodeMu.Lock()
	defer a.nodeMu.Unlock()
	return a.Node
}

// isThis reports whether n is this node, in an earlier run.
func (a *Agent) isThis(n subnet.Node) bool {
	if n.Instance != "" && a.Node.Instance != "" {
		return n.Instance == a.Node.Instance
	}
	return n.ID == a.Node.ID
}

// findTwins records which other machines have this one's ID. If one of them
// publishes the ID that this node publishes, for example after a simultaneous start,
// it acquires the lease again: that decides which of the two keeps the ID.
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

// clone returns the other machine with this one's ID, or nil while none is known.
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
	// Prefer the machine that kept the ID to other clones.
	first := slices.MinFunc(slices.Collect(maps.Values(a.twins)), func(x, y subnet.Attrs) int {
		return cmp.Or(cmp.Compare(len(x.Node.ID), len(y.Node.ID)), x.PublicIP[subnet.IPv4].Compare(y.PublicIP[subnet.IPv4]))
	})
	c.Name, c.Addresses = first.Node.Name, valid(first.PublicIP)
	return c
}
