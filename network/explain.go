package network

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// Explain tells what the network makes of an address, and what of that the kernel
// holds.
func (a *Agent) Explain(ctx context.Context, ip netip.Addr) (status.Explanation, error) {
	e := status.Explanation{Address: ip}
	var peers *Peers
	var own subnet.Lease
	var pool subnet.Pool
	f := subnet.FamilyOf(ip)
	if err := a.look(ctx, func() { peers, own, pool = a.peers, a.own, a.config.Pools[f] }); err != nil {
		return e, err
	}
	path, err := a.Kernel.RouteTo(ctx, ip)
	if err != nil {
		return e, fmt.Errorf("ask the kernel for the way to %s: %w", ip, err)
	}
	if e.Path = "nowhere"; path.Link != "" {
		e.Path = fmt.Sprintf("through %s, from %s", path.Link, path.Source)
	}
	switch {
	case peers == nil:
		e.Verdict = "this node has no lease yet, and so knows of no peer"
		return e, nil
	case own.Subnets[f].Contains(ip):
		e.Verdict, e.Lease, e.Node = "of this node's own subnet: a container here, or nobody", own.Key(), own.Node.Name
		return e, nil
	case !pool.Network.Contains(ip):
		e.Verdict = "not of the network: tulle has nothing to do with it"
		return e, nil
	}
	for _, p := range peers.All() {
		if p.Lease.Subnets[f].Contains(ip) {
			e.Lease, e.Node = p.Key, p.Lease.Node.Name
			e.Probes = a.probeOf(p.Key)
			return e, a.explainPeer(ctx, &e, peers, p.Lease, path.Link)
		}
	}
	e.Verdict = "of the network, and leased to no node"
	for _, r := range peers.Rejected() {
		if subnets, err := subnet.ParseKey(r.Key); err == nil && subnets[f].Contains(ip) {
			e.Verdict, e.Lease = "of a lease that is not believed: "+r.Err.Error(), r.Key
		}
	}
	return e, nil
}

// explainPeer compares what should lead to a peer with what the kernel holds.
func (a *Agent) explainPeer(ctx context.Context, e *status.Explanation, peers *Peers, l *subnet.Lease, out string) error {
	has, err := a.Kernel.Dump(ctx, netstate.Scope{Links: peers.devices()})
	if err != nil {
		return fmt.Errorf("read what the kernel holds: %w", err)
	}
	known := make(map[netstate.Key]netstate.Object, len(has))
	for _, o := range has {
		known[plain(o).Key()] = plain(o)
	}
	f := subnet.FamilyOf(e.Address)
	wrong, elsewhere := 0, false
	for _, want := range peers.wants(l) {
		want = plain(want)
		r, isRoute := want.(netstate.Route)
		if isRoute && subnet.FamilyOf(r.Dst.Addr()) != f {
			continue
		}
		elsewhere = elsewhere || isRoute && r.Link != out
		entry := status.Entry{Want: want.String()}
		if has, ok := known[want.Key()]; ok {
			entry.Has, entry.OK = has.String(), has == want
		}
		if !entry.OK {
			wrong++
		}
		e.Entries = append(e.Entries, entry)
	}
	switch why := peers.troubled(a.loop.Status())[l.Key()].why; {
	case len(e.Entries) == 0:
		e.Verdict = "of a peer that cannot be reached: " + why
	case wrong > 0:
		e.Verdict = fmt.Sprintf("of a peer, and %d of %d things that lead there are not as they should be", wrong, len(e.Entries))
		if why != "" {
			e.Verdict += ": " + why
		}
	case elsewhere:
		e.Verdict = "of a peer, and all is there that leads to it, but the kernel sends elsewhere: another route or rule comes first (ip route get " + e.Address.String() + "; ip rule)"
	default:
		e.Verdict = "of a peer, and all is there that leads to it"
	}
	return nil
}

// plain is an object without what has to do with other objects alone: in a large
// network a route's metric says nothing.
func plain(o netstate.Object) netstate.Object {
	if r, isRoute := o.(netstate.Route); isRoute && !r.Drop {
		r.Metric = 0
		return r
	}
	return o
}
