package network

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// Report returns a full report on the node.
func (a *Agent) Report(ctx context.Context) status.Report { return a.FullView(ctx).Report() }

// Report returns a full report on the node.
func (v View) Report() status.Report {
	checks := v.Checks()
	r := status.Report{
		NodeID: v.Node.ID, Name: v.Node.Name, Clone: v.Clone,
		Checks: checks, Ready: checks.Ready(), Missing: checks.Missing(), Failing: checks.Failing(),
		Peers:    v.Peers.report(len(v.troubled())),
		Network:  status.Network{Backend: v.Config.Backend.Type, Networks: valid(v.Config.Networks()), Devices: v.Peers.devices(), Move: v.Move.report(), Offload: v.Offload},
		Kernel:   kernelReport(v.Kernel),
		Firewall: status.Firewall{Written: v.Firewall.Tried, Healed: v.Firewall.Healed, Others: v.Firewall.Others},
		Probes:   v.probesReport(), WireGuard: v.wireguardReport(),
	}
	if v.Stuck != nil {
		r.Stuck, r.Peers.Unroutable = v.Stuck.Error(), 0
	}
	if r.Interfaces = v.interfaces(); !v.Backends.IsZero() {
		r.Network.MTU = v.Backends.MTU()
	}
	if !v.Remembered.IsZero() {
		r.Remembered = &v.Remembered
	}
	if v.Own != (subnet.Lease{}) {
		r.Lease = &status.Lease{
			Key: v.Own.Key(), Subnets: valid(v.Own.Subnets), Addresses: valid(v.Own.PublicIP),
			Reservation: v.Own.IsReservation(),
		}
		if !v.Since.IsZero() {
			r.Lease.Since = &v.Since
		}
	}
	if v.Firewall.Err != nil {
		r.Firewall.Problem = v.Firewall.Err.Error()
	}
	r.Reserved = v.Peers.Reserved
	r.RejectedCount = v.Peers.RejectedCount
	for _, e := range v.Peers.Rejected[:min(len(v.Peers.Rejected), fewRejected)] {
		r.Rejected = append(r.Rejected, status.Rejection{Key: e.Key, Code: e.Code(), Why: e.Err.Error()})
	}
	r.Fights = v.fights()
	r.AddFiles(v.Files, nil)
	return r
}

// report returns how many peers there are, and which ways packets to them take.
func (p peersView) report(unroutable int) status.Count {
	c := status.Count{All: p.Count, Unroutable: unroutable}
	if p.Tunnelled == nil {
		return c
	}
	native := p.Count - len(p.Tunnelled)
	c.Native, c.Tunnelled = &native, make(map[string]int)
	for _, d := range p.Tunnelled {
		c.Tunnelled[d.reason]++
	}
	return c
}

// fights returns everything that other programs keep changing.
func (v View) fights() (all []status.Fight) {
	add := func(kind, what, owner string, f budget.Fight) {
		all = append(all, status.NewFight(kind, what, owner, f))
	}
	for _, f := range v.Kernel.Fights {
		add(status.KernelFight, f.Key.String(), f.Owner, f.Fight)
	}
	for _, rules := range slices.Sorted(maps.Keys(v.Firewall.Fights)) {
		add(status.FirewallFight, rules, "", v.Firewall.Fights[rules])
	}
	for _, path := range slices.Sorted(maps.Keys(v.FileFights)) {
		add(status.FileFight, path, "", v.FileFights[path])
	}
	return all
}

// valid returns the valid values of a pair.
func valid[T interface{ IsValid() bool }](p subnet.Pair[T]) (all []T) {
	for _, v := range p {
		if v.IsValid() {
			all = append(all, v)
		}
	}
	return all
}

// interfaces returns the uplinks in each family of the network.
func (v View) interfaces() (all []status.Interface) {
	for f, u := range v.Interfaces.Uplinks {
		if u.IsValid() && v.Config.Pools[f].IsValid() {
			all = append(all, status.Interface{
				Family: subnet.Family(f).String(), Name: u.Link, Address: u.Address, Public: u.Public, MTU: u.MTU, Why: u.Why,
			})
		}
	}
	return all
}

func kernelReport(s reconcile.Status) status.Kernel {
	k := status.Kernel{
		InSync: s.InSync, Since: s.Since, Objects: s.Objects, Pending: s.Pending,
		Healed: make(map[string]uint64), LastResync: s.LastResync, ResyncMillis: float64(s.ResyncTook.Microseconds()) / 1000,
	}
	for kind, n := range s.Healed {
		k.Healed[kind.String()] = n
	}
	for _, f := range s.Failing {
		k.Failing = append(k.Failing, status.Failing{What: f.Key.String(), Owner: f.Owner, Why: f.Err.Error(), Since: f.Since})
	}
	k.Problems = kernelProblems(s)
	return k
}

// kernelProblems returns problems with the kernel beyond single objects.
func kernelProblems(s reconcile.Status) (all []string) {
	for _, c := range s.Contested {
		all = append(all, c.String()+": several peers need different values; the earliest lease wins")
	}
	if s.DumpError != nil {
		all = append(all, "dump failed: "+s.DumpError.Error())
	}
	if s.WatchError != nil {
		all = append(all, "watch failed: "+s.WatchError.Error())
	}
	return all
}

// unroutable is why a peer is unroutable, and since when if known.
type unroutable struct {
	why   string
	since time.Time
}

// isPeer reports whether an owner of objects is a peer. What is to be deleted may have no owner.
func isPeer(owner string) bool {
	switch owner {
	case "", ownerHost, ownerMove, lastResort:
		return false
	}
	return true
}

// troubled returns the unroutable peers by key.
func (v View) troubled() map[string]unroutable {
	all := make(map[string]unroutable)
	for _, f := range v.Kernel.Failing {
		if _, more := all[f.Owner]; !more && isPeer(f.Owner) {
			all[f.Owner] = unroutable{f.Key.String() + ": " + f.Err.Error(), f.Since}
		}
	}
	for _, f := range v.Kernel.Fights {
		if _, more := all[f.Owner]; !more && f.Lost() && isPeer(f.Owner) {
			all[f.Owner] = unroutable{f.Key.String() + ": " + f.String(), f.Since}
		}
	}
	for key, err := range v.Peers.Unroutable {
		all[key] = unroutable{why: err.Error()}
	}
	return all
}

// Peers reports on all other nodes.
func (a *Agent) Peers(ctx context.Context) ([]status.Peer, error) {
	v := a.view(ctx, withPeers)
	a.addSessions(ctx, &v)
	return v.peerReports(), v.Stuck
}

// peerReports reports on the peers in v, in the order of their subnets.
func (v View) peerReports() []status.Peer {
	troubled, devices, sessions := v.troubled(), v.Peers.devices(), v.sessionsByKey()
	all := make([]status.Peer, 0, len(v.Peers.All))
	for i := range v.Peers.All {
		b := &v.Peers.All[i]
		l := b.Lease
		p := status.Peer{
			Key: b.Key, Name: l.Node.Name, Subnets: valid(l.Subnets), Addresses: valid(l.PublicIP),
			By: pathKind(v.Peers.wants(b), devices), Tunnelled: v.Peers.Tunnelled[b.Key].why, InSync: v.Kernel.InSync, Probes: v.probeOf(b.Key),
			Sessions: v.sessionsWith(b, sessions),
		}
		if t, bad := troubled[p.Key]; bad {
			p.InSync, p.Problem = false, t.why
			if !t.since.IsZero() {
				p.Since = &t.since
			}
		} else if v.Kernel.Complete {
			p.InSync = v.Kernel.InSync || v.Kernel.Pending == 0
		}
		p.State = status.StateOf(p)
		p.OnClock(v.At)
		all = append(all, p)
	}
	sort.Slice(all, func(i, j int) bool {
		return slices.CompareFunc(all[i].Subnets, all[j].Subnets, netip.Prefix.Compare) < 0
	})
	return all
}

// pathKind returns how packets go to a peer with these objects: through devices,
// directly, or both.
func pathKind(objects []netstate.Object, devices []string) string {
	tunnel, direct := false, false
	for _, o := range objects {
		if r, isRoute := o.(netstate.Route); isRoute {
			ours := slices.Contains(devices, r.Link)
			tunnel, direct = tunnel || ours, direct || !ours
		}
	}
	switch {
	case tunnel && direct:
		return "tunnel and direct"
	case tunnel:
		return "tunnel"
	case direct:
		return "direct"
	}
	return ""
}
