package ends

import (
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/tulle-net/tulle/pkg/kernel"
)

// New returns the ends of a device: a TUN device, which closes d and k with it, and UDP sockets that
// are not open yet. k is the kernel of this host. drop is called when too many packets wait for peers
// without a session, and drops them. The device ends when it gets another name or goes to another network
// namespace. On an error, both stay open.
func New(d tun.Device, k *kernel.Kernel, drop func()) (tun.Device, conn.Bind, error) {
	out, in := newFlow(drop), newFlow(func() {})
	t, err := newTUN(d, out, in)
	if err != nil {
		return nil, nil, err
	}
	t.routes = newRoutes(k, t.check)
	return t, newSockets(out, in, t.routes), nil
}
