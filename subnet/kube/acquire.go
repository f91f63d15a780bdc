package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// Acquire implements subnet.Store. The subnets are the Node's podCIDRs. Until the
// Node has them, Acquire waits, and the Status says for what.
func (s *Store) Acquire(ctx context.Context, claim subnet.Claim) (subnet.Lease, error) {
	if _, err := publish(claim.Attrs); err != nil {
		return subnet.Lease{}, err
	}
	cfg, err := s.usable(ctx)
	if err != nil {
		return subnet.Lease{}, err
	}
	s.begin()
	defer s.trouble.Forget(leasing)
	for failures := 1; ; {
		e, known, changed := s.book.ownNode()
		subnets, why := s.given(cfg, e, known)
		switch {
		case errors.Is(why, subnet.ErrOutsideNetwork):
			return subnet.Lease{}, why
		case why == errUnknown: // the follower reports why
		case why != nil:
			s.trouble.Failed(leasing, why)
		default:
			lease, err := s.write(ctx, e, subnets, claim.Attrs)
			switch {
			case err == nil:
				s.mu.Lock()
				s.claimed, s.published = claim.Attrs, lease.Attrs
				s.mu.Unlock()
				return lease, nil
			case !errors.Is(err, errMoved):
				return subnet.Lease{}, err
			}
			// The Node has changed; the watch will deliver the change.
			if err := kube.Pause(ctx, failures, nil); err != nil {
				return subnet.Lease{}, err
			}
			failures++
			continue
		}
		if err := waitFor(ctx, changed, configPollInterval); err != nil {
			return subnet.Lease{}, err
		}
		if cfg, err = s.usable(ctx); err != nil {
			return subnet.Lease{}, err
		}
	}
}

const (
	leasing = "leasing a subnet"
	// configPollInterval is how often Acquire re-reads the config while it waits: a
	// new config may end the wait.
	configPollInterval = 5 * time.Second
)

// reason is a cause that a person can fix.
type reason string

func (r reason) Error() string { return string(r) }

func reasonf(format string, args ...any) error { return reason(fmt.Sprintf(format, args...)) }

// errUnknown reports that the book does not hold all Nodes yet.
var errUnknown = errors.New("not all of the cluster's Nodes are known yet")

// errMoved makes the caller repeat a step with the Node's new state.
var errMoved = errors.New("the Node was deleted, or re-created")

func (s *Store) noNode() error {
	return reasonf("there is no Node %s; NODE_NAME must be the name that the kubelet registers this host by", s.book.own())
}

// given returns the podCIDRs of the node's own Node for the families that are on, or
// why none can be used.
func (s *Store) given(cfg subnet.Config, e *entry, known bool) (subnet.Pair[netip.Prefix], error) {
	var none subnet.Pair[netip.Prefix]
	switch {
	case !known:
		return none, errUnknown
	case e == nil:
		return none, s.noNode()
	case e.cidrErr != nil:
		return none, reasonf("Node %s: %v", e.name, e.cidrErr)
	}
	subnets := e.subnets
	for f, pool := range cfg.Pools {
		family := subnet.Family(f)
		switch p := subnets[f]; {
		case !pool.IsValid():
			subnets[f] = netip.Prefix{}
		case !p.IsValid():
			return none, reasonf("Node %s has no %s podCIDR; run tulle-controller (controller.enabled in the chart), or start the kube-controller-manager with --allocate-node-cidrs=true and a --cluster-cidr in %s (kubeadm init --pod-network-cidr), or give the Node one: kubectl patch node %s -p '{\"spec\":{\"podCIDR\":…,\"podCIDRs\":[…]}}'",
				e.name, family, pool.Network, e.name)
		case !pool.Holds(p):
			return none, fmt.Errorf("%w: the podCIDR %s of Node %s is outside the network's %s; make the network's config agree with the --cluster-cidr of what gives out podCIDRs", subnet.ErrOutsideNetwork, p, e.name, pool.Network)
		}
	}
	r, known := s.book.rival(e)
	switch {
	case r != nil:
		return none, reasonf("Node %s was given a part of the same podCIDR first, %s; delete that Node if it is gone, or this one so that it is given another", r.name, r.key)
	case !known:
		return none, errUnknown
	}
	return subnets, nil
}

// write publishes attrs in e, the node's own Node, and returns the resulting lease.
// It sends no request if nothing differs.
func (s *Store) write(ctx context.Context, e *entry, subnets subnet.Pair[netip.Prefix], attrs subnet.Attrs) (subnet.Lease, error) {
	for f, ip := range e.own.facts.Overwrite {
		if ip.IsValid() && (attrs.PublicIP[f].IsValid() || attrs.BackendData[f] != "") {
			attrs.PublicIP[f] = ip
		}
	}
	want, err := publish(attrs)
	if err != nil {
		return subnet.Lease{}, err
	}
	if claim := formatClaim(e.subnets); claim != "" && e.own.plain {
		want[claimed] = &claim
	}
	change, err := s.annotations.change(want, &e.own.values, e.uid)
	if err != nil {
		return subnet.Lease{}, err
	}
	revision, writing := e.revision, "patching Node "+e.name
	if change == nil {
		s.trouble.Over(writing) // the change that failed before is no longer wanted
	} else {
		err := s.retry(ctx, writing, func(ctx context.Context) error {
			v, err := s.patch(ctx, e.name, kube.MergePatch, change)
			if kube.Moved(err) {
				return errMoved
			}
			if err == nil {
				revision = v.Revision
				s.book.take(itself, v)
			}
			return err
		})
		if err != nil {
			return subnet.Lease{}, err
		}
	}
	return subnet.Lease{Subnets: subnets, Attrs: attrs, Expires: noExpiry, Revision: revision, Created: e.created}, nil
}
