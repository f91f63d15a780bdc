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

// judge finds out which of the leases are the node's own, where they do not tell
// by themselves, and notes that in the claim. It costs no call where no other node
// goes by this node's ID, instance or public IP. A lease that is alive under
// another public IP is never the node's.
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

// near returns the leases that have anything in common with the node.
func (a *acquisition) near(leases []subnet.Lease) (near []subnet.Lease) {
	for i := range leases {
		l := &leases[i]
		if a.isOurs(l) || a.claim.Node.ID != "" && l.Node.ID == a.claim.Node.ID || sharesAddress(&l.Attrs, &a.claim.Attrs) {
			near = append(near, *l)
		}
	}
	return near
}

// isOurs reports whether the node's installation published l.
func (a *acquisition) isOurs(l *subnet.Lease) bool {
	return l.Node.Instance != "" && l.Node.Instance == a.claim.Node.Instance
}

// findCopy looks for a machine that was copied together with its instance: it
// lives at another public IP. A node that was renumbered finds nobody there.
func (a *acquisition) findCopy(ctx context.Context, near []subnet.Lease) error {
	for _, l := range near {
		if !a.isOurs(&l) || sharesAddress(&l.Attrs, &a.claim.Attrs) || a.isLast(l) {
			continue
		}
		if a.answers(ctx, l) {
			return &subnet.TwinError{Lease: l, Copied: true}
		}
	}
	return nil
}

// findNeighbours judges the leases at our public IP that another installation
// published. One whose holder is alive is left alone, and so are we; what one left
// that is gone is ours.
func (a *acquisition) findNeighbours(ctx context.Context, near []subnet.Lease, ids map[string]clientv3.LeaseID) error {
	known := slices.ContainsFunc(near, func(l subnet.Lease) bool { return a.isOurs(&l) })
	var met error
	for _, l := range near {
		if a.isOurs(&l) || !sharesAddress(&l.Attrs, &a.claim.Attrs) {
			continue
		}
		alive, err := a.isNeighbour(ctx, l, ids[l.Key()], known)
		if err != nil {
			return err
		}
		a.claim.Judged[l.Subnets] = !alive
		if alive && met == nil {
			met = fmt.Errorf("%w: node %s publishes it with %s; give each node an address of its own (--public-ip, --iface), or, if that node is gone: etcdctl del '%s'",
				subnet.ErrSameAddress, l.Holder(), l.Key(), a.key(l))
		}
	}
	if met == nil {
		return nil
	}
	// Who has a lease already goes on: two hosts that swap addresses would wait
	// for one another.
	if _, ok, _ := a.claim.Own(a.cfg, near); !ok {
		return met
	}
	klog.ErrorS(met, "Publishing an address all the same that another node publishes too")
	return nil
}

// isNeighbour reports whether another node lives behind a lease with our public
// IP. A reservation for that address is for whoever has it. Who had our ID there
// was this node, as it was installed before, unless it shows that it lives: by an
// answer from that address, which is none of this host's then, or by taking our
// lease from us. A node that is known by its instance was not installed anew.
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

// mostAsked is how many holders are asked for one acquisition. No honest network
// has more than one or two to ask.
const mostAsked = 8

// answers reports whether a tulled other than this process lives at the public
// IPs of a lease, see Options.Answers. It asks once for each version of a lease.
// Whoever is one too many to be asked is taken to live.
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

// isLast reports whether l is what this process wrote last.
func (s *Store) isLast(l subnet.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.Subnets == s.last.Subnets && l.Attrs == s.last.Attrs
}

// wrote notes what this process has in etcd.
func (s *Store) wrote(l subnet.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = l
}

// displacer returns the instance that took our lease from us, at our own address.
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
