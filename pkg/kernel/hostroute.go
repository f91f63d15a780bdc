package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// hostRoute is a foreign route, with everything that determines where it leads.
type hostRoute struct {
	netstate.Route
	source   netip.Addr
	priority uint32
	hops     []hop // none if the kernel reports none
}

type hop struct {
	link string
	via  netip.Addr
	down bool
}

// defaults returns the next hops of a default route.
func (r hostRoute) defaults() []netstate.DefaultRoute {
	var ways []netstate.DefaultRoute
	for _, h := range r.hops {
		way := netstate.DefaultRoute{Route: r.Route, Source: r.source, Priority: r.priority, Down: h.down}
		way.Link, way.Via = h.link, h.via
		ways = append(ways, way)
	}
	return ways
}

// decodeHostRoute reads what decodeRoute does, and what our own routes lack: several
// hops, gateways of the other family, a prescribed source.
func decodeHostRoute(b []byte, names names) (hostRoute, bool) {
	plain, ok := decodeRoute(b, names)
	if !ok {
		return hostRoute{}, false
	}
	r := hostRoute{Route: plain}
	one := decodeHop(b[unix.SizeofRtMsg:], uint8(native.Uint32(b[8:])))
	one.link = plain.Link
	for typ, data := range attrs(b[unix.SizeofRtMsg:]) {
		switch typ {
		case unix.RTA_PREFSRC:
			r.source = addrOf(data)
		case unix.RTA_PRIORITY:
			r.priority = uint32Of(data)
		case unix.RTA_MULTIPATH:
			r.hops = decodeHops(data, names)
		}
	}
	if one.link != "" {
		r.hops = append(r.hops, one)
	}
	return r, true
}

// decodeHops reads the hops of a route that has several.
func decodeHops(b []byte, names names) []hop {
	var hops []hop
	for len(b) >= unix.SizeofRtNexthop {
		n := int(native.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			return hops
		}
		h := decodeHop(b[unix.SizeofRtNexthop:n], b[2])
		if h.link = names[int(native.Uint32(b[4:]))]; h.link != "" {
			hops = append(hops, h)
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return hops
}

// decodeHop reads everything of a hop except its link.
func decodeHop(b []byte, flags uint8) hop {
	h := hop{down: flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0}
	for typ, data := range attrs(b) {
		switch {
		case typ == unix.RTA_GATEWAY:
			h.via = addrOf(data)
		case typ == unix.RTA_VIA && len(data) > 2: // after the family
			h.via = addrOf(data[2:])
		}
	}
	return h
}

// RouteTo returns the path on which the kernel would send to an address. If it would
// not send at all, the Path is zero, without an error.
func (k *Kernel) RouteTo(ctx context.Context, to netip.Addr) (netstate.Path, error) {
	if err := ctx.Err(); err != nil {
		return netstate.Path{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	names, err := k.conn.names()
	if err != nil {
		return netstate.Path{}, err
	}
	link, source, err := k.conn.route(to, netip.Addr{}, 0)
	return netstate.Path{Link: names[link], Source: source}, err
}

// LinkTo returns the index of the link through which the kernel would send from an address of
// this host to another, with a firewall mark. It is 0 if the kernel would not send at all.
func (k *Kernel) LinkTo(to, from netip.Addr, mark uint32) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	link, _, err := k.conn.route(to, from, mark)
	return link, err
}

// route looks up a route. from may be invalid.
func (c *conn) route(to, from netip.Addr, mark uint32) (link int, source netip.Addr, err error) {
	c.out.reset()
	c.out.begin(unix.RTM_GETROUTE, 0, c.nextSeq())
	c.out.bytes(familyOf(to), uint8(to.BitLen()), uint8(from.BitLen()), 0, 0, 0, 0, 0)
	c.out.uint32(0)
	c.out.attrAddr(unix.RTA_DST, to)
	if from.IsValid() {
		c.out.attrAddr(unix.RTA_SRC, from)
	}
	if mark != 0 {
		c.out.attrUint32(unix.RTA_MARK, mark)
	}
	c.out.end()
	body, err := c.ask(unix.RTM_NEWROUTE)
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH),
		errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL): // no route, and the three kinds that refuse
		return 0, netip.Addr{}, nil
	case err != nil:
		return 0, netip.Addr{}, fmt.Errorf("find the route to %s: %w", to, err)
	}
	for typ, data := range attrsAfter(body, unix.SizeofRtMsg) {
		switch typ {
		case unix.RTA_OIF:
			link = int(uint32Of(data))
		case unix.RTA_PREFSRC:
			source = addrOf(data)
		}
	}
	return link, source, nil
}
