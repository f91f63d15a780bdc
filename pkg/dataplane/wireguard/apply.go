package wireguard

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// batchSize is how many steps one request has at most.
const batchSize = 256

// errNoPeer is the error for a prefix whose peer could not be set.
var errNoPeer = errors.New("the peer could not be set")

// Apply carries out steps on peers and prefixes.
func (e *Engine) Apply(ctx context.Context, p netstate.Plan) (failed netstate.Failures) {
	for len(p) > 0 {
		name := netstate.LinkOf(p[0].Object)
		n := 1
		for n < len(p) && n < batchSize && netstate.LinkOf(p[n].Object) == name {
			n++
		}
		failed = append(failed, e.apply(ctx, e.link(name), p[:n])...)
		p = p[n:]
	}
	return failed
}

// apply carries out some steps on one link. If the program refuses one, it does the steps
// one by one. If the program does not answer, all steps that are left fail.
func (e *Engine) apply(ctx context.Context, l *link, p netstate.Plan) (failed netstate.Failures) {
	if l == nil {
		for _, op := range p {
			if op.Verb != netstate.Delete {
				failed = append(failed, &netstate.OpError{Op: op, Err: syscall.ENODEV})
			}
		}
		return failed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) > 1 {
		if err := e.send(ctx, l, p); err == nil || isUnanswered(err) {
			return failAll(p, err)
		}
	}
	refused := make(map[netstate.Key]bool)
	for i, op := range p {
		a, isPrefix := op.Object.(netstate.WGAllowed)
		err := errNoPeer
		if !isPrefix || !refused[netstate.WGPeer{Link: a.Link, Peer: a.Peer}.Key()] {
			err = e.send(ctx, l, p[i:i+1])
		}
		if isUnanswered(err) {
			return append(failed, failAll(p[i:], err)...)
		}
		if err != nil {
			refused[op.Object.Key()] = true
			failed = append(failed, &netstate.OpError{Op: op, Err: err})
		}
	}
	return failed
}

// failAll returns the failures of steps that all failed with one error, if that is not nil.
func failAll(p netstate.Plan, err error) (failed netstate.Failures) {
	if err == nil {
		return nil
	}
	for _, op := range p {
		failed = append(failed, &netstate.OpError{Op: op, Err: err})
	}
	return failed
}

// send carries out steps in one request.
func (e *Engine) send(ctx context.Context, l *link, p netstate.Plan) error {
	r := newRequest(len(p))
	defer r.clear()
	set := make([]netip.AddrPort, len(p))
	for i, op := range p {
		switch o := op.Object.(type) {
		case netstate.WGPeer:
			r.key("public_key", o.Peer.Bytes())
			if op.Verb == netstate.Delete {
				r.line("remove", "true")
				break
			}
			psk, ok := [32]byte{}, true
			if o.PSK != 0 {
				psk, ok = e.options.Secrets.PSK(o.PSK)
			}
			if !ok {
				return errors.New("the peer's preshared key is unknown")
			}
			r.key("preshared_key", psk)
			if set[i] = l.given.ToSet(op.Verb, o); set[i].IsValid() {
				r.line("endpoint", set[i])
			}
			r.line("persistent_keepalive_interval", o.Keepalive)
		case netstate.WGAllowed:
			// A peer that this created would lack its preshared key.
			r.key("public_key", o.Peer.Bytes())
			r.line("update_only", "true")
			if op.Verb == netstate.Delete {
				r.line("allowed_ip", "-"+o.Prefix.String())
			} else {
				r.line("allowed_ip", o.Prefix)
			}
		default:
			return syscall.EOPNOTSUPP
		}
	}
	if err := e.ask(ctx, l, r, nil); err != nil {
		return err
	}
	for i, op := range p {
		if o, ok := op.Object.(netstate.WGPeer); ok {
			l.given.Record(op.Verb, o, set[i])
		}
	}
	return nil
}

// configure gives the program a key and a port, where it has others.
func (e *Engine) configure(ctx context.Context, l *link, is, want netstate.WireGuard, private [32]byte) error {
	r := newRequest(1)
	defer r.clear()
	if is.Key != want.Key {
		r.key("private_key", private)
	}
	if is.Port != want.Port {
		r.line("listen_port", want.Port)
	}
	err := e.ask(ctx, l, r, nil)
	if errors.Is(err, syscall.EADDRINUSE) {
		return want.PortInUse(err)
	}
	return err
}

// request is a request to a program. It has secrets.
type request struct{ bytes.Buffer }

// getRequest returns a request for all that a program holds.
func getRequest() *request {
	r := &request{}
	r.WriteString("get=1\n")
	return r
}

// newRequest returns a request with room for some steps, so that it leaves no copy of a
// secret behind when it grows.
func newRequest(steps int) *request {
	const perStep = 320
	r := &request{}
	r.Grow((steps + 1) * perStep)
	r.WriteString("set=1\n")
	return r
}

func (r *request) line(key string, value any) { fmt.Fprintf(r, "%s=%v\n", key, value) }

func (r *request) key(name string, key [32]byte) {
	r.WriteString(name)
	r.WriteByte('=')
	r.Write(hex.AppendEncode(r.AvailableBuffer(), key[:]))
	r.WriteByte('\n')
}

func (r *request) clear() { clear(r.Bytes()[:r.Cap()]) }
