package ends

import (
	"net/netip"
	"sync/atomic"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

// endpoint is where a peer is, and which address of this host it knows. All packets from there share
// one endpoint.
type endpoint struct {
	name datagram.Name
	from datagram.Source
	// routes is the generation of routes with which from was found to be right, or unknown if
	// packets leave from where the kernel says.
	routes atomic.Uint64
}

const unknown = 0

// ClearSrc implements conn.Endpoint.
func (e *endpoint) ClearSrc() { e.routes.Store(unknown) }

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
	if e.routes.Load() == unknown {
		return netip.Addr{}
	}
	return e.from.Addr
}
