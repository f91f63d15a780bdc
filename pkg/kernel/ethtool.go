package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// ethtool sends an ethtool request that holds a single number, and returns the number
// that the kernel returned. Any socket of the namespace will do; netlink's exists
// already.
func (c *conn) ethtool(link string, command, number uint32) (uint32, error) {
	value := struct{ command, number uint32 }{command, number}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // to the size of the largest request
	}{data: unsafe.Pointer(&value)}
	if copy(request.name[:unix.IFNAMSIZ-1], link) < len(link) {
		return 0, unix.ENODEV // no link has such a long name
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return 0, errno
	}
	return value.number, nil
}

// txChecksums are the values of a netstate.TxChecksum.
var txChecksums = [2]string{"off", "on"}

func (c *conn) readTxChecksum(link string) (string, error) {
	number, err := c.ethtool(link, unix.ETHTOOL_GTXCSUM, 0)
	if err != nil {
		return "", err
	}
	return txChecksums[min(number, 1)], nil
}

func (c *conn) writeTxChecksum(link, value string) error {
	is, err := c.readTxChecksum(link)
	if err != nil || is == value {
		return err
	}
	var number uint32
	switch value {
	case txChecksums[0]:
	case txChecksums[1]:
		number = 1
	default:
		return fmt.Errorf("%w: %q is neither on nor off", unix.EINVAL, value)
	}
	_, err = c.ethtool(link, unix.ETHTOOL_STXCSUM, number)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; it is %s: set it on the host with «ethtool -K %s tx %s»", err, is, link, value)
	case err != nil:
		return fmt.Errorf("%w; it is %s, and the device may support no other value", err, is)
	}
	// The kernel does not report an error for what the device cannot do now.
	if is, err = c.readTxChecksum(link); err == nil && is != value {
		return fmt.Errorf("it stays %s: %w", is, unix.EOPNOTSUPP)
	}
	return err
}

// eventFeatures is the reason of a link message about a changed feature, from
// linux/if_link.h.
const eventFeatures = 2

// decodeFeatures returns the path of the setting, among those that we set, that a
// link message may report as changed.
func decodeFeatures(b []byte) (path string, ok bool) {
	for typ, data := range attrsAfter(b, unix.SizeofIfInfomsg) {
		if typ == unix.IFLA_EVENT && uint32Of(data) == eventFeatures {
			_, name := linkName(b)
			return netstate.TxChecksum(name, "").Path, true
		}
	}
	return "", false
}
