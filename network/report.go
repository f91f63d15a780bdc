package network

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// Report tells how the node is, at length. It waits for Run's goroutine.
func (a *Agent) Report(ctx context.Context) (status.Report, error) {
	s := a.Status()
	r := status.Report{
		NodeID: a.Node.ID, Name: a.Node.Name,
		Ready: s.Ready, Missing: s.Missing,
		Peers:    status.Count{All: s.Peers},
		Kernel:   kernelReport(s.Kernel),
		Firewall: status.Firewall{Written: s.Firewall.Tried, Healed: s.Firewall.Healed, Others: s.Firewall.Others},
	}
	if !s.Remembered.IsZero() {
		r.Remembered = &s.Remembered
	}
	if s.Firewall.Err != nil {
		r.Firewall.Problem = s.Firewall.Err.Error()
	}
	for _, e := range s.Rejected {
		r.Rejected = append(r.Rejected, status.Problem{What: e.Key, Why: e.Err.Error()})
	}
	failing := a.Files.Failing()
	for _, path := range slices.Sorted(maps.Keys(failing)) {
		r.Files = append(r.Files, status.Problem{What: path, Why: failing[path].Error()})
	}
	err := a.look(ctx, func() {
		r.Network.Backend, r.Network.Networks = a.config.Backend.Type, valid(networks(a.config))
		if a.backend != nil {
			r.Network.MTU = a.backend.MTU()
		}
		r.Interfaces = a.interfaces()
		if a.own != (subnet.Lease{}) {
			r.Lease = &status.Lease{
				Key: a.own.Key(), Subnets: valid(a.own.Subnets), Addresses: valid(a.own.PublicIP),
				Reservation: a.own.IsReservation(),
			}
			if since := a.since; !since.IsZero() {
				r.Lease.Since = &since
			}
			r.Peers.Unreachable = len(a.peers.troubled(s.Kernel))
			r.Network.Devices = a.peers.devices()
		}
	})
	r.Probes = a.probes(ctx, r.Interfaces)
	return r, err
}

// look has f done by Run's goroutine, within ctx.
func (a *Agent) look(ctx context.Context, f func()) error {
	if a.ask(ctx, func() bool { f(); return true }) {
		return nil
	}
	return fmt.Errorf("the daemon's main loop did not answer: %w", context.Cause(ctx))
}

// valid are those of a pair that there are.
func valid[T interface{ IsValid() bool }](p subnet.Pair[T]) (all []T) {
	for _, v := range p {
		if v.IsValid() {
			all = append(all, v)
		}
	}
	return all
}

func (a *Agent) interfaces() (all []status.Interface) {
	for f, u := range a.host.Uplinks {
		if u.IsValid() && a.config.Pools[f].IsValid() {
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
	for _, c := range s.Contested {
		k.Problems = append(k.Problems, c.String()+": several peers need different values; the earliest lease wins")
	}
	if s.DumpError != nil {
		k.Problems = append(k.Problems, "dump failed: "+s.DumpError.Error())
	}
	if s.WatchError != nil {
		k.Problems = append(k.Problems, "watch failed: "+s.WatchError.Error())
	}
	return k
}

// trouble is why a peer cannot be reached, and since when if that is known.
type trouble struct {
	why   string
	since time.Time
}

// troubled are the peers with trouble, by key.
func (p *Peers) troubled(s reconcile.Status) map[string]trouble {
	all := make(map[string]trouble)
	for _, f := range s.Failing {
		if _, more := all[f.Owner]; !more && f.Owner != Host && f.Owner != lastResort {
			all[f.Owner] = trouble{f.Key.String() + ": " + f.Err.Error(), f.Since}
		}
	}
	for key, err := range p.Unreachable() {
		all[key] = trouble{why: err.Error()}
	}
	return all
}

// Peers tells of all other nodes. It waits for Run's goroutine.
func (a *Agent) Peers(ctx context.Context) ([]status.Peer, error) {
	var peers *Peers
	if err := a.look(ctx, func() { peers = a.peers }); err != nil || peers == nil {
		return nil, err
	}
	kernel := a.loop.Status()
	troubled := peers.troubled(kernel)
	believed := peers.All()
	devices := peers.devices()
	all := make([]status.Peer, 0, len(believed))
	for _, b := range believed {
		l := b.Lease
		p := status.Peer{
			Key: b.Key, Name: l.Node.Name, Subnets: valid(l.Subnets), Addresses: valid(l.PublicIP),
			By: by(peers.wants(l), devices), InSync: kernel.InSync,
		}
		if t, bad := troubled[p.Key]; bad {
			p.InSync, p.Problem = false, t.why
			if !t.since.IsZero() {
				p.Since = &t.since
			}
		} else if kernel.Complete {
			p.InSync = kernel.InSync || kernel.Pending == 0
		}
		p.Probes = a.probeOf(b.Key)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b status.Peer) int { return slices.CompareFunc(a.Subnets, b.Subnets, netip.Prefix.Compare) })
	return all, nil
}

// wants are what the kernel should hold for a peer.
func (p *Peers) wants(l *subnet.Lease) []netstate.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	objects, _ := p.backend.Peer(p.own, *l) // what can be done all the same
	return objects
}

// devices are the tunnel devices of this node, by name: its own and adopted ones.
func (p *Peers) devices() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.backend.Host(p.own) {
		if l, isLink := o.(netstate.Link); isLink {
			names = append(names, l.Name)
		}
	}
	return names
}

// by is how packets go to who has these parts, through devices or without.
func by(objects []netstate.Object, devices []string) string {
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
