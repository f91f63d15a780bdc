package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestSysctlInContainer writes settings as in a container: its /proc/sys is
// read-only, and the host's /proc/sys/net is mounted elsewhere or not at all.
func TestSysctlInContainer(t *testing.T) {
	ns := kerneltest.NewNS(t, "sysctl")
	host, none := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(host, "net"), 0o755); err != nil {
		t.Fatal(err)
	}
	ns.Do(t, func() error {
		// The mounts end with the thread.
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		for _, m := range []struct {
			from, to string
			flags    uintptr
		}{
			{"", "/", unix.MS_REC | unix.MS_PRIVATE},
			{"/proc/sys/net", filepath.Join(host, "net"), unix.MS_BIND},
			{"/proc/sys", "/proc/sys", unix.MS_BIND | unix.MS_REC},
			{"", "/proc/sys", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY},
		} {
			if err := unix.Mount(m.from, m.to, "", m.flags, ""); err != nil {
				return fmt.Errorf("mount %s: %w", m.to, err)
			}
		}
		for i, c := range []struct {
			path    string
			folders []string
			want    error
		}{
			{"net/ipv4/conf/lo/forwarding", []string{sysctls}, errReadOnly},
			{"net/ipv4/conf/lo/forwarding", []string{sysctls, none}, errReadOnly},
			{"net/ipv4/conf/lo/forwarding", []string{sysctls, host}, nil},
			{"net/ipv6/conf/lo/forwarding", []string{sysctls, host}, nil},
			{"net/ipv4/conf/none/forwarding", []string{sysctls, host}, os.ErrNotExist},
			{"kernel/hostname", []string{sysctls, host}, errReadOnly}, // outside the mounted folder
		} {
			for _, value := range []string{"1", "0"} {
				if err := setSysctl(netstate.Sysctl{Path: c.path, Value: value}, c.folders...); !errors.Is(err, c.want) {
					return fmt.Errorf("%d: %s: %w", i, c.path, err)
				}
				if is, err := readSysctl(c.path); c.want == nil && (err != nil || is != value) {
					return fmt.Errorf("%d: %s is %q: %w", i, c.path, is, err)
				}
			}
		}
		return nil
	})
}
