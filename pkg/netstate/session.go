package netstate

import (
	"net/netip"
	"time"
)

// SessionLife is how long after a handshake WireGuard sends and accepts packets.
const SessionLife = 180 * time.Second

// Session is what the kernel knows of its exchange with a peer of a wireguard link.
type Session struct {
	Link     string
	Peer     PublicKey
	Endpoint netip.AddrPort // where packets to the peer go
	// Handshake is the time of the last complete handshake by the clock of the day, zero if
	// there was none.
	Handshake time.Time
	// Received and Sent are the bytes of all packets on the wire since the peer was set.
	Received, Sent uint64
}

// SessionDrops counts packets that wireguard links have dropped.
type SessionDrops struct {
	NoPeer      uint64 // to send, for an address of no peer, or of one whose endpoint is unknown
	NoSession   uint64 // to send, when no handshake was completed in time
	WrongSource uint64 // received, from an address that is not the sender's
	Malformed   uint64 // received, with a wrong length
}

// Traffic is what went through a link since it was made, also with peers that are gone.
type Traffic struct {
	Link           string
	Received, Sent uint64 // bytes of all packets on the wire
	Dropped        SessionDrops
}

// Sessions are all sessions of some links, and what went through these links.
type Sessions struct {
	Peers []Session
	Links []Traffic
}
