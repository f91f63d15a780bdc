package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

const day = 24 * time.Hour

// TestClockJumps sets a host's clock a day ahead and behind while its daemon runs.
// etcd's clock decides how long a lease lasts, and the daemon measures its waits by a
// monotonic clock. So nothing happens at the jump, and later events come on time.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	one := w.Hosts[0]
	leases, kernels := w.leases(), w.kernels()
	there, back := w.pings(one, w.Hosts[1]), w.pings(w.Hosts[1], one)
	var jumped time.Duration
	for _, by := range []time.Duration{day, -2 * day, day} {
		id := w.etcdLeaseOf(one)
		w.daemons[one].JumpClock(by)
		jumped += by
		w.agesAreRight(one, jumped)
		there.more(100)
		if now := w.etcdLeaseOf(one); now != id {
			t.Errorf("after a jump of %v the key is on the etcd lease %x, and was on %x", by, now, id)
		}
		w.sameLeases(leases)
		w.follows()
		w.delete(leasesKey + w.key(one))
		w.sameLeases(leases)
		remove(t, one.SubnetFile)
		w.deletePeer(one, w.Hosts[2])
		w.eventually(func() error {
			if now := w.kernels(); now != kernels {
				return fmt.Errorf("the kernels hold\n%s\nand held\n%s", now, kernels)
			}
			_, err := os.Stat(one.SubnetFile)
			return err
		})
	}
	there.wantLost(0)
	back.wantLost(0)
}

// TestClockJumpsWhileWaiting makes the clock jump while the daemon waits: to reach
// etcd again, and to renew its lease.
func TestClockJumpsWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, vxlan)
	for _, h := range w.Hosts {
		// A renewal is due every five seconds.
		w.start(h, "--subnet-lease-ttl=125s", "--subnet-lease-renew-margin=2")
	}
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	ahead, behind := w.daemons[w.Hosts[0]], w.daemons[w.Hosts[1]]
	leases := w.leases()
	pings := w.pings(w.Hosts[0], w.Hosts[1])
	w.etcd.Member(0).Stop()
	for _, d := range []*clustertest.Daemon{ahead, behind} {
		d.WaitLog("Store operation failed")
	}
	ahead.JumpClock(day)
	behind.JumpClock(-day)
	pings.more(100)
	w.etcd.Member(0).Restart()
	w.follows()
	w.sameLeases(leases)
	for _, h := range w.Hosts {
		left := w.timeToLive(h)
		for now := left; now <= left; now = w.timeToLive(h) {
			if now < 60 {
				t.Fatalf("the lease of %s was not renewed and has %d s left", h.Name, now)
			}
			left = now
			pings.more(50)
		}
	}
	pings.wantLost(0)
	w.sameLeases(leases)

	// A snapshot whose time is a day ahead of the correct clock is valid.
	ahead.Stop()
	w.etcd.Member(0).Stop()
	reboot := w.Hosts[0].Kernel()
	w.Hosts[0].NS.IP(t, "link delete tulle.1")
	w.start(w.Hosts[0]).WaitLog("Store unreachable; using the saved network")
	w.eventually(func() error {
		if now := w.Hosts[0].Kernel(); now != reboot {
			return fmt.Errorf("the kernel holds\n%s\nand held\n%s", now, reboot)
		}
		return nil
	})
}

// agesAreRight checks that status shows correct ages by a clock that is ahead: none
// is as much as an hour.
func (w *world) agesAreRight(h *clustertest.Host, ahead time.Duration) {
	w.t.Helper()
	var r status.Report
	w.eventually(func() error { // the watch may just have been restarted
		r = status.Report{}
		if err := w.commandJSON(h, &r, "status"); err != nil {
			return err
		}
		if r.Lease == nil || r.Lease.Renewed == nil || r.Store.Watching == nil {
			return fmt.Errorf("status reports %+v", r)
		}
		return nil
	})
	out, _ := w.command(h, "status")
	if !strings.Contains(out, "started ") || old.MatchString(out) {
		w.t.Errorf("with the clock ahead by %v, status shows\n%s", ahead, out)
	}
	now := time.Now().Add(ahead)
	for _, at := range []time.Time{r.Started, *r.Lease.Since, *r.Lease.Renewed, *r.Store.Watching, r.Kernel.Since, r.Kernel.LastResync} {
		if age := now.Sub(at); age.Abs() > time.Hour {
			w.t.Errorf("with the clock ahead by %v, status has an age of %v", ahead, age)
		}
	}
}

var old = regexp.MustCompile(`\d+[hd] ago|for \d+[hd]`)

// etcdLeaseOf returns the etcd lease to which a host's key is attached.
func (w *world) etcdLeaseOf(h *clustertest.Host) (id clientv3.LeaseID) {
	w.t.Helper()
	w.ask(func(ctx context.Context) error {
		r, err := w.client.Get(ctx, leasesKey+w.key(h))
		if err == nil && (len(r.Kvs) != 1 || r.Kvs[0].Lease == 0) {
			err = fmt.Errorf("the lease of %s is %v", h.Name, r.Kvs)
		}
		if err == nil {
			id = clientv3.LeaseID(r.Kvs[0].Lease)
		}
		return err
	})
	return id
}

// timeToLive returns how many seconds a host's lease has left.
func (w *world) timeToLive(h *clustertest.Host) (left int64) {
	w.t.Helper()
	w.ask(func(ctx context.Context) error {
		r, err := w.client.TimeToLive(ctx, w.etcdLeaseOf(h))
		if err == nil {
			left = r.TTL
		}
		return err
	})
	return left
}

// deletePeer removes from a host's kernel what reaches a peer over IPv4.
func (w *world) deletePeer(h, peer *clustertest.Host) {
	w.t.Helper()
	subnets, err := subnetsOf(peer)
	if err != nil {
		w.t.Fatal(err)
	}
	s := subnets[subnet.IPv4]
	for line := range strings.Lines(h.NS.Bridge(w.t, "fdb show dev tulle.1")) {
		if strings.Contains(line, " dst "+peer.Addr[subnet.IPv4].String()+" ") {
			mac, _, _ := strings.Cut(line, " ")
			h.NS.Bridge(w.t, fmt.Sprintf("fdb del %s dev tulle.1", mac))
		}
	}
	h.NS.IP(w.t, fmt.Sprintf("neigh del %s dev tulle.1", s.Addr()))
	h.NS.IP(w.t, fmt.Sprintf("route del %s", s))
}
