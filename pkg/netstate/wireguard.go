package netstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unique"
)

// PublicKey is the public key of a WireGuard device or peer. It can be compared, and
// takes the room of a pointer. The zero PublicKey is none.
type PublicKey struct{ handle unique.Handle[[32]byte] }

// PublicKeyOf returns the key with these bytes. All zeros are no key.
func PublicKeyOf(b [32]byte) PublicKey {
	if b == ([32]byte{}) {
		return PublicKey{}
	}
	return PublicKey{unique.Make(b)}
}

// ErrPublicKey is returned for text that is no public key.
var ErrPublicKey = errors.New("not a WireGuard public key, which has 44 characters of base64")

// ParsePublicKey reads a key as WireGuard writes it, in base64.
func ParsePublicKey(s string) (PublicKey, error) {
	var b [32]byte
	if len(s) == base64.StdEncoding.EncodedLen(len(b)) {
		// The decoder skips line breaks, which leave too few bytes.
		if raw, err := base64.StdEncoding.Strict().DecodeString(s); err == nil && len(raw) == len(b) {
			b = [32]byte(raw)
		}
	}
	if b == ([32]byte{}) {
		return PublicKey{}, fmt.Errorf("%.50q is %w", s, ErrPublicKey)
	}
	return PublicKeyOf(b), nil
}

// IsZero reports whether k is none.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// Bytes returns the key's bytes, zeros if it is none.
func (k PublicKey) Bytes() (b [32]byte) {
	if !k.IsZero() {
		b = k.handle.Value()
	}
	return b
}

// Compare orders keys by their bytes.
func (k PublicKey) Compare(o PublicKey) int {
	a, b := k.Bytes(), o.Bytes()
	return bytes.Compare(a[:], b[:])
}

func (k PublicKey) String() string {
	b := k.Bytes()
	return base64.StdEncoding.EncodeToString(b[:])
}

// PSK refers to a preshared key without disclosing it. 0 is none.
type PSK uint64

// PSKOf returns the reference to a preshared key. All zeros are none.
func PSKOf(secret [32]byte) PSK {
	if secret == ([32]byte{}) {
		return 0
	}
	sum := sha256.Sum256(append([]byte("tulle psk "), secret[:]...))
	return PSK(max(1, binary.BigEndian.Uint64(sum[:])))
}

// WireGuard is what a wireguard device has beyond other links. That of a program is zero
// while none moves its packets.
type WireGuard struct {
	// Key refers to the private key: it is the public one that belongs to it.
	Key  PublicKey
	Port uint16 // it listens on
}

// PortInUse returns the error for a port that another program uses, with the fix.
func (w WireGuard) PortInUse(err error) error {
	return fmt.Errorf("%w: another program uses UDP port %d; find it with «ss -lun sport = %d», then stop it or give this network another ListenPort", err, w.Port, w.Port)
}

// IsWireGuard reports whether l is a wireguard device, of the kernel or of a program.
func (l Link) IsWireGuard() bool { return l.Kind == TunnelWireGuard || l.Kind == TunnelWireGuardTUN }

// WGPeer is a peer of a wireguard link.
type WGPeer struct {
	Link string
	Peer PublicKey
	// Endpoint is where the peer was last said to be. As a wanted peer's, the zero
	// Endpoint is any: it will come to us.
	Endpoint netip.AddrPort
	PSK      PSK
	// Keepalive is after how many seconds of silence we send the peer something; 0 is
	// never.
	Keepalive uint16
	// Roamed says that Endpoint is where the peer itself came from, by a packet that
	// proved to be its own. It replaces what a lease says until the lease changes. It
	// is never wanted.
	Roamed bool
}

// WGAllowed is a prefix that belongs to a peer of a wireguard link: packets to it go to
// the peer alone, and packets from it are accepted from the peer alone. The peer takes
// it along when it goes.
type WGAllowed struct {
	Link   string
	Prefix netip.Prefix
	Peer   PublicKey
}

// Key names the peer on its link.
func (p WGPeer) Key() Key { return Key{Kind: KindWGPeer, Name: p.Link, Peer: p.Peer} }

// Key names the prefix. A link has one peer for it.
func (a WGAllowed) Key() Key {
	return Key{Kind: KindWGAllowed, Name: a.Link, IP: a.Prefix.Addr(), Bits: bitsOf(a.Prefix)}
}

// serves reports whether p is what want asks for. An endpoint that was learned from the
// peer does.
func (p WGPeer) serves(want WGPeer) bool {
	if p.Roamed || !want.Endpoint.IsValid() {
		p.Endpoint, p.Roamed = want.Endpoint, false
	}
	return p == want
}

func (p WGPeer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wgpeer %s", p.Peer)
	if p.Endpoint.IsValid() {
		fmt.Fprintf(&b, " endpoint %s", p.Endpoint)
	}
	if p.Roamed {
		b.WriteString(" roamed")
	}
	if p.Keepalive != 0 {
		fmt.Fprintf(&b, " keepalive %d", p.Keepalive)
	}
	if p.PSK != 0 {
		b.WriteString(" psk")
	}
	fmt.Fprintf(&b, " dev %s", p.Link)
	return b.String()
}

func (a WGAllowed) String() string {
	return fmt.Sprintf("wgallowed %s peer %s dev %s", a.Prefix, a.Peer, a.Link)
}
