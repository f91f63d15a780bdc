package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Survey returns the state of the whole host.
func (k *Kernel) Survey(ctx context.Context) (netstate.Survey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	names, err := k.conn.names()
	if err != nil {
		return netstate.Survey{}, err
	}
	var s netstate.Survey
	place := map[string]int{}
	err = k.conn.dumpLinks(func(b []byte) {
		l, ok := decodeLink(b, names)
		if !ok {
			return
		}
		place[l.Name] = len(s.Links)
		s.Links = append(s.Links, netstate.HostLink{Link: l, Enslaved: enslaved(b)})
	})
	if err != nil {
		return netstate.Survey{}, fmt.Errorf("list links: %w", err)
	}
	addrs, err := k.collect(ctx, query{"addresses", unix.AF_UNSPEC, unix.RTM_GETADDR, func(w *writer) {
		w.uint32(0)
		w.uint32(0)
	}, func(b []byte) (netstate.Object, bool) {
		a, ok := decodeAddr(b, names)
		return addrWithFlags{a, addrFlags(b)}, ok
	}}, nil)
	if err != nil {
		return netstate.Survey{}, fmt.Errorf("list addresses: %w", err)
	}
	for _, o := range addrs {
		a := o.(addrWithFlags)
		if i, ok := place[a.Link]; ok {
			s.Links[i].Addrs = append(s.Links[i].Addrs, a.hostAddr())
		}
	}
	if err := k.surveyRoutes(ctx, names, &s); err != nil {
		return netstate.Survey{}, fmt.Errorf("list routes: %w", err)
	}
	return s, k.readRouterAdvertisements(s.Links)
}

// addrWithFlags is an address as the kernel reports it.
type addrWithFlags struct {
	netstate.Addr
	flags uint32
}

func (a addrWithFlags) hostAddr() netstate.HostAddr {
	return netstate.HostAddr{
		Prefix:     a.Prefix,
		Secondary:  a.flags&unix.IFA_F_SECONDARY != 0,
		Deprecated: a.flags&unix.IFA_F_DEPRECATED != 0,
		Duplicate:  a.flags&unix.IFA_F_DADFAILED != 0,
		Dynamic:    a.flags&unix.IFA_F_PERMANENT == 0,
	}
}

// addrFlags reads the flags of an address that decodeAddr has accepted.
func addrFlags(b []byte) uint32 {
	for typ, data := range attrsAfter(b, unix.SizeofIfAddrmsg) {
		if typ == unix.IFA_FLAGS {
			return uint32Of(data)
		}
	}
	return 0
}

// surveyRoutes returns the default routes, the routes without a gateway, and those
// with a gateway that lead to a part of such a network.
func (k *Kernel) surveyRoutes(ctx context.Context, names names, s *netstate.Survey) error {
	var routed []netstate.Route
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		routes, err := k.collect(ctx, query{"routes", family, unix.RTM_GETROUTE, func(w *writer) {
			w.bytes(family, 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.RTN_UNICAST)
			w.uint32(0)
		}, func(b []byte) (netstate.Object, bool) {
			r, ok := decodeHostRoute(b, names)
			if !ok || r.Protocol == 0 || len(r.hops) == 0 {
				return nil, false // ours are many, and this keeps them off the heap
			}
			return r, true
		}}, nil)
		if err != nil {
			return err
		}
		for _, o := range routes {
			r := o.(hostRoute)
			// Any of several gateways will do: it only matters that the route is not direct.
			r.Link, r.Via = r.hops[0].link, r.hops[0].via
			switch {
			case r.Dst.Bits() == 0:
				s.Defaults = append(s.Defaults, r.defaults()...)
			case r.Via.IsValid():
				routed = append(routed, r.Route)
			case !r.Dst.Addr().IsLinkLocalUnicast():
				s.OnLink = append(s.OnLink, r.Route)
			}
		}
	}
	networks := s.OnLink
	for _, r := range routed {
		for _, d := range networks {
			if d.Dst.Bits() <= r.Dst.Bits() && d.Dst.Contains(r.Dst.Addr()) {
				s.OnLink = append(s.OnLink, r)
				break
			}
		}
	}
	return nil
}

func (k *Kernel) readRouterAdvertisements(links []netstate.HostLink) error {
	paths := make([]string, len(links))
	for i, l := range links {
		paths[i] = "net/ipv6/conf/" + l.Name + "/accept_ra"
	}
	settings, err := k.dumpSysctls(paths)
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	accept := map[string]bool{}
	for _, o := range settings {
		if s := o.(netstate.Sysctl); s.Value == "1" || s.Value == "2" {
			accept[s.Path] = true
		}
	}
	for i := range links {
		links[i].RouterAdvertisements = accept[paths[i]]
	}
	return nil
}

func enslaved(b []byte) bool {
	link, err := netlink.LinkDeserialize(nil, b)
	return err == nil && link.Attrs().MasterIndex != 0
}
