package wireguard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// unanswered is the error of a request to which no valid answer came. Whether the program
// carried it out is unknown.
type unanswered struct {
	what string
	err  error
}

func (u *unanswered) Error() string { return u.what + ": " + u.err.Error() }

func (u *unanswered) Unwrap() error { return u.err }

// isUnanswered reports whether no valid answer came. A refusal is an answer.
func isUnanswered(err error) bool { return errors.As(err, new(*unanswered)) }

// timedOut reports whether a program took too long to answer, or to accept a connection.
func timedOut(err error) bool {
	var slow net.Error
	return isUnanswered(err) && errors.As(err, &slow) && slow.Timeout()
}

// absent reports whether no program serves a socket.
func absent(err error) bool {
	return isUnanswered(err) && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED))
}

// dial connects to a program's socket.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, &unanswered{"reach tulle-wireguard", err}
	}
	return conn, nil
}

// send sends the request to a program's socket, and passes each line of the answer to
// visit. An answer with an error is that error. The end of ctx ends the wait for an answer.
func (r *request) send(ctx context.Context, socket string, visit func(key string, value []byte)) error {
	conn, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	r.WriteByte('\n')
	if _, err := conn.Write(r.Bytes()); err != nil {
		return &unanswered{"ask tulle-wireguard", err}
	}
	buf := make([]byte, 4096)
	defer clear(buf) // of secrets
	lines := bufio.NewScanner(conn)
	lines.Buffer(buf, len(buf))
	errno, answered := 0, false
	for lines.Scan() && len(lines.Bytes()) > 0 {
		key, value, _ := bytes.Cut(lines.Bytes(), []byte("="))
		switch {
		case string(key) == "errno":
			errno, err = strconv.Atoi(string(value))
			answered = err == nil
		case visit != nil:
			visit(string(key), value)
		}
	}
	switch {
	case lines.Err() != nil:
		return &unanswered{"tulle-wireguard does not answer", lines.Err()}
	case !answered:
		return &unanswered{"tulle-wireguard does not answer", syscall.EPROTO}
	case errno != 0:
		return fmt.Errorf("tulle-wireguard refuses: %w", syscall.Errno(max(errno, -errno)))
	}
	return nil
}

// peer is a peer as a program shows it.
type peer struct {
	netstate.WGPeer
	allowed        []netip.Prefix
	handshake      time.Time
	received, sent uint64
}

// decoder reads the lines about a device.
type decoder struct {
	is    netstate.WireGuard
	peer  peer
	visit func(peer)
}

// line reads a line. It ignores what it does not know, and what is invalid.
func (d *decoder) line(key string, value []byte) {
	p := &d.peer
	switch key {
	case "private_key":
		if private, err := wgkey.ParsePrivate(base64.StdEncoding.EncodeToString(decodeHex(value))); err == nil {
			d.is.Key = private.Public()
		}
	case "listen_port":
		d.is.Port = uint16(number(value, 16))
	case "public_key":
		d.end()
		d.peer = peer{}
		if raw := decodeHex(value); len(raw) == 32 {
			p.Peer = netstate.PublicKeyOf([32]byte(raw))
		}
	case "preshared_key":
		if raw := decodeHex(value); len(raw) == 32 {
			p.PSK = netstate.PSKOf([32]byte(raw))
		}
	case "endpoint":
		at, _ := netip.ParseAddrPort(string(value))
		p.Endpoint = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	case "persistent_keepalive_interval":
		p.Keepalive = uint16(number(value, 16))
	case "last_handshake_time_sec":
		if s := number(value, 62); s > 0 {
			p.handshake = time.Unix(int64(s), 0)
		}
	case "last_handshake_time_nsec": // which follows the seconds
		if ns := number(value, 64); ns < uint64(time.Second) && !p.handshake.IsZero() {
			p.handshake = time.Unix(p.handshake.Unix(), int64(ns))
		}
	case "rx_bytes":
		p.received = number(value, 64)
	case "tx_bytes":
		p.sent = number(value, 64)
	case "allowed_ip":
		if prefix, err := netip.ParsePrefix(string(value)); err == nil {
			p.allowed = append(p.allowed, prefix)
		}
	}
}

// end passes on the peer whose lines were read.
func (d *decoder) end() {
	if !d.peer.Peer.IsZero() && d.visit != nil {
		d.visit(d.peer)
	}
}

// decodeHex returns the bytes of a text, or nil if it is invalid.
func decodeHex(text []byte) []byte {
	raw := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(raw, text); err != nil {
		return nil
	}
	return raw
}

// number returns a number of some bits, or 0 if the text is invalid.
func number(text []byte, bits int) uint64 {
	n, err := strconv.ParseUint(string(text), 10, bits)
	if err != nil {
		return 0
	}
	return n
}
