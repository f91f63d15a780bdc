package network

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestReadyMeansReady has no status be ready at any moment before the files are
// there: what starts after the daemon reads them.
func TestReadyMeansReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, "")
		l.changed = func() {
			v := l.agent.loopView(withoutPeers) // it calls from Run's goroutine
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

// TestOneBadKey has the kernel refuse a peer's route for good: the node is ready
// for all others, and the status tells.
func TestOneBadKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// TestNoDevice has the kernel refuse what all peers are reached by, as without
// CAP_NET_ADMIN: that is no network, and nothing that is to wait for one begins.
func TestNoDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		mend := l.host.Fail(1<<30, func(op netstate.Op) bool { _, isLink := op.Object.(netstate.Link); return isLink }, syscall.EPERM)
		l.start()
		l.soon()
		l.wantReady(false, "the kernel refuses link tulle.1: operation not permitted")
		if l.view().Checks().Started() {
			t.Error("started without a device")
		}
		mend()
		l.after(time.Minute)
		l.wantReady(true)
	})
}

// TestCopiedMachine has a machine that was copied with its state folder be a node
// of its own.
func TestCopiedMachine(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLife(t, plainConfig)
			l.out.StateDir = t.TempDir()
			l.start()
			l.after(time.Minute)
			original := l.own()
			l.stop()
			l.store.Put(original) // it lives on elsewhere
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

// TestOtherNetworkAfterBoot has the store come back with another network while
// leasing takes its time: the files never mix the two.
func TestOtherNetworkAfterBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.StateDir = t.TempDir()
		l.start()
		l.after(time.Minute)
		own := l.own()
		l.stop()
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

// TestStoreStopsHalfway has a store that gives its config, and then no lease.
func TestStoreStopsHalfway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.StateDir = t.TempDir()
		l.peer(9)
		l.start()
		l.after(time.Minute)
		own := l.own()
		l.stop()
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

// TestStuckDisk has the disk of the files hang: peers are followed all the same.
func TestStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// TestWatchEnds has the store's watch end, which is begun anew.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.store.ends = true
		l.start()
		l.soon()
		l.peer(9)
		l.after(time.Minute)
		l.wantRoute("10.5.9.0/24", true)
	})
}
