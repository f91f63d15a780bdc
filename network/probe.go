package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// probed is the agent as the prober's source of peers.
type probed struct{ *Agent }

// Peers implements probe.Source.
func (a probed) Peers(ctx context.Context) []string {
	keys, _ := askLoop(ctx, a.Agent, func() (keys []string) { // without an answer there are none
		if a.peers == nil {
			return nil
		}
		return a.peers.keys()
	})
	return keys
}

// Paths implements probe.Source.
func (a probed) Paths(ctx context.Context, keys []string) []probe.Path {
	paths, _ := askLoop(ctx, a.Agent, func() []probe.Path { // without an answer there are none
		if a.peers == nil {
			return nil
		}
		return a.peers.paths(keys, a.host.Uplinks)
	})
	return paths
}

// Route implements probe.Source.
func (a probed) Route(ctx context.Context, to netip.Addr) (string, error) {
	path, err := a.Kernel.RouteTo(ctx, to)
	return path.Link, err
}

// Sessions implements probe.Source.
func (a probed) Sessions(ctx context.Context, paths []probe.Path) []probe.Session {
	all := make([]probe.Session, len(paths))
	if a.Agent.Sessions == nil {
		return all
	}
	var links []string
	for _, p := range paths {
		if !slices.Contains(links, p.Link) {
			links = append(links, p.Link)
		}
	}
	known, err := a.Agent.Sessions(ctx, links)
	if err != nil {
		return all
	}
	of := make(map[[2]string]netstate.Session, len(known.Peers))
	for _, s := range known.Peers {
		of[[2]string{s.Link, s.Peer.String()}] = s
	}
	for i, p := range paths {
		if s, ok := of[[2]string{p.Link, p.Key}]; ok {
			all[i] = probe.Session{Known: true, Handshake: s.Handshake, Received: s.Received}
		}
	}
	return all
}

// probedChange handles a change of the prober's findings.
func (a *Agent) probedChange() {
	a.changed()
	failing := a.Prober.Summary().Failing
	if slices.ContainsFunc(failing, probe.Result.Proven) {
		a.call(a.ctx, a.checksumsBreak)
	}
	if slices.ContainsFunc(failing, vetoes) {
		a.call(a.ctx, func() { a.vetoRoutes(failing) })
	}
}

// overlay is the node's part of the overlay: its address in each family, its devices,
// and their MTU.
type overlay struct {
	from    subnet.Pair[netip.Addr]
	devices map[string]netstate.Link
	mtu     subnet.Pair[int]
}

func (p *peerSet) overlay() overlay {
	p.mu.Lock()
	defer p.mu.Unlock()
	return overlayOf(p.hostObjects())
}

func overlayOf(host []netstate.Object) overlay {
	o := overlay{devices: make(map[string]netstate.Link)}
	for _, object := range host {
		if l, isLink := object.(netstate.Link); isLink {
			o.devices[l.Name] = l
		}
	}
	for _, object := range host {
		if a, isAddr := object.(netstate.Addr); isAddr {
			f := subnet.FamilyOf(a.Prefix.Addr())
			o.from[f], o.mtu[f] = a.Prefix.Addr(), o.devices[a.Link].MTU
		}
	}
	return o
}

// paths returns the paths to peers for probes, one per family that has one.
func (p *peerSet) paths(keys []string, uplinks subnet.Pair[hostif.Uplink]) (all []probe.Path) {
	p.mu.Lock()
	defer p.mu.Unlock()
	here := make(map[string]overlay) // by backend: during a move there are several
	for _, key := range keys {
		l := p.table.Peer(key)
		if l == nil {
			continue
		}
		way := p.way(subnet.Peer{Key: key, Lease: l}, backend.PlainMetrics)
		by, known := here[way.By]
		if !known {
			by = overlayOf(p.backends.HostOf(way.By, p.own))
			here[way.By] = by
		}
		for f, u := range uplinks {
			route, ok := routeTo(way.Objects, l.Subnets[f])
			if !ok || !u.IsValid() {
				continue
			}
			path := probe.Path{
				Peer: key, Name: l.Node.Name, Link: route.Link, Tunnel: by.devices[route.Link].Traffic(),
				From: u.Address, To: l.PublicIP[f], HostFrom: u.Address, HostTo: l.PublicIP[f], MTU: u.MTU,
				Tag: probe.NewTag(l.Node.Instance), Key: keyOn(way.Objects, route.Link),
			}
			if by.from[f].IsValid() {
				// The peer has an address of its own device, by the same backend.
				path.From, path.To, path.MTU = by.from[f], l.Subnets[f].Addr(), by.mtu[f]
			}
			if l.Node.MTU != 0 {
				path.MTU = min(path.MTU, l.Node.MTU)
			}
			all = append(all, path)
		}
	}
	return all
}

// keyOn returns the public key of the peer that objects have on a link, or "" if it does
// not encrypt.
func keyOn(objects []netstate.Object, link string) string {
	for _, o := range objects {
		if p, isPeer := o.(netstate.WGPeer); isPeer && p.Link == link {
			return p.Peer.String()
		}
	}
	return ""
}

// admit makes the responder answer the peers that remain after changes. A peer probes
// from the first address of each of its subnets.
func (p *peerSet) admit(c subnet.Changes) {
	if p.responder == nil {
		return
	}
	var gone []netip.Addr
	come := make([]netip.Addr, 0, len(c.Set)) // nearly every peer has one family
	add := func(to *[]netip.Addr, subnets subnet.Pair[netip.Prefix]) {
		for _, s := range subnets {
			if s.IsValid() {
				*to = append(*to, s.Addr())
			}
		}
	}
	for _, key := range c.Drop {
		if subnets, err := subnet.ParseKey(key); err == nil {
			add(&gone, subnets)
		}
	}
	for _, peer := range c.Set {
		add(&come, peer.Lease.Subnets)
	}
	p.responder.Dismiss(gone)
	p.responder.Admit(come)
}

func routeTo(objects []netstate.Object, dst netip.Prefix) (netstate.Route, bool) {
	for _, o := range objects {
		if r, isRoute := o.(netstate.Route); isRoute && r.Dst == dst {
			return r, true
		}
	}
	return netstate.Route{}, false
}

// examples limits the failing peers in a report.
const examples = 5

// probesReport reports on all probes; it returns nil if probes are disabled.
func (v View) probesReport() *status.Probes {
	if v.Probes == nil {
		return nil
	}
	s := v.Probes
	r := &status.Probes{
		Known: s.Known, Passed: s.Well, Failing: make(map[string]int), Failed: make(map[string]uint64),
		Problems: s.Clocks,
	}
	if s.Latency.Count > 0 {
		r.MeanMillis = millis(s.Latency.Sum / time.Duration(s.Latency.Count))
	}
	for i, bound := range probe.Bounds() {
		r.Took = append(r.Took, status.Took{Millis: millis(bound), Count: s.Latency.Buckets[i]})
	}
	for cause, n := range s.Failed {
		r.Failed[string(cause)] = n
	}
	for _, f := range s.Failing {
		r.Failing[string(f.Cause)]++
		if len(r.Examples) < examples {
			what := f.Peer
			if f.Name != "" {
				what = f.Name + " (" + f.Peer + ")"
			}
			r.Examples = append(r.Examples, status.Problem{What: what, Why: f.Why()})
		}
	}
	if s.unheard() {
		r.Problems = append(r.Problems, v.whyUnheard())
	}
	return r
}

// unheard reports whether no peer answers at all.
func (p *probes) unheard() bool {
	return p.Known > 0 && len(p.Failing) == p.Known &&
		!slices.ContainsFunc(p.Failing, func(r probe.Result) bool { return r.Cause != probe.Down })
}

// whyUnheard returns the likely reason why no peer answers.
func (v View) whyUnheard() string {
	to := v.Probes.Failing[0].HostTo
	family := subnet.FamilyOf(to).String()
	for _, i := range v.interfaces() {
		if i.Family != family {
			continue
		}
		switch link := v.Probes.link; {
		case link == nil:
		case *link == "":
			return fmt.Sprintf("no peer answers: this host has no route to %s", to)
		case *link != i.Name:
			return fmt.Sprintf("no peer answers: this host sends to them through %s, but its uplink is %s with %s, chosen by %s; if that is wrong, set %s",
				*link, i.Name, i.Public, i.Why, v.uplinkSetting)
		}
		return fmt.Sprintf("no peer answers: this host may be cut off, or its uplink %s with %s, chosen by %s, is wrong; if so, set %s", i.Name, i.Public, i.Why, v.uplinkSetting)
	}
	return "no peer answers"
}

// probeOf reports on the probes of one peer.
func (v View) probeOf(key string) *status.PeerProbes {
	if v.Probes == nil {
		return nil
	}
	r, known := v.Probes.of(key)
	if !known {
		return nil
	}
	p := &status.PeerProbes{At: r.At, Millis: millis(r.RTT), Cause: string(r.Cause), Problem: r.Why()}
	if r.Cause != probe.Well {
		p.Since = &r.Since
	}
	return p
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
