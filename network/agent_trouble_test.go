package network

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// TestNotReadyBeforeFilesExist checks that the status is never ready before the files
// exist, because programs that start after the daemon read them.
func TestNotReadyBeforeFilesExist(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, "")
		l.changed = func() {
			v := l.agent.loopView(withoutPeers) // called in Run's goroutine
			l.agent.addOtherFacts(t.Context(), &v)
			if v.Checks().Ready() && l.files.content("/nowhere/subnet.env") == "" {
				t.Errorf("ready without an env file: %s", v.Line())
			}
		}
		l.start()
		l.soon()
		l.peer(9)
		l.store.SetConfig(plainConfig)
		l.soon()
		l.wantReady(true)
	})
}

// TestRefusedRouteOfOnePeer makes the kernel refuse a peer's route for ever. The node
// is ready for all others, and the status reports the route.
func TestRefusedRouteOfOnePeer(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		l.peer(10)
		bad := netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24")}.Key()
		l.host.Fail(1<<30, kerneltest.OfKey(bad), syscall.EINVAL)
		l.start()
		l.soon()
		l.wantReady(true, "the kernel refuses 1 objects", "10.5.9.0/24")
		l.wantRoute("10.5.10.0/24", true)
	})
}

// TestRefusedDeviceMakesNodeUnready makes the kernel refuse the tunnel device, as it
// does without CAP_NET_ADMIN. There is no network, so the node is not ready.
func TestRefusedDeviceMakesNodeUnready(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		undo := l.host.Fail(1<<30, func(op netstate.Op) bool { _, isLink := op.Object.(netstate.Link); return isLink }, syscall.EPERM)
		l.start()
		l.soon()
		l.wantReady(false, "the kernel refuses link tulle.1: operation not permitted")
		if l.view().Checks().Started() {
			t.Error("started without a device")
		}
		undo()
		l.after(time.Minute)
		l.wantReady(true)
	})
}

// TestCopiedMachineIgnoresSavedNetwork checks that a machine that was copied with its
// state folder becomes a node of its own.
func TestCopiedMachineIgnoresSavedNetwork(t *testing.T) {
	for _, away := range []bool{false, true} {
		bubbletest.Test(t, func(t *testing.T) {
			l := newLife(t, plainConfig)
			original := l.runOnce()
			l.store.Put(original) // it is alive elsewhere
			l.node, l.host = "machine-2", newFakeHost()
			l.host.survey.Links[0].Addrs[0].Prefix = netip.MustParsePrefix("198.18.0.2/16")
			if away {
				l.store.leave()
			}
			l.start()
			l.after(10 * time.Second)
			if away {
				l.wantReady(false, "no subnet yet")
				return
			}
			l.wantReady(true)
			own := l.own()
			if own.Subnets == original.Subnets || own.BackendData == original.BackendData {
				t.Errorf("the copy publishes %+v, and its original %+v", own, original)
			}
		})
	}
}

// TestFilesNeverMixTwoNetworks brings the store back with another network, while
// leasing takes long. The files never mix the two.
func TestFilesNeverMixTwoNetworks(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		own := l.runOnce()
		l.store.leave()
		l.start()
		l.after(10 * time.Second)
		before := l.files.all()
		l.store.delayed = make(chan struct{})
		l.store.SetConfig(`{"Network": "10.99.0.0/16"}`)
		l.store.comeBack()
		l.after(time.Minute)
		if now := l.files.all(); now["/nowhere/subnet.env"] != before["/nowhere/subnet.env"] || !strings.Contains(now["/nowhere/subnet.env"], own.Subnets[subnet.IPv4].Addr().Next().String()) {
			t.Errorf("the env file is %s", now["/nowhere/subnet.env"])
		}
		close(l.store.delayed)
		l.after(10 * time.Second)
		l.wantReady(true, "10.99.")
		l.wantFile("/nowhere/subnet.env", "FLANNEL_SUBNET=10.99.")
	})
}

// TestStoreWithoutLeaseIsReported runs with a store that returns its config, and then
// no lease.
func TestStoreWithoutLeaseIsReported(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		own := l.runOnce()
		l.host, l.files = newFakeHost(), &fakeFiles{}
		l.store.delayed = make(chan struct{})
		l.start()
		l.after(10 * time.Second)
		l.wantReady(true, own.Key(), "store unreachable")
		l.wantRoute("10.5.9.0/24", true)
		close(l.store.delayed)
		l.after(10 * time.Second)
		if v := l.view(); !v.Checks().Ready() || !v.Remembered.IsZero() {
			t.Errorf("with the store back: %s", v.Line())
		}
	})
}

// TestStuckDiskDelaysNoPeer hangs the disk of the files. Meanwhile the node follows its
// peers.
func TestStuckDiskDelaysNoPeer(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.files.stuck = make(chan struct{})
		l.start()
		l.soon()
		l.peer(9)
		l.soon()
		l.wantRoute("10.5.9.0/24", true)
		l.wantReady(false, "writing the env file")
		close(l.files.stuck)
		l.soon()
		l.wantReady(true)
	})
}

// TestWatchIsRestarted ends the store's watch, and checks that it is restarted.
func TestWatchIsRestarted(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.store.ends = true
		l.start()
		l.soon()
		l.peer(9)
		l.after(time.Minute)
		l.wantRoute("10.5.9.0/24", true)
	})
}
