//go:build vm && flannel

package wireguardtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestFlannelWireGuardNoHandshake puts a peer where no WireGuard runs.
func TestFlannelWireGuardNoHandshake(t *testing.T) {
	l := newLab(t, config)
	a := l.host[0]
	a.tulled()
	a.addressed()
	l.put("subnets/10.5.77.0-24", lease("198.18.0.250", "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
	a.finds("no-handshake")
}

// TestFlannelWireGuardOtherPSK runs two daemons with different preshared keys. So they
// have one config each, and the test tells each of the other's lease.
func TestFlannelWireGuardOtherPSK(t *testing.T) {
	l := newLab(t, config)
	a, b := l.host[0], l.host[1]
	const other = "/other/network/"
	l.write(other+"config", strings.Replace(config, "AQID", "AgID", 1))
	a.tulled()
	b.tulled("--etcd-prefix=" + strings.TrimSuffix(other, "/"))
	for _, h := range []*host{a, b} {
		h.addressed()
	}
	l.write(other+"subnets/10.5.77.0-24", lease("198.18.0.1", a.ownKey()))
	l.put("subnets/10.5.77.0-24", lease("198.18.0.2", b.ownKey()))
	a.finds("keys")
	b.finds("keys")
}

// TestFlannelWireGuardClockBack sets the clock back, and makes a host shake hands again.
func TestFlannelWireGuardClockBack(t *testing.T) {
	l := newLab(t, config)
	a, b := l.host[0], l.host[1]
	a.tulled()
	end := b.tulled()
	for _, h := range []*host{a, b} {
		h.addressed()
	}
	last := ""
	shaken := func() {
		t.Helper()
		kerneltest.Eventually(t, slow, func() error {
			for _, p := range a.peers() {
				if len(p.Sessions) == 1 && p.Sessions[0].Handshake > last {
					last = p.Sessions[0].Handshake
					return nil
				}
			}
			return fmt.Errorf("node 1 says %s", a.say("peers"))
		})
	}
	shaken()
	end(syscall.SIGKILL) // without packets of its own, b begins no handshake; a would accept it
	a.ns.IP(t, "link del tulle-wg")
	shaken() // a began it, so b knows a's time
	set := func(back time.Duration) {
		now := unix.NsecToTimespec(time.Now().Add(back).UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			t.Fatal(err)
		}
	}
	set(-time.Hour)
	t.Cleanup(func() { set(time.Hour) })
	a.ns.IP(t, "link del tulle-wg")
	a.finds("clock-back")
}

// lease returns the lease of a node.
func lease(ip, key string) string {
	return `{"PublicIP":"` + ip + `","BackendType":"wireguard","BackendData":{"PublicKey":"` + key + `","Port":51820}}`
}

// finds waits until the probes of a peer find a cause.
func (h *host) finds(cause string) {
	h.t.Helper()
	kerneltest.Eventually(h.t, slow, func() error {
		for _, p := range h.peers() {
			if p.Probes.Cause == cause {
				return nil
			}
		}
		return fmt.Errorf("node %d does not find %s: %s", h.number, cause, h.say("peers"))
	})
}

// ownKey returns the public key that tulled on a host reports as its own.
func (h *host) ownKey() (key string) {
	h.t.Helper()
	kerneltest.Eventually(h.t, slow, func() error {
		text := h.say("status", "--output=json")
		var answer struct {
			WireGuard struct {
				PublicKey string `json:"publicKey"`
			} `json:"wireguard"`
		}
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&answer); err != nil || answer.WireGuard.PublicKey == "" {
			return fmt.Errorf("node %d says %s: %v", h.number, text, err)
		}
		key = answer.WireGuard.PublicKey
		return nil
	})
	return key
}
