package daemon

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUsersWithoutTheCapabilityAreRefused checks that root and users with CAP_NET_ADMIN
// are accepted, and that others are refused.
func TestUsersWithoutTheCapabilityAreRefused(t *testing.T) {
	for _, c := range []struct {
		user         int
		capabilities uint32
		want         error
	}{
		{0, 0, nil}, {0, 1 << unix.CAP_NET_ADMIN, nil}, {1000, 1 << unix.CAP_NET_ADMIN, nil},
		{1000, 0, errUnprivileged}, {1000, ^uint32(1 << unix.CAP_NET_ADMIN), errUnprivileged},
	} {
		if err := checkPrivileges(c.user, c.capabilities); !errors.Is(err, c.want) {
			t.Errorf("user %d with capabilities %x: %v, want %v", c.user, c.capabilities, err, c.want)
		}
	}
	if err := CheckPrivileges(); err != nil {
		t.Errorf("these tests run as root: %v", err)
	}
}
