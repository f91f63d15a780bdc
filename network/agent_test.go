package network

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

const plainConfig = `{"Network": "10.5.0.0/16"}`

// TestFirstStartBringsUpNetwork starts with an unconfigured host and an empty store,
// and ends with a working network.
func TestFirstStartBringsUpNetwork(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, "")
		l.start()
		l.soon()
		l.wantReady(false, "no subnet yet", "reading the network config")
		if n := l.files.writes; n != 0 {
			t.Errorf("%d files were written before there was a lease", n)
		}
		l.peer(9)
		l.store.SetConfig(plainConfig)
		l.soon()
		l.wantReady(true, "on vxlan, 1 peers")
		own := l.own()
		if own.PublicIP[subnet.IPv4] != netip.MustParseAddr("198.18.0.1") || own.Node.Name != "one" || own.Node.MTU != 1450 {
			t.Errorf("published %+v", own.Attrs)
		}
		gateway := netip.PrefixFrom(own.Subnets[subnet.IPv4].Addr().Next(), 24)
		l.wantFile("/nowhere/subnet.env", "FLANNEL_SUBNET="+gateway.String()+"\nFLANNEL_MTU=1450\n")
		l.wantFile("/nowhere/cni", own.Subnets[subnet.IPv4].String())
		l.wantRoute("10.5.9.0/24", true)
		l.peer(10)
		l.store.Delete("10.5.9.0-24")
		l.soon()
		l.wantRoute("10.5.10.0/24", true)
		l.wantRoute("10.5.9.0/24", true) // it lingers
		l.after(2 * linger)
		l.wantRoute("10.5.9.0/24", false)
		l.wantRoute("10.5.10.0/24", true)
	})
}

// TestFirstStartComputesEachPeerOnce: in a large network, computing all peers costs most of a
// start.
func TestFirstStartComputesEachPeerOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		computed := make(map[netip.Prefix]int)
		l.backends = map[string]backend.Factory{"vxlan": func(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
			b, err := factories["vxlan"](cfg, host)
			return countingBackend{b, computed}, err
		}}
		l.keys = wgkey.NewStore(t.TempDir(), "--state-dir", l.node)
		for x := range byte(50) {
			l.peer(100 + x)
		}
		l.start()
		l.soon()
		l.wantReady(true, "on vxlan, 50 peers")
		if len(computed) != 50 {
			t.Errorf("%d peers were computed, want 50", len(computed))
		}
		for peer, times := range computed {
			if times != 1 {
				t.Errorf("the peer of %s was computed %d times", peer, times)
			}
		}
	})
}

// countingBackend counts how often each peer is computed, by its IPv4 subnet.
type countingBackend struct {
	backend.Backend
	computed map[netip.Prefix]int
}

func (b countingBackend) Peer(own, peer subnet.Lease, m backend.Metrics) ([]netstate.Object, error) {
	b.computed[peer.Subnets[subnet.IPv4]]++
	return b.Backend.Peer(own, peer, m)
}

// TestSteadyNetworkCostsNothing checks that a network without changes writes no file,
// no kernel object and no log line.
func TestSteadyNetworkCostsNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		l.start()
		l.soon()
		l.host.ResetCounts()
		before, log := l.files.writes, l.log.String()
		l.after(time.Hour)
		if steps := l.host.Counts().Steps(); steps != 0 || l.files.writes != before || l.log.String() != log {
			t.Errorf("an hour took %d steps, %d writes and these words: %s", steps, l.files.writes-before, strings.TrimPrefix(l.log.String(), log))
		}
	})
}

func TestRestartKeepsAll(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		l.start()
		l.soon()
		own, state := l.own(), l.host.Snapshot()
		l.stop()
		if after := l.host.Snapshot(); !after.Equal(state) {
			t.Errorf("the end of the daemon changed the kernel from\n%s\nto\n%s", state, after)
		}
		l.host.ResetCounts()
		l.start()
		l.soon()
		l.wantReady(true)
		if again := l.own(); again.Subnets != own.Subnets || again.Attrs != own.Attrs {
			t.Errorf("the lease was %+v and is %+v", own, again)
		}
		if steps := l.host.Counts().Steps(); steps != 0 {
			t.Errorf("the restart took %d steps, and the kernel holds\n%s", steps, l.host.Snapshot())
		}
	})
}

// TestEnvFileGivesSubnetBack checks that a node whose lease is gone requests the subnet
// in its env file.
func TestEnvFileGivesSubnetBack(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.SubnetFile = t.TempDir() + "/subnet.env"
		writeFile(t, l.out.SubnetFile, "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.77.1/24\n")
		l.start()
		l.soon()
		if own := l.own(); own.Key() != "10.5.77.0-24" {
			t.Errorf("leased %s", own.Key())
		}
	})
}

func TestLostLeaseIsRequestedAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.start()
		l.soon()
		own := l.own()
		l.store.Delete(own.Key())
		l.soon()
		if again := l.own(); again.Subnets != own.Subnets {
			t.Errorf("after the lease was deleted the node has %s and not %s", again.Key(), own.Key())
		}
		l.wantReady(true)

		thief := l.peer(9)
		thief.Subnets = own.Subnets
		l.store.Put(thief)
		l.after(5 * time.Second)
		l.wantReady(true)
		again := l.own()
		if again.Subnets == own.Subnets {
			t.Errorf("two nodes have %s", own.Key())
		}
		l.wantFile("/nowhere/subnet.env", "FLANNEL_SUBNET="+again.Subnets[subnet.IPv4].Addr().Next().String())
		for _, word := range []string{"SUBNET LOST", "SUBNET CHANGED"} {
			if n := l.log.Count(word); n != 1 {
				t.Errorf("%q was logged %d times", word, n)
			}
		}
		l.wantRoute(own.Subnets[subnet.IPv4].String(), true) // it belongs to the other node now
	})
}

func TestOutOfSubnets(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, `{"Network": "10.5.8.0/22"}`)
		for x := byte(9); x < 12; x++ {
			l.peer(x)
		}
		l.start()
		l.soon()
		l.wantReady(false, "out of subnets")
		l.after(time.Hour)
		if n := l.log.Count("Failed to lease"); n != 1 {
			t.Errorf("logged %d times that there is no subnet", n)
		}
		l.store.Delete("10.5.10.0-24")
		l.after(2 * time.Minute)
		l.wantReady(true)
		if own := l.own(); own.Key() != "10.5.10.0-24" {
			t.Errorf("leased %s", own.Key())
		}
	})
}

// TestChangedHostKeepsItsSubnet changes the host's address and MTU. The endpoint
// follows, and the subnet stays.
func TestChangedHostKeepsItsSubnet(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		l.start()
		l.soon()
		own := l.own()
		l.host.change(func(s *netstate.Survey) {
			s.Links[0].Addrs = []netstate.HostAddr{{Prefix: netip.MustParsePrefix("198.18.0.200/16")}}
			s.Links[0].MTU = 9000
		})
		l.after(5 * time.Second)
		l.wantReady(true)
		again := l.own()
		if again.Subnets != own.Subnets || again.PublicIP[subnet.IPv4] != netip.MustParseAddr("198.18.0.200") || again.Node.MTU != 8950 {
			t.Errorf("published %+v", again)
		}
		if again.BackendData != own.BackendData {
			t.Errorf("the node's MAC was %s and is %s", own.BackendData, again.BackendData)
		}
		l.wantFile("/nowhere/subnet.env", "FLANNEL_MTU=8950")
		if d := l.host.device(); d.MTU != 8950 || d.Local != netip.MustParseAddr("198.18.0.200") {
			t.Errorf("the device is %s", d)
		}
		l.wantRoute("10.5.9.0/24", true)
	})
}

// TestLostUplinkChangesNothing removes the interface's address. The network stays as it
// is, and the status reports the loss.
func TestLostUplinkChangesNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		l.start()
		l.soon()
		state := l.host.Snapshot()
		addrs := l.host.survey.Links[0].Addrs
		l.host.change(func(s *netstate.Survey) { s.Links[0].Addrs = nil })
		l.after(5 * time.Second)
		l.wantReady(false, "eth0")
		if after := l.host.Snapshot(); !after.Equal(state) {
			t.Errorf("the kernel held\n%s\nand holds\n%s", state, after)
		}
		l.host.change(func(s *netstate.Survey) { s.Links[0].Addrs = addrs })
		l.after(5 * time.Second)
		l.wantReady(true)
	})
}

func TestHarmfulConfigChangeWaitsForRestart(t *testing.T) {
	for _, c := range []struct {
		name, config string
		restart      string // why a restart is needed; "" if it is applied
		route        bool   // the peer is then reached directly
	}{
		{name: "direct routing", config: `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "DirectRouting": true}}`, route: true},
		{name: "another pool", config: `{"Network": "10.5.0.0/16", "SubnetMin": "10.5.0.0"}`},
		{name: "a larger network", config: `{"Network": "10.4.0.0/15", "SubnetMin": "10.4.0.0"}`},
		{name: "nftables", config: `{"Network": "10.5.0.0/16", "EnableNFTables": true}`},
		{name: "no nftables", config: `{"Network": "10.5.0.0/16", "EnableNFTables": false}`},
		{name: "another backend", config: `{"Network": "10.5.0.0/16", "Backend": {"Type": "host-gw"}}`},
		{name: "an unknown backend", config: `{"Network": "10.5.0.0/16", "Backend": {"Type": "carrier-pigeon"}}`, restart: "carrier-pigeon"},
		{name: "another network", config: `{"Network": "10.99.0.0/16"}`, restart: "does not allow this node's subnet"},
		{name: "a bad key", config: `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "VNI": -3}}`, restart: "VNI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				l := newLife(t, plainConfig)
				l.peer(9)
				l.start()
				l.soon()
				own, files := l.own(), l.files.all()
				l.store.SetConfig(c.config)
				l.after(5 * time.Second)
				if again := l.own(); again.Subnets != own.Subnets {
					t.Errorf("the subnet was %s and is %s", own.Key(), again.Key())
				}
				l.wantRoute("10.5.9.0/24", true)
				if direct := l.host.Has(netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}); direct != c.route {
					t.Errorf("the peer is reached directly: %t\n%s", direct, l.host.Snapshot())
				}
				if c.restart == "" {
					l.wantReady(true)
					if cfg, err := subnet.ParseConfig([]byte(c.config)); err != nil || l.firewall.wants().NFTables != cfg.EnableNFTables {
						t.Errorf("the firewall gets %s for nftables: %v", l.firewall.wants().NFTables, err)
					}
					return
				}
				l.wantReady(false, "restart needed", c.restart)
				if !l.view().Checks().Started() {
					t.Error("the network works unchanged, but does not count as started")
				}
				if now := l.files.all(); now["/nowhere/subnet.env"] != files["/nowhere/subnet.env"] {
					t.Errorf("the env file is %s", now["/nowhere/subnet.env"])
				}

				// A new address is still published, and the subnet is kept.
				l.host.change(func(s *netstate.Survey) {
					s.Links[0].Addrs = []netstate.HostAddr{{Prefix: netip.MustParsePrefix("198.18.0.200/16")}}
				})
				l.after(5 * time.Second)
				if again := l.own(); again.Subnets != own.Subnets || again.PublicIP[subnet.IPv4] != netip.MustParseAddr("198.18.0.200") {
					t.Errorf("published %+v", again)
				}

				l.store.SetConfig(plainConfig)
				l.after(5 * time.Second)
				l.wantReady(true)
			})
		})
	}
}

// TestRestartAppliesPendingConfig checks that a restart applies the config that waited
// for it.
func TestRestartAppliesPendingConfig(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.start()
		l.soon()
		l.store.SetConfig(`{"Network": "10.99.0.0/16", "Backend": {"Type": "host-gw"}}`)
		l.soon()
		l.stop()
		l.start()
		l.soon()
		l.wantReady(true, "10.99.", "on host-gw")
		if d := l.host.device(); d.Name != "" {
			t.Errorf("the other backend's device is still there: %s", d)
		}
	})
}

// TestBridgeOfAnotherSubnetIsReported checks that the status reports a container bridge
// with addresses of another subnet, and names the fix.
func TestBridgeOfAnotherSubnetIsReported(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		bridge := func(address string) func(*netstate.Survey) {
			return func(s *netstate.Survey) {
				s.Links = append(s.Links[:1:1], netstate.HostLink{
					Link:  netstate.Link{Name: "cni0", Kind: "bridge", MTU: 1450, Up: true},
					Addrs: []netstate.HostAddr{{Prefix: netip.MustParsePrefix(address)}},
				})
			}
		}
		l.host.change(bridge("10.5.200.1/24"))
		l.start()
		l.soon()
		l.wantReady(false, "cni0 has 10.5.200.1/24", "ip link delete cni0")
		l.host.change(bridge(netip.PrefixFrom(l.own().Subnets[subnet.IPv4].Addr().Next(), 24).String()))
		l.soon()
		l.wantReady(true)
		l.host.change(bridge("172.17.0.1/16"))
		l.soon()
		l.wantReady(true)
		if n := l.log.Count("outside the network"); n != 1 {
			t.Errorf("a strange bridge was logged %d times", n)
		}
	})
}

func TestBlackholeDropsUnusedAddresses(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.Blackhole = true
		l.start()
		l.soon()
		if !l.host.Has(netstate.Route{Dst: l.own().Subnets[subnet.IPv4], Drop: true, Metric: 1<<31 - 1}) {
			t.Errorf("the kernel holds\n%s", l.host.Snapshot())
		}
	})
}

// TestFullDiskMakesNodeUnready checks that a full disk makes the node unready, and has
// no other effect.
func TestFullDiskMakesNodeUnready(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.files.full = syscall.ENOSPC
		l.peer(9)
		l.start()
		l.soon()
		l.wantReady(false, "no space left")
		l.wantRoute("10.5.9.0/24", true)
	})
}

// TestBootWithoutStoreUsesSavedNetwork boots a host while the store is down. The host
// uses the saved network, and follows the store once it is back.
func TestBootWithoutStoreUsesSavedNetwork(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.StateDir = t.TempDir()
		l.peer(9)
		l.peer(10)
		l.start()
		l.after(time.Minute)
		own, state, files := l.own(), l.host.Snapshot(), l.files.all()
		l.stop()

		l.host, l.files = newFakeHost(), &fakeFiles{} // a reboot
		l.store.leave()
		l.start()
		l.soon()
		l.wantReady(false)
		l.after(10 * time.Second)
		l.wantReady(true, own.Key(), "2 peers", "store unreachable")
		l.after(10 * time.Minute)
		l.wantReady(true, own.Key(), "2 peers", "store unreachable")
		if after := l.host.Snapshot(); !after.Equal(state) {
			t.Errorf("the kernel held\n%s\nand holds\n%s", state, after)
		}
		if now := l.files.all(); now["/nowhere/subnet.env"] != files["/nowhere/subnet.env"] {
			t.Errorf("the env file is %s", now["/nowhere/subnet.env"])
		}

		l.store.Delete("10.5.9.0-24")
		l.peer(11)
		l.store.comeBack()
		l.after(2*linger + time.Second)
		l.wantReady(true, "2 peers")
		if s := l.view(); !s.Remembered.IsZero() {
			t.Errorf("the status is %s", s.Line())
		}
		l.wantRoute("10.5.9.0/24", false)
		l.wantRoute("10.5.11.0/24", true)
		if again := l.own(); again.Subnets != own.Subnets {
			t.Errorf("the subnet was %s and is %s", own.Key(), again.Key())
		}
	})
}

// TestStoreReplacesSavedNetwork checks that the store replaces everything that was
// saved. The config has changed, and another node has the subnet.
func TestStoreReplacesSavedNetwork(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		own := l.runOnce()
		l.store.leave()
		l.start()
		l.after(10 * time.Second)
		l.store.Delete(own.Key())
		thief := l.peer(9)
		l.store.Delete(thief.Key())
		thief.Subnets = own.Subnets
		l.store.Put(thief)
		l.store.SetConfig(`{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "DirectRouting": true}}`)
		l.store.comeBack()
		l.after(5 * time.Second)
		again := l.own()
		if again.Subnets == own.Subnets {
			t.Errorf("two nodes have %s", own.Key())
		}
		l.wantReady(true, again.Key())
		l.wantFile("/nowhere/subnet.env", again.Subnets[subnet.IPv4].Addr().Next().String())
	})
}

// TestLostSubnetAppliesPendingConfig takes a node's subnet while a changed config waits
// for a restart. The node applies the config, because a restart would cost nothing
// more.
func TestLostSubnetAppliesPendingConfig(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.start()
		l.soon()
		own := l.own()
		l.store.SetConfig(`{"Network": "10.99.0.0/16"}`)
		l.soon()
		l.wantReady(false, "restart needed")
		thief := l.peer(9)
		l.store.Delete(thief.Key())
		thief.Subnets = own.Subnets
		l.store.Put(thief)
		l.after(10 * time.Second)
		l.wantReady(true, "10.99.")
		l.wantFile("/nowhere/subnet.env", "FLANNEL_NETWORK=10.99.0.0/16")
	})
}

// TestConfigChangesBeforeLease changes the config after the store returned it and
// before the lease.
func TestConfigChangesBeforeLease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.store.delayed = make(chan struct{})
		l.start()
		l.soon()
		l.store.SetConfig(`{"Network": "10.99.0.0/16"}`)
		l.soon()
		l.wantReady(false)
		close(l.store.delayed)
		l.after(10 * time.Second)
		l.wantReady(true, "10.99.")
	})
}
