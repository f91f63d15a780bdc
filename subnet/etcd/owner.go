package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/subnet"
)

// judge decides which leases are the node's own where their values do not say so, and
// records that in the claim. It makes no call unless another lease has the node's ID,
// instance or public IP. A live lease under another public IP is never the node's
// own.
func (a *acquisition) judge(ctx context.Context, leases []subnet.Lease, ids map[string]clientv3.LeaseID) error {
	a.claim.Judged = nil
	near := a.near(leases)
	if len(near) == 0 {
		return nil
	}
	a.claim.Judged = make(map[subnet.Pair[netip.Prefix]]bool)
	if err := a.findCopy(ctx, near); err != nil {
		return err
	}
	if err := a.findNeighbours(ctx, near, ids); err != nil {
		return err
	}
	use, ok, rest := a.claim.Own(a.cfg, near)
	var own *subnet.Lease
	switch {
	case ok:
		own = &use
	case len(rest) > 0: // the config no longer allows it
		own = &rest[0]
	}
	twin, inherited, err := a.claim.Twin(own, near, func(l subnet.Lease) (bool, error) {
		alive, err := a.alive(ctx, ids[l.Key()])
		return alive || err == nil && a.answers(ctx, l), err
	})
	switch {
	case err != nil:
		return err
	case twin != nil:
		return &subnet.TwinError{Lease: *twin}
	}
	for _, l := range inherited {
		klog.InfoS("Inherited a lease of this node's ID, whose holder is gone", "key", l.Key(), "holder", l.Holder())
		a.claim.Judged[l.Subnets] = true
	}
	return nil
}

// near returns the leases that have the node's ID, instance or public IP.
func (a *acquisition) near(leases []subnet.Lease) (near []subnet.Lease) {
	for i := range leases {
		l := &leases[i]
		if a.isOurs(l) || a.claim.Node.ID != "" && l.Node.ID == a.claim.Node.ID || l.SameAddress(a.claim.Attrs) {
			near = append(near, *l)
		}
	}
	return near
}

// isOurs reports whether the node's installation published l.
func (a *acquisition) isOurs(l *subnet.Lease) bool {
	return l.Node.Instance != "" && l.Node.Instance == a.claim.Node.Instance
}

// findCopy returns a TwinError if a machine with the node's own instance is alive at
// another public IP: one of the two is a copy. A renumbered node gets no answer from
// its old address.
func (a *acquisition) findCopy(ctx context.Context, near []subnet.Lease) error {
	for _, l := range near {
		if !a.isOurs(&l) || l.SameAddress(a.claim.Attrs) || a.isLast(l) {
			continue
		}
		if a.answers(ctx, l) {
			return &subnet.TwinError{Lease: l, Copied: true}
		}
	}
	return nil
}

// findNeighbours decides about the leases at our public IP that another installation
// published. The lease of a live holder stays with it; that of a dead one becomes
// ours.
func (a *acquisition) findNeighbours(ctx context.Context, near []subnet.Lease, ids map[string]clientv3.LeaseID) error {
	known := slices.ContainsFunc(near, func(l subnet.Lease) bool { return a.isOurs(&l) })
	var met error
	for _, l := range near {
		if a.isOurs(&l) || !l.SameAddress(a.claim.Attrs) {
			continue
		}
		alive, err := a.isNeighbour(ctx, l, ids[l.Key()], known)
		if err != nil {
			return err
		}
		a.claim.Judged[l.Subnets] = !alive
		if alive && met == nil {
			met = fmt.Errorf("%w: node %s publishes it with %s; give each node an address of its own (%s), or, if that node is gone: etcdctl del '%s'",
				subnet.ErrSameAddress, l.Holder(), l.Key(), a.options.Names.Address, a.key(l))
		}
	}
	if met == nil {
		return nil
	}
	// A node with a lease continues. Otherwise two hosts that swap addresses would
	// wait for each other.
	if _, ok, _ := a.claim.Own(a.cfg, near); !ok {
		return met
	}
	klog.ErrorS(met, "Another node publishes our public IP; keeping our lease")
	return nil
}

// isNeighbour reports whether another live node holds a lease with our public IP. A
// reservation for that address belongs to the host that has the address.
//
// A lease under our ID is from an earlier installation of this host, unless its
// holder proves that it is alive. The proof is an answer from that address, which
// then is not this host's, or that it took our lease. known reports that our own
// instance has a lease: then no earlier installation is in question.
func (a *acquisition) isNeighbour(ctx context.Context, l subnet.Lease, id clientv3.LeaseID, known bool) (bool, error) {
	instance := l.Node.Instance
	switch {
	case instance != "" && instance == a.displacer():
		return a.alive(ctx, id)
	case l.IsReservation():
		return false, nil
	case !a.claim.SameNode(l.Attrs) || instance != "" && known:
		return a.alive(ctx, id)
	case instance == "":
		return false, nil
	}
	return a.answers(ctx, l), nil
}

// mostAsked limits how many holders one acquisition asks. Without forged leases there
// are one or two.
const mostAsked = 8

// answers reports whether a tulled other than this process answers at the public IPs
// of a lease, see Options.Answers. It asks once per version of a lease. Beyond
// mostAsked it stops asking, and assumes that the holders are alive.
func (a *acquisition) answers(ctx context.Context, l subnet.Lease) bool {
	if a.options.Answers == nil {
		return false
	}
	version := fmt.Sprint(l.Key(), " ", l.Revision)
	known, asked := a.asked[version]
	if !asked && len(a.asked) >= mostAsked {
		return true
	}
	if !asked {
		known = a.options.Answers(ctx, l)
		if ctx.Err() == nil {
			a.asked[version] = known
		}
	}
	return known
}

// isLast reports whether this process wrote l last.
func (s *Store) isLast(l subnet.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.Subnets == s.last.Subnets && l.Attrs == s.last.Attrs
}

// wrote records the lease that this process has in etcd.
func (s *Store) wrote(l subnet.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = l
}

// displacer returns the instance that took our lease, at our own address.
func (s *Store) displacer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.displaced
}

func (s *Store) setDisplacer(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.displaced = instance
}
