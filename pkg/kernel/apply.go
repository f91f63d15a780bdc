package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// batchSize is how many messages go to the kernel in one send: enough to make the
// cost of the call negligible, few enough for the answers to fit.
const batchSize = 256

// Apply carries out p. Failed steps do not prevent the others; the error is then
// netstate.Failures. It is no failure to delete a missing object.
func (k *Kernel) Apply(ctx context.Context, p netstate.Plan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := applier{k: k, indices: map[string]int{}, batch: make([]pending, 0, min(len(p)+1, batchSize))}
	a.wireguard.leaving = leavingPeers(p)
	for i, op := range p {
		if err := ctx.Err(); err != nil {
			for _, b := range a.batch {
				if !b.aid {
					a.fail(b.op, err)
				}
			}
			a.batch = a.batch[:0]
			for _, s := range a.wireguard.batch {
				a.fail(s.op, err)
			}
			a.wireguard.batch = nil
			a.failAll(p[i:], err)
			break
		}
		switch o := op.Object.(type) {
		case netstate.Link:
			a.flush()
			a.flushWireGuard()
			a.fail(op, k.applyLink(op.Verb, o))
			delete(a.indices, o.Name)
		case netstate.Sysctl:
			a.flush()
			err := inNamespace(k.namespace, func() error { return k.writeSetting(o) })
			if err == nil {
				k.silent.see([]netstate.Object{o}, false)
			}
			a.fail(op, err)
		case netstate.WGPeer, netstate.WGAllowed:
			a.flush()
			a.addWireGuard(op)
		case netstate.UDPPeer:
			a.fail(op, errNoProgram)
		default:
			a.flushWireGuard()
			a.add(op)
		}
	}
	a.flush()
	a.flushWireGuard()
	if len(a.failures) > 0 {
		return a.failures
	}
	return nil
}

// errNoProgram is why a kernel takes no peers of a link in user space.
var errNoProgram = errors.New("no program moves the link's packets")

// applier is one running Apply.
type applier struct {
	k        *Kernel
	indices  map[string]int // of links, negative for missing ones; for this Apply only
	batch    []pending
	failures netstate.Failures

	wireguard wgApplier
}

type pending struct {
	op    netstate.Op
	index int
	aid   bool // no step of the plan, but one that helps another; it may fail
}

func (a *applier) fail(op netstate.Op, err error) {
	if err != nil {
		a.failures = append(a.failures, &netstate.OpError{Op: op, Err: err})
	}
}

func (a *applier) failAll(ops []netstate.Op, err error) {
	for _, op := range ops {
		a.fail(op, err)
	}
}

// add adds a step to the batch, and sends the batch when it is full.
func (a *applier) add(op netstate.Op) {
	on := netstate.LinkOf(op.Object)
	if r, ok := op.Object.(netstate.Route); on == "" && (op.Verb == netstate.Delete || ok && r.Drop) {
		// A route through no link, or through several: its destination identifies it.
		a.queue(op, 0)
		return
	}
	index, err := a.index(on)
	switch {
	case err == nil:
		if r, ok := op.Object.(netstate.Route); ok && op.Verb == netstate.Replace && throughItself(r) {
			a.replaceThroughItself(op, r, index)
			return
		}
		a.queue(op, index)
	case op.Verb == netstate.Delete && errors.Is(err, syscall.ENODEV):
		// The object went with its link.
	default:
		a.fail(op, err)
	}
}

// throughItself reports whether a route leads to its own gateway. Over IPv6, the
// kernel refuses to replace a route through another link with such a one: it finds
// that link when it looks up the gateway, although the route names another.
func throughItself(r netstate.Route) bool {
	return r.OnLink && r.Dst.Addr().Is6() && r.Dst.Contains(r.Via)
}

// replaceThroughItself replaces a route. In the same send, it first adds a route to the
// gateway alone, by which the kernel finds the gateway, and then deletes it. So packets to
// all other addresses take either the former route or the new one.
func (a *applier) replaceThroughItself(op netstate.Op, r netstate.Route, index int) {
	if len(a.batch) > batchSize-3 {
		a.flush() // the three go to the kernel in one send
	}
	gateway := netstate.Route{Dst: netip.PrefixFrom(r.Via, r.Via.BitLen()), Link: r.Link}
	// Another program may have such a route. It then stays: it has another protocol.
	a.batch = append(a.batch,
		pending{netstate.Op{Verb: netstate.Create, Object: gateway}, index, true},
		pending{op, index, false},
		pending{netstate.Op{Verb: netstate.Delete, Object: gateway}, index, true})
	if len(a.batch) == batchSize {
		a.flush()
	}
}

func (a *applier) queue(op netstate.Op, index int) {
	a.batch = append(a.batch, pending{op, index, false})
	if len(a.batch) == batchSize {
		a.flush()
	}
}

// index returns the index that a link has in this Apply. It asks once per link, not
// once per object.
func (a *applier) index(name string) (int, error) {
	index, known := a.indices[name]
	if !known {
		// The socket is free: no message of the batch was sent.
		var err error
		index, err = a.k.conn.index(name)
		switch {
		case errors.Is(err, syscall.ENODEV):
			index = -1
		case err != nil:
			return 0, err
		}
		a.indices[name] = index
	}
	if index < 0 {
		return 0, fmt.Errorf("link %s: %w", name, syscall.ENODEV)
	}
	return index, nil
}

// flush sends the batch in one call and records what the kernel refused.
func (a *applier) flush() {
	if len(a.batch) == 0 {
		return
	}
	c := a.k.conn
	c.out.reset()
	for _, p := range a.batch {
		c.out.request(p.op, p.index, c.nextSeq())
	}
	c.out.demandAnswer()
	err := c.exchange(len(a.batch), func(i int, err error) {
		if p := a.batch[i]; !p.aid && (p.op.Verb != netstate.Delete || !absent(err)) {
			a.fail(p.op, err)
		}
	})
	if err != nil {
		// The outcome is unknown. Each step can be retried.
		for _, p := range a.batch {
			if !p.aid {
				a.fail(p.op, err)
			}
		}
	}
	a.batch = a.batch[:0]
}

// absent reports whether err means that the object to be deleted does not exist.
func absent(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOENT, syscall.ESRCH, syscall.ENODEV, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
