package kernel

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const errReadOnly = syscall.EROFS

// Kernel is the kernel of one network namespace. Dump and Apply exclude each other.
// Watch runs concurrently on a socket of its own.
type Kernel struct {
	namespace string
	silent    *polled

	mu        sync.Mutex // guards what follows
	conn      *conn
	wireguard wireguard
}

// New opens the kernel of the network namespace at path, such as /run/netns/NAME. An
// empty path is the process's own.
func New(path string) (*Kernel, error) {
	c, err := dial(path, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	return &Kernel{namespace: path, silent: newSilent(), conn: c}, nil
}

// Close releases the sockets. Dump and Apply must not run at the same time.
func (k *Kernel) Close() {
	k.conn.close()
	k.wireguard.close()
}
