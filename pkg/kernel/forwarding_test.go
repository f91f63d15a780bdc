package kernel

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestForwardingReachesDevices while another program writes the same setting, and a third keeps the
// kernel's lock for devices busy.
func TestForwardingReachesDevices(t *testing.T) {
	ns, busy := kerneltest.NewNS(t, "forwarding"), kerneltest.NewNS(t, "busy")
	done := make(chan struct{})
	var working sync.WaitGroup
	defer func() {
		close(done)
		working.Wait()
	}()
	working.Go(func() {
		busy.Do(t, func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				a := netlink.NewLinkAttrs()
				a.Name = "a"
				if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "b"}); err != nil {
					return err
				}
				if err := netlink.LinkDel(&netlink.Dummy{LinkAttrs: a}); err != nil {
					return err
				}
			}
		})
	})
	all := sysctlFile(sysctls, forwardingOfAll)
	begin, ended := make(chan struct{}), make(chan error)
	working.Go(func() {
		ns.Do(t, func() error {
			for range begin {
				ended <- overwrite(all, "1")
			}
			return nil
		})
	})
	ns.Do(t, func() error {
		defer close(begin)
		for round := range 10000 {
			if err := overwrite(all, "0"); err != nil {
				return err
			}
			begin <- struct{}{}
			err := writeSysctl(netstate.Sysctl{Path: forwardingOfAll, Value: "1"})
			if err = errors.Join(err, <-ended); err != nil {
				return err
			}
			for _, device := range []string{"lo", "default"} {
				if is, err := readSysctl(ipv4Settings + "/" + device + "/forwarding"); err != nil || is != "1" {
					return fmt.Errorf("round %d: forwarding of %s is %q: %v", round, device, is, err)
				}
			}
		}
		return nil
	})
}
