package network

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// onFake runs a peerSet on a fake kernel, and calls do with them.
func onFake(t *testing.T, k *kerneltest.Fake, backendConfig string, do func(*peerSet)) {
	t.Helper()
	onNetwork(t, k, config(v4, backendConfig), do)
}

// onNetwork does what onFake does, with a whole network config.
func onNetwork(t *testing.T, k *kerneltest.Fake, network string, do func(*peerSet)) {
	t.Helper()
	cfg := parseConfig(t, network)
	b := fakeBackend(t, cfg, 1500)
	own := subnet.Lease{Attrs: b.Publish(), Created: 1}
	own.Subnets[subnet.IPv4] = netip.MustParsePrefix("10.5.1.0/24")
	loop := reconcile.New(k, time.Hour, budget.New().Kernel())
	peers := newPeerSet(cfg, own, only(b), loop)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); loop.Run(ctx) }()
	do(peers)
	settled()
	cancel()
	<-ended
}

// settled waits until everything due is done.
func settled() {
	<-time.After(time.Minute)
	synctest.Wait()
}

func fakeBackend(t *testing.T, cfg subnet.Config, mtu int) backend.Backend {
	t.Helper()
	at := netip.MustParseAddr("198.18.0.1")
	h := backend.HostFacts{NodeID: "machine-1"}
	h.Uplinks[subnet.IPv4] = backend.Uplink{Link: "eth0", MTU: mtu, Address: at, Public: at}
	b, err := vxlan.New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fakePeer returns the lease of a node at 198.18.0.x, with a MAC of its own or
// another's.
func fakePeer(t *testing.T, key, at, mac string, created int64) subnet.Lease {
	t.Helper()
	subnets, err := subnet.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l := subnet.Lease{Subnets: subnets, Created: created}
	l.BackendType, l.Node.MTU = "vxlan", 1450
	l.PublicIP[subnet.IPv4] = netip.MustParseAddr(at)
	l.BackendData[subnet.IPv4] = `{"VNI":1,"VtepMAC":"` + mac + `"}`
	return l
}

func onEth0() *kerneltest.Fake {
	return kerneltest.NewFake(
		netstate.Link{Name: "eth0", Kind: "device", MTU: 1500, Up: true},
		netstate.Sysctl{Path: "net/ipv4/conf/eth0/forwarding", Value: "1"},
	)
}

// TestDeviceOutlivesRestart checks that a device that must be re-created is replaced
// only once all peers are known that need it. Until then they are reachable as before.
func TestDeviceOutlivesRestart(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k := onEth0()
		peer := fakePeer(t, "10.5.9.0-24", "198.18.0.9", "3a:00:00:00:00:09", 2)
		list := subnet.Update{Complete: true, Leases: []subnet.Lease{peer}}
		onFake(t, k, `{"Type": "vxlan"}`, func(p *peerSet) { p.Update(list) })
		before := k.Snapshot()
		onFake(t, k, `{"Type": "vxlan", "Learning": true}`, func(p *peerSet) {
			settled()
			if after := k.Snapshot(); !after.Equal(before) {
				t.Errorf("before the list there was\n%s\nand is\n%s", before, after)
			}
			p.Update(list)
		})
		after := k.Snapshot()
		o, _ := after.Get(netstate.Link{Name: "tulle.1"}.Key())
		if l, _ := o.(netstate.Link); !l.VXLAN.Learning || after.Len() != before.Len() {
			t.Errorf("after the list there is\n%s", after)
		}
	})
}

// TestOneMACTwiceBelongsToTheEarlierNode checks that the earlier of two nodes that
// publish one MAC gets it, whichever arrives first.
func TestOneMACTwiceBelongsToTheEarlierNode(t *testing.T) {
	const mac = "3a:00:00:00:00:aa"
	want := netstate.FDB{Link: "tulle.1", MAC: netstate.MAC{0x3a, 5: 0xaa}, Dst: netip.MustParseAddr("198.18.0.9")}
	bubbletest.Test(t, func(t *testing.T) {
		older, newer := fakePeer(t, "10.5.9.0-24", "198.18.0.9", mac, 2), fakePeer(t, "10.5.10.0-24", "198.18.0.66", mac, 3)
		for range 20 {
			k := onEth0()
			onFake(t, k, `{"Type": "vxlan"}`, func(p *peerSet) {
				p.Update(subnet.Update{Complete: true, Leases: []subnet.Lease{newer, older}})
				settled()
				if !k.Has(want) {
					t.Errorf("there is\n%s", k.Snapshot())
				}
				cfg := parseConfig(t, config(v4, `{"Type": "vxlan"}`))
				own, b := p.own, fakeBackend(t, cfg, 1400)
				own.Attrs = b.Publish()
				p.rehost(cfg, own, only(b))
			})
			if !k.Has(want) {
				t.Errorf("for another host there is\n%s", k.Snapshot())
			}
			for o := range k.Snapshot().All() {
				if r, ok := o.(netstate.Route); ok && r.MTU != 0 {
					t.Errorf("more fits the route than its device: %s", r)
				}
			}
		}
	})
}

// TestFirstListIsWrittenInPortions checks that the kernel writes the first portion of a
// large network while the next is computed, and that the end needs no dump.
func TestFirstListIsWrittenInPortions(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k := onEth0()
		onFake(t, k, `{"Type": "vxlan"}, "SubnetLen": 28`, func(p *peerSet) {
			settled()
			k.ResetCounts()
			const peers = 10 * portion
			u := subnet.Update{Complete: true}
			for n := range peers {
				key := fmt.Sprintf("10.5.%d.%d-28", 16+n/16, n%16*16)
				u.Leases = append(u.Leases, fakePeer(t, key, fmt.Sprintf("198.18.%d.%d", 1+n/256, n%256), fmt.Sprintf("3a:00:00:00:%02x:%02x", n>>8, n&255), int64(n+2)))
			}
			p.Update(u)
			settled()
			if c := k.Counts(); c.Dumps > 0 || c.Applies < 3 || c.Steps() != 3*peers {
				t.Errorf("for %d peers: %+v", peers, c)
			}
		})
	})
}
