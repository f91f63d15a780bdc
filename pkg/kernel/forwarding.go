package kernel

import (
	"errors"
	"io/fs"
	"os"

	"github.com/tulle-net/tulle/pkg/netstate"
)

const (
	ipv4Settings = "net/ipv4/conf"
	// forwardingOfAll is the setting that also sets every device, and what later ones begin with.
	forwardingOfAll = ipv4Settings + "/all/forwarding"
)

// spreadForwarding sets every device after forwardingOfAll was written, if the kernel has not. A write
// that finds the kernel's lock for devices taken undoes itself and starts again. Meanwhile, another
// program's write of the same value takes it for the value from before, and changes no device. Then so
// does the first. A CNI plugin writes this setting when tulled does: on a new host.
func spreadForwarding(value string) error {
	beginning := ipv4Settings + "/default/forwarding"
	if is, err := readSysctl(beginning); err != nil || is == value {
		return err
	}
	if err := setSysctl(netstate.Sysctl{Path: beginning, Value: value}, sysctls, hostSysctls); err != nil {
		return err
	}
	devices, err := os.ReadDir(sysctlFile(sysctls, ipv4Settings))
	for _, d := range devices {
		s := netstate.Sysctl{Path: ipv4Settings + "/" + d.Name() + "/forwarding", Value: value}
		if e := setSysctl(s, sysctls, hostSysctls); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
