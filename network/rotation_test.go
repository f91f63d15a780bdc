package network

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

var encrypted = config(v4, `{"Type": "wireguard"}`)

// TestRotationLosesNothing replaces one node's key, in each mode.
func TestRotationLosesNothing(t *testing.T) {
	for name, config := range map[string]string{
		"IPv4":     encrypted,
		"separate": config(dual, `{"Type": "wireguard"}`),
		"auto":     config(dual, `{"Type": "wireguard", "Mode": "auto", "PSK": "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`),
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r := newKeyring(t, config, 3)
				r.up()
				a := r.node[0]
				before := a.state()
				a.request()
				a.reach(wgkey.Move, time.Minute)
				a.reach(wgkey.Return, 5*time.Minute)
				a.reach(wgkey.None, 5*time.Minute)
				a.rotated(before)
				for o := range r.node[1].host.Snapshot().All() {
					if p, ok := o.(netstate.WGPeer); ok && (p.Keepalive != 0 || (name == "auto") != (p.PSK != 0)) {
						t.Errorf("a peer is left as %s", p)
					}
				}
			})
		})
	}
}

// TestAllNodesRotateAtOnce, and nodes begin while others are under way.
func TestAllNodesRotateAtOnce(t *testing.T) {
	for _, apart := range []time.Duration{0, 7 * time.Second, 25 * time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r := newKeyring(t, encrypted, 4)
				r.up()
				var before []wgkey.State
				for _, n := range r.node {
					before = append(before, n.state())
					n.request()
					r.run(apart, nil)
				}
				r.run(10*time.Minute, func() bool {
					for i, n := range r.node {
						if s := n.state(); s.Step != wgkey.None || s.Device == before[i].Device {
							return false
						}
					}
					return true
				})
				for i, n := range r.node {
					n.rotated(before[i])
				}
			})
		})
	}
}

// TestRotationSurvivesKills kills the node that rotates, or its peer, in each step.
func TestRotationSurvivesKills(t *testing.T) {
	for _, victim := range []int{0, 1} {
		t.Run(fmt.Sprint(victim+1), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r := newKeyring(t, encrypted, 3)
				r.up()
				r.run(time.Minute, nil) // the network is saved
				a, v := r.node[0], r.node[victim]
				before := a.state()
				kill := func() {
					for range 3 {
						v.kill()
						r.run(4*time.Second, nil)
					}
				}
				a.request()
				a.reach(wgkey.Move, time.Minute)
				kill()
				a.cutOff() // so that it stays in the step Publish
				a.reach(wgkey.Publish, time.Minute)
				kill()
				a.reconnect()
				a.reach(wgkey.Return, time.Minute)
				kill()
				a.reach(wgkey.None, time.Minute)
				v.kill()
				a.rotated(before)
			})
		})
	}
}

// TestRotationWithoutTheStore loses the store in each step, and restarts without it. No
// node is cut off.
func TestRotationWithoutTheStore(t *testing.T) {
	for _, step := range []wgkey.Step{wgkey.Move, wgkey.Return} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", step, kill), func(t *testing.T) {
				bubbletest.Test(t, func(t *testing.T) {
					r := newKeyring(t, encrypted, 3)
					r.up()
					r.run(time.Minute, nil)
					a := r.node[0]
					before := a.state()
					a.request()
					a.reach(step, 10*time.Minute)
					r.run(5*time.Second, nil)
					for _, n := range r.node {
						n.cutOff()
					}
					if kill {
						a.kill()
					}
					r.run(70*time.Minute, nil)
					if s := a.step(); step == wgkey.Move && s > wgkey.Publish {
						t.Errorf("without the store it is in the step %s", s)
					}
					for _, n := range r.node {
						n.reconnect()
					}
					a.reach(wgkey.None, 10*time.Minute)
					a.rotated(before)
				})
			})
		}
	}
}

// TestRotationDoesNotBeginWithoutTheStore, because no peer would learn of it.
func TestRotationDoesNotBeginWithoutTheStore(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 2)
		r.up()
		r.run(time.Minute, nil)
		a := r.node[0]
		a.cutOff()
		a.kill()
		a.request()
		r.run(time.Hour, nil)
		if a.step() != wgkey.None {
			t.Errorf("it is in the step %s", a.step())
		}
		a.reconnect()
		a.reach(wgkey.Return, 10*time.Minute)
	})
}

// TestDeadPeersDoNotStopARotation, nor do those that are alive but follow not: for those
// it waits an hour.
func TestDeadPeersDoNotStopARotation(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 3)
		r.up()
		a, dead := r.node[0], r.node[2]
		dead.stop()
		for _, name := range []string{"tulle-wg"} { // the host is off
			dead.host.DeleteLink(name)
		}
		r.lossless = false
		r.run(4*time.Minute, nil) // its session ends
		a.request()
		begin := time.Now()
		a.reach(wgkey.Move, time.Minute)
		a.reach(wgkey.None, 10*time.Minute)
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 3)
		r.up()
		a := r.node[0]
		r.blocked[51822] = true // a firewall between the hosts
		before := a.state()
		a.request()
		a.reach(wgkey.Move, time.Minute)
		r.run(50*time.Minute, nil)
		if a.step() != wgkey.Move || len(a.keys().elsewhere) != 2 {
			t.Errorf("it is in the step %s, and waits for %v", a.step(), a.keys().elsewhere)
		}
		r.lossless, r.lost = false, 0 // from here on it is as with flannel's nodes
		a.reach(wgkey.None, 30*time.Minute)
		a.rotated(before)
		if r.lost > 20 {
			t.Errorf("packets were lost for %s", time.Duration(r.lost)*100*time.Millisecond)
		}
	})
}

// TestPeerWithoutItsDaemonIsWaitedFor while its kernel still has the old key.
func TestPeerWithoutItsDaemonIsWaitedFor(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 3)
		r.up()
		a, b := r.node[0], r.node[1]
		before := a.state()
		b.stop()
		a.request()
		r.run(40*time.Minute, nil)
		if a.step() != wgkey.Move || fmt.Sprint(a.keys().elsewhere) != fmt.Sprint([]string{b.lease().Holder()}) {
			t.Errorf("it is in the step %s, and waits for %v", a.step(), a.keys().elsewhere)
		}
		b.start()
		a.reach(wgkey.Return, 2*time.Minute)
		a.reach(wgkey.None, 2*time.Minute)
		a.rotated(before)
	})
}

// TestSlowKernelIsWaitedFor: while packets still take the former tunnels, because the kernel has
// not taken the routes that were chosen or refuses them, no step follows that would end those
// tunnels.
func TestSlowKernelIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		step    wgkey.Step
		without func(*kerneltest.Fake) (release func())
	}{
		"move, blocked":   {wgkey.Move, (*kerneltest.Fake).BlockApply},
		"move, refused":   {wgkey.Move, refuseRoutes},
		"return, blocked": {wgkey.Return, (*kerneltest.Fake).BlockApply},
		"return, refused": {wgkey.Return, refuseRoutes},
	} {
		step := c.step
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r := newKeyring(t, encrypted, 3)
				r.up()
				a := r.node[0]
				before := a.state()
				a.request()
				a.reach(step, 5*time.Minute)
				// The devices are as the step needs them, and only routes are missing.
				r.run(time.Minute, func() bool {
					want := map[string]netstate.PublicKey{"tulle-wg": a.state().Device, "tulle-wg2": a.state().Second}
					for name, key := range want {
						l, has := a.host.Snapshot().Get(netstate.Link{Name: name}.Key())
						if !has || l.(netstate.Link).WireGuard.Key != key {
							return false
						}
					}
					return true
				})
				release := c.without(a.host.Fake)
				r.run(5*time.Minute, nil)
				if now := a.step(); now != step {
					t.Errorf("it went on to the step %s", now)
				}
				release()
				a.reach(wgkey.None, 5*time.Minute)
				a.rotated(before)
			})
		})
	}
}

// refuseRoutes makes the kernel refuse changes of routes.
func refuseRoutes(host *kerneltest.Fake) (release func()) {
	return host.Fail(-1, kerneltest.OfKind(netstate.KindRoute), syscall.ENOBUFS)
}

// TestSlowKernelOfAPeerIsWaitedFor: a peer whose kernel has not taken the route back still sends
// through the second tunnel, which therefore stays.
func TestSlowKernelOfAPeerIsWaitedFor(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 3)
		r.up()
		r.lossless = true
		a, b := r.node[0], r.node[1]
		before := a.state()
		a.request()
		a.reach(wgkey.Return, 5*time.Minute)
		// b needs the new key on its first device, and lacks only the route.
		r.run(time.Minute, func() bool {
			_, has := b.host.Snapshot().Get(netstate.WGPeer{Link: "tulle-wg", Peer: a.state().Device}.Key())
			return has
		})
		release := b.host.BlockApply()
		r.run(5*time.Minute, nil)
		if now := a.step(); now != wgkey.Return || fmt.Sprint(a.keys().elsewhere) != fmt.Sprint([]string{b.lease().Holder()}) {
			t.Errorf("it is in the step %s, and waits for %v", now, a.keys().elsewhere)
		}
		release()
		a.reach(wgkey.None, 5*time.Minute)
		a.rotated(before)
	})
}

// TestCarried: neither a keepalive nor a handshake counts as packets.
func TestCarried(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		later time.Duration
		more  uint64
		want  bool
	}{
		"nothing":                 {},
		"a keepalive":             {more: 32},
		"an empty packet":         {more: 64, want: true},
		"packets":                 {more: 1 << 40, want: true},
		"a handshake":             {later: time.Second, more: 148 + 92},
		"a handshake and packets": {later: time.Second, more: 4096},
	} {
		before := netstate.Session{Handshake: begin, Received: 1000}
		now := netstate.Session{Handshake: begin.Add(test.later), Received: before.Received + test.more}
		if got := carried(before, now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if carried(netstate.Session{Handshake: begin, Received: 1000}, netstate.Session{}) {
		t.Error("a peer that was configured again counts as one that sends")
	}
}

// TestHandshakeBeforeTheFirstLook: a busy node reads the sessions only when its first device has one
// with the new key already. Its routes must follow.
func TestHandshakeBeforeTheFirstLook(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 3)
		r.up()
		a := r.node[0]
		before := a.state()
		a.blindIn(wgkey.Return)
		a.request()
		a.reach(wgkey.Return, 5*time.Minute)
		r.run(10*time.Second, nil)
		a.blindIn(wgkey.None)
		r.run(5*time.Second, nil)
		for o := range a.host.Snapshot().All() {
			if route, is := o.(netstate.Route); is && route.Link == "tulle-wg2" {
				t.Errorf("%s still leads through the second tunnel", route)
			}
		}
		a.reach(wgkey.None, 5*time.Minute)
		a.rotated(before)
	})
}

// TestFlannelsNodesSeeOneChange of the key at the port that they know.
func TestFlannelsNodesSeeOneChange(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 2)
		r.up()
		a := r.node[0]
		before := a.state()
		const theirs = "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
		r.store.Write("10.5.77.0-24", `{"PublicIP":"198.18.0.77","BackendType":"wireguard","BackendData":{"PublicKey":"`+theirs+`","Port":51820}}`)
		a.request()
		var seen []string
		r.run(10*time.Minute, func() bool {
			d := a.lease().BackendData[subnet.IPv4]
			if head := d[:len(`{"PublicKey":"`)+44+len(`","Port":51820`)]; len(seen) == 0 || seen[len(seen)-1] != head {
				seen = append(seen, head)
			}
			for o := range a.host.Snapshot().All() {
				p, isPeer := o.(netstate.WGPeer)
				if isPeer && p.Peer.String() == theirs && p.Link != "tulle-wg" {
					t.Fatalf("flannel's node is a peer of the second tunnel: %s", p)
				}
			}
			return a.step() == wgkey.None && a.state().Device != before.Device
		})
		if len(seen) != 2 {
			t.Errorf("it published %q", seen)
		}
		a.rotated(before)
	})
}

// TestUnwritableKeyFileStopsNothing: each step waits until it can be written.
func TestUnwritableKeyFileStopsNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, encrypted, 2)
		r.up()
		a := r.node[0]
		before := a.state()
		a.request()
		for _, s := range []wgkey.Step{wgkey.None, wgkey.Move, wgkey.Return} {
			a.reach(s, 5*time.Minute)
			a.fail(errFull)
			r.run(3*time.Minute, nil)
			if got := a.step(); got != s || a.keys().problem != errFull.Error() {
				t.Errorf("it is in the step %s, not %s, with the problem %q", got, s, a.keys().problem)
			}
			a.fail(nil)
		}
		a.reach(wgkey.None, 5*time.Minute)
		a.rotated(before)
		if problem := a.keys().problem; problem != "" {
			t.Errorf("the problem is still %s", problem)
		}
	})
}

// TestKeysAreReplacedByAge, again and again.
func TestKeysAreReplacedByAge(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := newKeyring(t, config(v4, `{"Type": "wireguard", "KeyDays": 1}`), 2)
		r.up()
		for range 2 {
			a := r.node[0]
			before := a.state()
			r.run(25*time.Hour, func() bool { return a.state().Device != before.Device })
			if age := time.Since(before.Made); age < 21*time.Hour {
				t.Errorf("it is replaced after %s", age)
			}
			a.reach(wgkey.None, 5*time.Minute)
		}
	})
}
