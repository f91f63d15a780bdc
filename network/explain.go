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
		return e, fmt.Errorf("look up the kernel's route to %s: %w", ip, err)
	}
	if e.Path = "none"; path.Link != "" {
		e.Path = fmt.Sprintf("dev %s src %s", path.Link, path.Source)
	}
	switch {
	case peers == nil:
		e.Verdict = "this node has no lease yet and knows no peers"
		return e, nil
	case own.Subnets[f].Contains(ip):
		e.Verdict, e.Lease, e.Node = "belongs to this node's own subnet: a container on this node, or unused", own.Key(), own.Node.Name
		return e, nil
	case !pool.Network.Contains(ip):
		e.Verdict = "outside the network: tulle does not route it"
		return e, nil
	}
	for _, p := range peers.All() {
		if p.Lease.Subnets[f].Contains(ip) {
			e.Lease, e.Node = p.Key, p.Lease.Node.Name
			e.Probes = a.probeOf(p.Key)
			return e, a.explainPeer(ctx, &e, peers, p.Lease, path.Link)
		}
	}
	e.Verdict = "inside the network, but leased to no node"
	for _, r := range peers.Rejected() {
		if subnets, err := subnet.ParseKey(r.Key); err == nil && subnets[f].Contains(ip) {
			e.Verdict, e.Lease = "belongs to a rejected lease: "+r.Err.Error(), r.Key
		}
	}
	return e, nil
}

// explainPeer compares what should lead to a peer with what the kernel holds.
func (a *Agent) explainPeer(ctx context.Context, e *status.Explanation, peers *Peers, l *subnet.Lease, out string) error {
	has, err := a.Kernel.Dump(ctx, netstate.Scope{Links: peers.devices()})
	if err != nil {
		return fmt.Errorf("dump the kernel's state: %w", err)
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
		e.Verdict = "belongs to an unreachable peer: " + why
	case wrong > 0:
		e.Verdict = fmt.Sprintf("belongs to a peer; %d of its %d routes and neighbours are missing or wrong", wrong, len(e.Entries))
		if why != "" {
			e.Verdict += ": " + why
		}
	case elsewhere:
		e.Verdict = "belongs to a peer; its routes and neighbours are in place, but the kernel sends elsewhere: another route or rule comes first (ip route get " + e.Address.String() + "; ip rule)"
	default:
		e.Verdict = "belongs to a peer; its routes and neighbours are in place"
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
