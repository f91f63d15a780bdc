package udp

import (
	"encoding/binary"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// endpoint is an address and port to send to.
type endpoint struct {
	name datagram.Name
	host packet.Addr // the address
}

func newEndpoint(at netip.AddrPort) endpoint {
	return endpoint{name: datagram.NameOf(at), host: addrOf(at.Addr())}
}

// hostOf returns the address in a name.
func hostOf(name *datagram.Name) packet.Addr {
	if name.Is4() {
		return packet.Addr{Low: uint64(binary.BigEndian.Uint32(name.Addr4()))}
	}
	a := name.Addr6()
	return packet.Addr{High: binary.BigEndian.Uint64(a), Low: binary.BigEndian.Uint64(a[8:])}
}
