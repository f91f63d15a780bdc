package network

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// Explain returns what the network does with an address, and which of the needed
// objects the kernel holds.
func (a *Agent) Explain(ctx context.Context, ip netip.Addr) (status.Explanation, error) {
	v := a.view(ctx, withPeers)
	if v.Stuck != nil {
		return status.Explanation{Address: ip}, v.Stuck
	}
	path, err := a.Kernel.RouteTo(ctx, ip)
	if err != nil {
		return status.Explanation{Address: ip}, fmt.Errorf("look up the kernel's route to %s: %w", ip, err)
	}
	var has []netstate.Object
	if v.peerOf(ip) != nil {
		if has, err = a.Kernel.Dump(ctx, netstate.Scope{Links: v.Peers.devices()}); err != nil {
			return status.Explanation{Address: ip}, fmt.Errorf("dump the kernel's state: %w", err)
		}
	}
	a.addSessions(ctx, &v)
	e := v.Explain(ip, path.Link, has)
	if e.Path = "none"; path.Link != "" {
		e.Path = fmt.Sprintf("dev %s src %s", path.Link, path.Source)
	}
	return e, nil
}

// peerOf returns the peer whose subnet contains an address, or nil.
func (v View) peerOf(ip netip.Addr) *subnet.Peer {
	f := subnet.FamilyOf(ip)
	for i := range v.Peers.All {
		if v.Peers.All[i].Lease.Subnets[f].Contains(ip) {
			return &v.Peers.All[i]
		}
	}
	return nil
}

// Explain explains an address that the kernel routes to the link out. has is what the
// kernel holds.
func (v View) Explain(ip netip.Addr, out string, has []netstate.Object) status.Explanation {
	e, f := status.Explanation{Address: ip}, subnet.FamilyOf(ip)
	switch {
	case !v.Peers.Known:
		e.Code, e.Verdict = status.Starting, "this node has no lease yet and knows no peers"
		return e
	case v.Own.Subnets[f].Contains(ip):
		e.Code, e.Key, e.Node = status.Local, v.Own.Key(), v.Own.Node.Name
		e.Verdict = "belongs to this node's own subnet: a container on this node, or unused"
		return e
	case !v.Config.Pools[f].Network.Contains(ip):
		e.Code, e.Verdict = status.Outside, "outside the network: tulle does not route it"
		return e
	}
	if p := v.peerOf(ip); p != nil {
		e.Key, e.Node, e.Probes = p.Key, p.Lease.Node.Name, v.probeOf(p.Key)
		e.Probes.OnClock(v.At)
		e.Tunnelled = v.Peers.Tunnelled[p.Key].why
		e.Sessions = v.sessionsWith(p, v.sessionsByKey())
		v.explainPeer(&e, p, out, has)
		return e
	}
	e.Code, e.Verdict = status.Unleased, "inside the network, but leased to no node"
	for _, r := range v.Peers.Rejected {
		if subnets, err := subnet.ParseKey(r.Key); err == nil && subnets[f].Contains(ip) {
			e.Code, e.Verdict, e.Key = status.Rejected, "belongs to a rejected lease: "+r.Err.Error(), r.Key
		}
	}
	if more := v.Peers.RejectedCount - len(v.Peers.Rejected); e.Code == status.Unleased && more > 0 {
		e.Verdict = fmt.Sprintf("inside the network, but in no accepted lease; this node only counts %d further rejected leases, which the leases command lists", more)
	}
	return e
}

// explainPeer compares the objects that a peer needs with what the kernel holds.
func (v View) explainPeer(e *status.Explanation, p *subnet.Peer, out string, has []netstate.Object) {
	known := make(map[netstate.Key]netstate.Object, len(has))
	for _, o := range has {
		known[withoutMetric(o).Key()] = withoutMetric(o)
	}
	f := subnet.FamilyOf(e.Address)
	wrong, elsewhere := 0, false
	for _, want := range v.Peers.wants(p) {
		want = withoutMetric(want)
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
	switch why := v.troubled()[p.Key].why; {
	case len(e.Entries) == 0:
		e.Code, e.Verdict = status.Unroutable, "belongs to an unroutable peer: "+why
	case wrong > 0:
		e.Code = status.Incomplete
		e.Verdict = fmt.Sprintf("belongs to a peer; %d of its %d routes and neighbours are missing or wrong", wrong, len(e.Entries))
		if why != "" {
			e.Verdict += ": " + why
		}
	case elsewhere:
		e.Code = status.Bypassed
		e.Verdict = "belongs to a peer; its routes and neighbours are in place, but the kernel sends elsewhere: another route or rule comes first (ip route get " + e.Address.String() + "; ip rule)"
	default:
		e.Code, e.Verdict = status.InPlace, "belongs to a peer; its routes and neighbours are in place"
	}
}

// withoutMetric returns a route without its metric, and any other object as it is. In
// a large network the metric has no meaning for a single route.
func withoutMetric(o netstate.Object) netstate.Object {
	if r, isRoute := o.(netstate.Route); isRoute && !r.Drop {
		r.Metric = 0
		return r
	}
	return o
}
