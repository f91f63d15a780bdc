package daemon

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errUnprivileged ends a process that may not change the host's network.
var errUnprivileged = errors.New("not permitted to change this host's network; run it as root: with sudo, or as a service (systemctl start tulled)")

// CheckPrivileges returns an error if this process may not change the host's network. Root
// passes in any case: in a container that lacks the capability, the status shows what
// the kernel refuses.
func CheckPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // for 64 capabilities, the lower half first
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return nil // operations that need the capability fail later, and are reported
	}
	return checkPrivileges(os.Geteuid(), sets[0].Effective)
}

func checkPrivileges(user int, capabilities uint32) error {
	if user != 0 && capabilities&(1<<unix.CAP_NET_ADMIN) == 0 {
		return errUnprivileged
	}
	return nil
}
