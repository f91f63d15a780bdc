package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Secrets has the keys that netstate only refers to. The Kernel calls it while it
// applies a plan. It must not call the Kernel.
type Secrets interface {
	// PrivateKey returns the private key that belongs to a public one.
	PrivateKey(public netstate.PublicKey) (key [32]byte, ok bool)
	// PSK returns the preshared key that has a reference.
	PSK(ref netstate.PSK) (key [32]byte, ok bool)
}

// UseSecrets sets where the Kernel gets the keys of wireguard devices. Without it, no
// such device can be made.
func (k *Kernel) UseSecrets(s Secrets) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wireguard.secrets = s
}

// wireguard configures and reads the wireguard devices of a namespace. It opens its
// socket for the first device.
type wireguard struct {
	secrets Secrets
	conn    *conn
	family  uint16
	given   netstate.Endpoints
}

// open returns the socket. The kernel loads its module when open asks for the family.
func (w *wireguard) open(namespace string) (*conn, error) {
	if w.conn != nil {
		return w.conn, nil
	}
	c, err := dial(namespace, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	c.out.reset()
	c.out.begin(unix.GENL_ID_CTRL, 0, c.nextSeq())
	c.out.bytes(unix.CTRL_CMD_GETFAMILY, 1, 0, 0)
	c.out.attrString(unix.CTRL_ATTR_FAMILY_NAME, unix.WG_GENL_NAME)
	c.out.end()
	body, err := c.ask(unix.GENL_ID_CTRL)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("%w: the kernel does not support wireguard devices; load or install its module", err)
	}
	for typ, data := range attrsAfter(body, genlHeader) {
		if typ == unix.CTRL_ATTR_FAMILY_ID {
			w.family = uint16Of(data)
		}
	}
	w.conn, w.given = c, netstate.Endpoints{}
	return c, nil
}

func (w *wireguard) close() {
	if w.conn != nil {
		w.conn.close()
	}
	w.conn = nil
}

// check closes the socket if err means that the family is gone: the module was loaded
// again, so the family has another number. The next call asks for the number again.
func (w *wireguard) check(err error) {
	if errors.Is(err, unix.ENOENT) {
		w.close()
	}
}

// HasWireGuard returns nil if the kernel has wireguard devices, or why it has none. It makes
// the kernel load its module.
func (k *Kernel) HasWireGuard() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.wireguard.open(k.namespace)
	return err
}

// configure gives a device its private key and its port.
func (w *wireguard) configure(namespace string, l netstate.Link) error {
	c, err := w.open(namespace)
	if err != nil {
		return err
	}
	private, err := w.privateKey(l)
	if err != nil {
		return err
	}
	c.out.reset()
	c.out.wgDevice(w.family, l.Name, c.nextSeq())
	c.out.attr(unix.WGDEVICE_A_PRIVATE_KEY, private[:])
	c.out.attrUint16(unix.WGDEVICE_A_LISTEN_PORT, l.WireGuard.Port)
	c.out.end()
	c.out.demandAnswer()
	err = c.await()
	clear(c.out.buf)
	w.check(err)
	if errors.Is(err, unix.EADDRINUSE) {
		return l.WireGuard.PortInUse(err)
	}
	return err
}

// privateKey returns the private key of a device.
func (w *wireguard) privateKey(l netstate.Link) (key [32]byte, err error) {
	ok := false
	if w.secrets != nil {
		key, ok = w.secrets.PrivateKey(l.WireGuard.Key)
	}
	if !ok {
		return key, fmt.Errorf("link %s: no private key for the public key %s", l.Name, l.WireGuard.Key)
	}
	return key, nil
}

// applyWireGuard creates or changes one wireguard device. It configures the device
// before setting it up, so that the device never listens on a random port.
func (k *Kernel) applyWireGuard(l netstate.Link) error {
	is, index, err := k.link(l.Name)
	switch {
	case err == nil && !is.CanBecome(l):
		if err := k.deleteLink(l.Name, index); err != nil {
			return err
		}
	case err == nil:
		if err := k.wireguard.configure(k.namespace, l); err != nil {
			return err
		}
		return k.startWireGuard(l, is, index)
	case !errors.Is(err, unix.ENODEV):
		return err
	}
	if _, err := k.wireguard.privateKey(l); err != nil {
		return err
	}
	k.wireguard.given.Forget(l.Name)
	down := l
	down.Up = false
	if err := k.createLink(down); err != nil {
		return err
	}
	if err := k.wireguard.configure(k.namespace, l); err != nil {
		return err
	}
	if is, index, err = k.link(l.Name); err != nil {
		return err
	}
	return k.startWireGuard(l, is, index)
}

// startWireGuard sets the remaining attributes of a device, which brings it up.
func (k *Kernel) startWireGuard(l, is netstate.Link, index int) error {
	err := k.changeLink(l, is, index)
	if errors.Is(err, unix.EADDRINUSE) {
		return l.WireGuard.PortInUse(err)
	}
	return err
}
