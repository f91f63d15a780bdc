package ends

import (
	"net/netip"
	"sync/atomic"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

// endpoint is where a peer is, and which address of this host it knows. All packets from there share
// one endpoint.
type endpoint struct {
	name   datagram.Name
	source datagram.Source
	// way decides from where packets leave: unpinned, asks, or what the kernel has answered.
	way atomic.Uint64
}

// The values of endpoint.way. All others are 2 * the generation of routes in which the kernel was
// asked, + 1 if packets leave from the source.
const (
	unpinned = 0 // the kernel chooses where packets leave from
	asks     = 1 // the kernel is asked before the next packet
)

// learnt is called when a packet has shown the source.
func (e *endpoint) learnt() {
	if e.way.Load() == unpinned {
		e.way.CompareAndSwap(unpinned, asks)
	}
}

// ClearSrc implements conn.Endpoint.
func (e *endpoint) ClearSrc() { e.way.Store(unpinned) }

// SrcToString implements conn.Endpoint.
func (e *endpoint) SrcToString() string { return e.SrcIP().String() }

// DstToString implements conn.Endpoint.
func (e *endpoint) DstToString() string { return e.name.AddrPort().String() }

// DstToBytes implements conn.Endpoint.
func (e *endpoint) DstToBytes() []byte {
	b, _ := e.name.AddrPort().MarshalBinary() // never fails
	return b
}

// DstIP implements conn.Endpoint.
func (e *endpoint) DstIP() netip.Addr { return e.name.AddrPort().Addr() }

// SrcIP implements conn.Endpoint.
func (e *endpoint) SrcIP() netip.Addr {
	if e.way.Load() == unpinned {
		return netip.Addr{}
	}
	return e.source.Addr
}
