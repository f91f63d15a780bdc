package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// errNoPeer is the error for a prefix whose peer could not be set.
var errNoPeer = errors.New("the peer could not be set")

// wgApplier is the part of an applier for peers and prefixes.
type wgApplier struct {
	batch   []wgStep
	refused map[netstate.Key]bool // peers that the kernel refused in this Apply
	leaving map[netstate.Key]bool // peers that the plan deletes, with their prefixes
}

// wgStep is a step, and the endpoint that it sets, if any.
type wgStep struct {
	op  netstate.Op
	at  netip.AddrPort
	psk [32]byte
}

// leavingPeers returns the peers that a plan deletes.
func leavingPeers(p netstate.Plan) map[netstate.Key]bool {
	var leaving map[netstate.Key]bool
	for _, op := range p {
		if o, ok := op.Object.(netstate.WGPeer); ok && op.Verb == netstate.Delete {
			if leaving == nil {
				leaving = make(map[netstate.Key]bool)
			}
			leaving[o.Key()] = true
		}
	}
	return leaving
}

// addWireGuard adds a step on a peer or a prefix to their batch.
func (a *applier) addWireGuard(op netstate.Op) {
	w := &a.wireguard
	if len(w.batch) > 0 && kindOf(w.batch[0].op) != kindOf(op) {
		a.flushWireGuard() // prefixes are added only to peers that the kernel accepted
	}
	s := wgStep{op: op}
	switch o := op.Object.(type) {
	case netstate.WGPeer:
		if op.Verb == netstate.Delete {
			break
		}
		var err error
		if s.psk, err = a.k.wireguard.psk(o); err != nil {
			a.refuse(op, err)
			return
		}
		s.at = a.k.wireguard.given.ToSet(op.Verb, o)
	case netstate.WGAllowed:
		peer := netstate.WGPeer{Link: o.Link, Peer: o.Peer}.Key()
		switch {
		case op.Verb == netstate.Delete && w.leaving[peer]:
			return
		case op.Verb != netstate.Delete && w.refused[peer]:
			a.fail(op, errNoPeer)
			return
		}
	}
	if w.batch = append(w.batch, s); len(w.batch) == batchSize {
		a.flushWireGuard()
	}
}

func kindOf(op netstate.Op) netstate.Kind { return op.Object.Key().Kind }

// refuse records that a step failed, so that its peer gets no prefixes.
func (a *applier) refuse(op netstate.Op, err error) {
	a.fail(op, err)
	if kindOf(op) == netstate.KindWGPeer {
		if a.wireguard.refused == nil {
			a.wireguard.refused = make(map[netstate.Key]bool)
		}
		a.wireguard.refused[op.Object.Key()] = true
	}
}

// psk returns a peer's preshared key.
func (w *wireguard) psk(p netstate.WGPeer) (key [32]byte, err error) {
	if p.PSK == 0 {
		return key, nil
	}
	ok := false
	if w.secrets != nil {
		key, ok = w.secrets.PSK(p.PSK)
	}
	if !ok {
		return key, errors.New("the peer's preshared key is unknown")
	}
	return key, nil
}

// flushWireGuard sends the batch in one call and records what the kernel refused.
func (a *applier) flushWireGuard() {
	batch := a.wireguard.batch
	if len(batch) == 0 {
		return
	}
	a.wireguard.batch = batch[:0]
	w := &a.k.wireguard
	c, err := w.open(a.k.namespace)
	if err != nil {
		for _, s := range batch {
			a.refuse(s.op, err)
		}
		return
	}
	c.out.reset()
	for _, s := range batch {
		c.out.wgRequest(w.family, s.op, s.psk, s.at, c.nextSeq())
	}
	c.out.demandAnswer()
	failed := make([]error, len(batch))
	err = c.exchange(len(batch), func(i int, err error) { failed[i] = err })
	clear(c.out.buf) // of secrets
	w.check(errors.Join(failed...))
	for i, s := range batch {
		switch e := errors.Join(err, failed[i]); {
		case e == nil || s.op.Verb == netstate.Delete && absent(e):
			w.record(s)
		case errors.Is(e, syscall.EOPNOTSUPP):
			a.refuse(s.op, fmt.Errorf("%w: link %s is not a wireguard device", e, netstate.LinkOf(s.op.Object)))
		default:
			a.refuse(s.op, e)
		}
	}
	clear(batch)
}

// record remembers the endpoint that a step has set.
func (w *wireguard) record(s wgStep) {
	if p, ok := s.op.Object.(netstate.WGPeer); ok {
		w.given.Record(s.op.Verb, p, s.at)
	}
}

// dumpWireGuard returns the attributes that a wireguard device has in addition to those
// of other links. It appends the device's peers and prefixes to out.
func (k *Kernel) dumpWireGuard(ctx context.Context, link string, out []netstate.Object) (device netstate.WireGuard, all []netstate.Object, err error) {
	begin := len(out)
	err = k.readWireGuard(ctx, link, func() { out = out[:begin] }, func(got wgMessage) {
		if got.first {
			device = got.device
		}
		for _, p := range got.peers {
			k.wireguard.given.Note(&p.WGPeer, p.handshake)
			out = append(out, p.WGPeer)
		}
		for _, a := range got.allowed {
			out = append(out, a)
		}
	})
	if err != nil {
		return device, nil, err
	}
	return device, out, nil
}

// readWireGuard passes each message of a dump of a device to visit. If the device changes
// meanwhile, it calls again and starts over.
func (k *Kernel) readWireGuard(ctx context.Context, link string, again func(), visit func(wgMessage)) error {
	c, err := k.wireguard.open(k.namespace)
	if err != nil {
		return err
	}
	for range dumpAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		again()
		c.out.reset()
		c.out.begin(k.wireguard.family, unix.NLM_F_DUMP, c.nextSeq())
		c.out.bytes(unix.WG_CMD_GET_DEVICE, unix.WG_GENL_VERSION, 0, 0)
		c.out.attrString(unix.WGDEVICE_A_IFNAME, link)
		c.out.end()
		err = c.dump(func(m message) { visit(decodeWireGuard(m.body, link)) })
		clear(c.in) // of secrets
		if !errors.Is(err, errInterrupted) {
			break
		}
	}
	if err != nil {
		k.wireguard.check(err)
		return fmt.Errorf("dump wireguard device %s: %w", link, err)
	}
	return nil
}
