package wireguard

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// answerLimit is how long a program may take to answer.
const answerLimit = 5 * time.Second

// send sends the request to a program's socket, and passes each line of the answer to
// visit. An answer with an error is that error.
func (r *request) send(socket string, visit func(key string, value []byte)) error {
	conn, err := net.DialTimeout("unix", socket, answerLimit)
	if err != nil {
		return fmt.Errorf("reach tulle-wireguard: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	r.WriteByte('\n')
	if _, err := conn.Write(r.Bytes()); err != nil {
		return fmt.Errorf("ask tulle-wireguard: %w", err)
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
		return fmt.Errorf("tulle-wireguard does not answer: %w", lines.Err())
	case !answered:
		return fmt.Errorf("tulle-wireguard does not answer: %w", syscall.EPROTO)
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

// read reads a program's device, and passes each peer to visit, if that is not nil.
func read(socket string, visit func(peer)) (is netstate.WireGuard, err error) {
	var r request
	r.WriteString("get=1\n")
	d := decoder{visit: visit}
	if err := r.send(socket, d.line); err != nil {
		return netstate.WireGuard{}, err
	}
	d.end()
	return d.is, nil
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
