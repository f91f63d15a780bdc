package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// dumpAttempts is how often a dump is restarted if the kernel changes meanwhile. Each
// kind has its own dump, so that only a kind in constant change exhausts it.
const dumpAttempts = 20

// Dump returns what the kernel holds of ours: our links and those of scope, with the
// addresses, permanent neighbours and forwarding entries on them, and the routes of
// our protocol. It also returns the routes without a stated protocol that have a gateway
// or lead through a wireguard link of ours or of scope: they may be a predecessor's, and
// netstate.Diff decides. And it returns the settings of scope.
func (k *Kernel) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for attempt := 1; ; attempt++ {
		out, err := k.dumpAll(ctx, scope)
		if attempt == dumpAttempts || !errors.Is(err, unix.ENODEV) {
			return out, err
		}
		// A device of ours disappeared between the list of devices and the dump of its
		// objects.
	}
}

func (k *Kernel) dumpAll(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	names, err := k.conn.names()
	if err != nil {
		return nil, err
	}
	links, own, err := k.dumpOwnLinks(scope.Links, names)
	if err != nil {
		return nil, err
	}
	out := append(make([]netstate.Object, 0, scope.Objects+dumpSlack), links...)
	direct := make(map[string]bool)
	for i, o := range links {
		if l := o.(netstate.Link); l.IsWireGuard() {
			direct[l.Name] = true
			if l.Kind != netstate.TunnelWireGuard {
				continue // a program holds its peers
			}
			if l.WireGuard, out, err = k.dumpWireGuard(ctx, l.Name, out); err != nil {
				return nil, err
			}
			out[i] = l
		}
	}
	settings, err := k.dumpSysctls(scope.Sysctls)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	k.silent.see(settings, true)
	out = append(out, settings...)
	for _, index := range own {
		for _, q := range linkQueries(index, names) {
			if out, err = k.collect(ctx, q, out); err != nil {
				return nil, fmt.Errorf("dump %s on %s: %w", q.what, names[index], err)
			}
		}
	}
	for _, q := range routeQueries(names, direct) {
		if out, err = k.collect(ctx, q, out); err != nil {
			return nil, fmt.Errorf("dump %s: %w", q.what, err)
		}
	}
	return out, nil
}

// dumpSlack is room for a few objects more than a scope expects, such as another
// program's.
const dumpSlack = 64

// dumpOwnLinks returns our links with their indices.
func (k *Kernel) dumpOwnLinks(adopted []string, names names) (out []netstate.Object, own []int, err error) {
	err = k.conn.dumpLinks(func(b []byte) {
		index, _ := linkName(b)
		l, ok := decodeLink(b, names)
		if ok && (marked(l) || slices.Contains(adopted, l.Name)) {
			out, own = append(out, l), append(own, index)
		}
	})
	return out, own, err
}

// marked reports whether a link is ours. Its name shows that. If it was renamed, its
// group does, provided that it is of a kind that we make.
func marked(l netstate.Link) bool {
	if strings.HasPrefix(l.Name, netstate.LinkPrefix) {
		return true
	}
	return l.Group == netstate.Mark && l.IsTunnel()
}

// query is one dump request. It asks the kernel to filter. Older kernels do not, so
// decode filters again.
type query struct {
	what    string
	family  uint8
	request uint16
	body    func(*writer)
	decode  func(body []byte) (netstate.Object, bool)
}

func linkQueries(index int, names names) []query {
	on := names[index]
	here := func(o netstate.Object, ok bool) (netstate.Object, bool) {
		return o, ok && netstate.LinkOf(o) == on
	}
	queries := make([]query, 0, 5)
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		queries = append(queries, query{"addresses", family, unix.RTM_GETADDR, func(w *writer) {
			w.bytes(family, 0, 0, 0)
			w.uint32(uint32(index))
		}, func(b []byte) (netstate.Object, bool) {
			a, ok := decodeAddr(b, names)
			return here(a, ok)
		}})
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE} {
		queries = append(queries, query{"neighbours", family, unix.RTM_GETNEIGH, func(w *writer) {
			w.bytes(family, 0, 0, 0)
			w.uint32(0)
			w.uint32(0)
			w.attrUint32(unix.NDA_IFINDEX, uint32(index))
		}, func(b []byte) (netstate.Object, bool) {
			o, permanent, ok := decodeNeigh(b, names)
			return here(o, ok && permanent)
		}})
	}
	return queries
}

// routeQueries returns the queries for routes. On the links in direct, routes have no
// gateway.
func routeQueries(names names, direct map[string]bool) []query {
	var queries []query
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint8{netstate.Mark, netstate.ProtocolBoot} {
			var kind uint8 = unix.RTN_UNICAST
			if protocol == netstate.Mark {
				kind = unix.RTN_UNSPEC // all kinds
			}
			queries = append(queries, query{"routes", family, unix.RTM_GETROUTE, func(w *writer) {
				w.bytes(family, 0, 0, 0, unix.RT_TABLE_MAIN, protocol, 0, kind)
				w.uint32(0)
			}, func(b []byte) (netstate.Object, bool) {
				r, ok := decodeRoute(b, names)
				ours := r.Protocol == 0
				theirs := r.Protocol == netstate.ProtocolBoot && (r.Via.IsValid() || direct[r.Link]) && r.Metric == 0
				// A kernel that does not filter returns all routes for each query.
				return r, ok && (ours && protocol == netstate.Mark || theirs && protocol == netstate.ProtocolBoot)
			}})
		}
	}
	return queries
}

// collect repeats one query until it is not interrupted, and appends its result to
// out.
func (k *Kernel) collect(ctx context.Context, q query, out []netstate.Object) ([]netstate.Object, error) {
	c, begin := k.conn, len(out)
	for range dumpAttempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = out[:begin]
		c.out.reset()
		c.out.begin(q.request, unix.NLM_F_DUMP, c.nextSeq())
		q.body(&c.out)
		c.out.end()
		err := c.dump(func(m message) {
			if o, ok := q.decode(m.body); ok {
				out = append(out, o)
			}
		})
		switch {
		case err == nil:
			return out, nil
		case q.family == unix.AF_INET6 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)):
			return out[:begin], nil // a kernel without IPv6
		case !errors.Is(err, errInterrupted):
			return nil, err
		}
	}
	return nil, errInterrupted
}
