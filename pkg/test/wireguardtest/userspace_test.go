//go:build vm && flannel

package wireguardtest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestFlannelWireGuardInUserSpace runs two tulleds with WireGuard in user space beside a flanneld,
// which has the kernel's, and kills one of them under a flood of pings.
func TestFlannelWireGuardInUserSpace(t *testing.T) {
	l := newLab(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard","PSK":"`+psk+`","Implementation":"userspace"}}`)
	a, b, c := l.host[0], l.host[1], l.host[2]
	endTulled := a.tulled()
	b.tulled()
	c.flanneld()
	for _, h := range l.host {
		h.addressed()
	}
	l.reach("beside flannel")
	for _, h := range l.host {
		kernels := h.ns.IP(t, "link show type wireguard")
		if inKernel := strings.Contains(kernels, "flannel-wg:"); inKernel != (h == c) || strings.Contains(kernels, "tulle") {
			t.Errorf("node %d has the kernel's devices %q", h.number, kernels)
		}
	}
	kerneltest.Eventually(t, slow, func() error {
		for _, p := range a.peers() {
			if len(p.Sessions) != 1 || p.Sessions[0].Handshake == "" || p.Sessions[0].Received == 0 {
				return fmt.Errorf("node 1 has %+v", p)
			}
		}
		return nil
	})

	count := a.flood(c)
	endTulled(syscall.SIGKILL)
	a.tulled()
	a.ready()
	l.reach("after a restart")
	l.keeps("the restart", count)
}
