package status

import (
	"fmt"
	"strings"
	"time"
)

// WireGuard is the state of the encrypted tunnels, with the backend wireguard.
type WireGuard struct {
	PublicKey string `json:"publicKey"` // this node's
	// Sessions counts the peers' keys by the age of their last handshake.
	Sessions map[string]int `json:"sessions,omitempty"`
	// Received and Sent are the bytes on the wire since the present devices were made.
	Received uint64 `json:"receivedBytes"`
	Sent     uint64 `json:"sentBytes"`
	// Dropped counts packets by reason, as far as that is known. Those that would have left past
	// the tunnel belong to no device.
	Dropped map[string]uint64 `json:"dropped,omitempty"`
	Devices []WireGuardDevice `json:"devices,omitempty"`
	Problem string            `json:"problem,omitempty"` // why what precedes is unknown
	// KeyMade is when the key was made; nil if that is unknown.
	KeyMade    *time.Time `json:"keyMade,omitempty"`
	KeyProblem string     `json:"keyProblem,omitempty"` // why the key cannot be replaced
	Rotation   *Rotation  `json:"rotation,omitempty"`   // nil while the key is not replaced
}

// WireGuardDevice is what went through a device since it was made.
type WireGuardDevice struct {
	Device   string            `json:"device"`
	Received uint64            `json:"receivedBytes"`
	Sent     uint64            `json:"sentBytes"`
	Dropped  map[string]uint64 `json:"dropped"`
}

// The ages of a session's last handshake.
const (
	SessionLive    = "live"    // packets can pass
	SessionExpired = "expired" // the next packet needs a new handshake
	SessionNever   = "never"   // no handshake was completed
)

// SessionAges returns all of them.
func SessionAges() []string { return []string{SessionLive, SessionExpired, SessionNever} }

// The reasons why packets are dropped with the backend wireguard.
const (
	DropPastTunnel  = "past-tunnel"  // a packet for the network would have left unencrypted
	DropNoPeer      = "no-peer"      // to an address of no peer, or of one whose endpoint is unknown
	DropNoSession   = "no-session"   // no handshake was completed in time
	DropWrongSource = "wrong-source" // received from an address that is not the sender's
	DropMalformed   = "malformed"    // received with a wrong length
)

// Drops returns all reasons.
func Drops() []string {
	return []string{DropPastTunnel, DropNoPeer, DropNoSession, DropWrongSource, DropMalformed}
}

// Session is the encrypted session with a peer, with the backend wireguard.
type Session struct {
	Device    string     `json:"device"`
	PublicKey string     `json:"publicKey"`           // the peer's
	Endpoint  string     `json:"endpoint,omitempty"`  // where packets to the peer go
	Handshake *time.Time `json:"handshake,omitempty"` // the last; nil if there was none
	Received  uint64     `json:"receivedBytes"`
	Sent      uint64     `json:"sentBytes"`
}

// wireguard writes the state of the encrypted tunnels.
func (w writer) wireguard(g *WireGuard) {
	if g == nil {
		return
	}
	if g.Problem != "" {
		w.line("wireguard", "public key "+g.PublicKey, g.Problem)
		w.key(g)
		return
	}
	var sessions, drops []string
	for _, age := range SessionAges() {
		if n := g.Sessions[age]; n > 0 {
			sessions = append(sessions, fmt.Sprintf("%d %s", n, age))
		}
	}
	for _, reason := range Drops() {
		if n := g.Dropped[reason]; n > 0 {
			drops = append(drops, fmt.Sprintf("%s %d", reason, n))
		}
	}
	text := "no session"
	if len(sessions) > 0 {
		text = "sessions: " + strings.Join(sessions, ", ")
	}
	dropped := ""
	if len(drops) > 0 {
		dropped = "packets dropped: " + strings.Join(drops, ", ")
	}
	w.line("wireguard", "public key "+g.PublicKey, text, "received "+Bytes(g.Received), "sent "+Bytes(g.Sent), dropped)
	w.key(g)
}

// sessions returns the sessions with a peer in words.
func (w writer) sessions(all []Session) (text string) {
	for _, s := range all {
		text += "; "
		if len(all) > 1 {
			text += s.Device + " "
		}
		if s.Handshake == nil {
			text += "no handshake yet"
		} else {
			text += "handshake " + w.ago(*s.Handshake)
		}
		text += fmt.Sprintf(", received %s, sent %s", Bytes(s.Received), Bytes(s.Sent))
	}
	return text
}

// Bytes returns a number of bytes for people.
func Bytes(n uint64) string {
	const step = 1000
	units := []string{"kB", "MB", "GB", "TB"}
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n) / step
	unit := 0
	for v >= step && unit+1 < len(units) {
		v, unit = v/step, unit+1
	}
	return fmt.Sprintf("%.1f %s", v, units[unit])
}
