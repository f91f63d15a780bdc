//go:build vm && flannel

package wireguardtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const (
	psk    = "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	config = `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard","PSK":"` + psk + `"}}`
)

// TestFlannelWireGuard runs two tulleds beside a flanneld, puts tulled in its place under
// a flood of pings, and goes back. The machine is emulated, so it takes a while.
func TestFlannelWireGuard(t *testing.T) {
	l := newLab(t, config)
	a, b, c := l.host[0], l.host[1], l.host[2]
	a.tulled()
	b.tulled()
	endFlannel := c.flanneld()
	for _, h := range l.host {
		h.addressed()
	}
	l.reach("beside flannel")
	before, key := c.pod, c.publicKey(a)

	// A killed flanneld leaves its device.
	count := a.flood(c)
	endFlannel(syscall.SIGKILL)
	endTulled := c.tulled()
	c.ready()
	l.reach("after the takeover")
	l.keeps("the takeover", count)
	c.addressed()
	if got := c.publicKey(a); c.pod != before || got != key {
		t.Errorf("node 3 had %s with the key %s, and has %s with %s", before, key, c.pod, got)
	}
	if out := c.ns.IP(t, "link show type wireguard"); !strings.Contains(out, "flannel-wg:") || strings.Contains(out, "tulle") {
		t.Errorf("the devices are\n%s", out)
	}
	kerneltest.Eventually(t, slow, func() error {
		for _, p := range a.peers() {
			if len(p.Sessions) != 1 || p.Sessions[0].Handshake == "" || p.Sessions[0].Received == 0 {
				return fmt.Errorf("node 1 has %+v", p)
			}
		}
		return nil
	})
	if text := a.say("status", "--output=json") + a.say("leases", "--output=json") + a.say("peers", "--output=json"); strings.Contains(text, psk[:8]) {
		t.Error("the preshared key is shown")
	}

	// The way back.
	endTulled(syscall.SIGTERM)
	c.flanneld()
	c.addressed()
	l.reach("back at flannel")
	if got := c.publicKey(a); c.pod != before || got != key {
		t.Errorf("flannel's node has %s with the key %s", c.pod, got)
	}
}

// peer is what tulled reports of a peer.
type peer struct {
	Key      string `json:"key"`
	Sessions []struct {
		PublicKey string `json:"publicKey"`
		Handshake string `json:"handshake"`
		Received  uint64 `json:"receivedBytes"`
	} `json:"sessions"`
	Probes struct {
		Cause string `json:"cause"`
	} `json:"probes"`
}

// peers returns what tulled on a host reports of its peers.
func (h *host) peers() []peer {
	h.t.Helper()
	text, _, _ := strings.Cut(h.say("peers", "--output=json"), "\n(")
	text = text[:strings.LastIndex(text, "}")+1]
	var answer struct {
		Peers []peer `json:"peers"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		h.t.Logf("%v in %s", err, text)
	}
	return answer.Peers
}

// publicKey returns the host's public key, as another knows it.
func (h *host) publicKey(other *host) (key string) {
	h.t.Helper()
	lease := strings.TrimSuffix(h.pod, ".1") + ".0-24"
	kerneltest.Eventually(h.t, slow, func() error {
		all := other.peers()
		for _, p := range all {
			if p.Key == lease && len(p.Sessions) == 1 {
				key = p.Sessions[0].PublicKey
				return nil
			}
		}
		return fmt.Errorf("node %d knows %+v, and not %s", other.number, all, lease)
	})
	return key
}
