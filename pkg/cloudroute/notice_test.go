package cloudroute

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// wantNotice fails unless the notice of the i-th node is this text; "?" is unknown.
func (w *world) wantNotice(name, want string) {
	w.Helper()
	v, _, known := w.Notice(name, w.now)
	got := v.String()
	if !known {
		got = "?"
	}
	if got != want {
		w.Errorf("the notice of %s is %q, want %q", name, got, want)
	}
}

// TestNoticeOfALongNetwork: the name of a network of Azure is too long for a notice. What
// replaces it can be read.
func TestNoticeOfALongNetwork(t *testing.T) {
	long := "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590/resourcegroups/nodes-of-production/providers/microsoft.network/virtualnetworks/net"
	w := newWorld(t, Options{}, "rtb-a")
	w.add(1)
	w.SetTarget("worker-1", Target{Instance: "i-1", Interface: "nic-1", Network: long, Forwards: true}, w.now)
	v, _, known := w.Notice("worker-1", w.now)
	v.Hosts[subnet.IPv4] = netip.MustParseAddr("192.0.2.1")
	if read, err := subnet.ParseNotice(v.String()); err != nil || read != v || !known || v.Network != subnet.NoticeNetwork(long) {
		t.Errorf("%q, %v, %v", v, known, err)
	}
}

// TestNoticeFollowsTheTables: a notice names a range only while every table of the node's
// network has its route.
func TestNoticeFollowsTheTables(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a", "rtb-b")
	w.otherNetwork["rtb-c"] = true
	w.add(1)
	w.add(2, "10.0.2.0/24", "fd00:2::/64")
	w.wantNotice("worker-1", "vpc-1")
	w.pass(time.Second)
	_, again, _ := w.Notice("worker-1", w.now)
	w.wantNotice("worker-1", "vpc-1") // the route was written less than noticeDelay ago
	if d := again.Sub(w.now); d <= 0 || d > noticeDelay {
		t.Errorf("it may change in %s", d)
	}
	w.pass(2 * noticeDelay)
	w.wantNotice("worker-1", "vpc-1 10.0.1.0/24")
	w.wantNotice("worker-2", "vpc-1 10.0.2.0/24 fd00:2::/64")
	w.wantNotice("worker-3", "")

	// A table of another network does not matter; one of its own does.
	w.tables["rtb-c"] = map[netip.Prefix]cloud.Route{}
	w.readTables()
	w.wantNotice("worker-1", "vpc-1 10.0.1.0/24")
	w.tables["rtb-d"] = map[netip.Prefix]cloud.Route{}
	w.readTables()
	w.wantNotice("worker-1", "vpc-1")
	w.pass(2 * noticeDelay)
	w.wantNotice("worker-1", "vpc-1 10.0.1.0/24")

	// A person deletes a route; the notice omits it until it is restored.
	delete(w.tables["rtb-a"], prefix("10.0.1.0/24"))
	w.pass(settleTime)
	w.readTables()
	w.wantNotice("worker-1", "vpc-1")
	w.pass(2 * noticeDelay)
	w.wantNotice("worker-1", "vpc-1 10.0.1.0/24")

	// The node gets another instance, one that does not run, and one that does not forward.
	w.SetTarget("worker-1", target(7), w.now)
	w.wantNotice("worker-1", "vpc-1")
	w.SetTarget("worker-1", Target{Problem: "it is terminated"}, w.now)
	w.wantNotice("worker-1", "")
	v := target(1)
	v.Forwards = false
	w.SetTarget("worker-1", v, w.now)
	w.wantNotice("worker-1", "")
	w.SetTarget("worker-1", Target{}, w.now)
	w.wantNotice("worker-1", "?")
	w.Reset(w.now)
	w.wantNotice("worker-2", "?")
}

// TestNoticeIsOfTheOlderNode: if two nodes have the same range, only the notice of the older
// one names it. If two nodes have the same instance, only the older one has a notice.
func TestNoticeIsOfTheOlderNode(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	w.add(1)
	w.add(2, "10.0.1.0/24")
	w.SetNode(Node{Name: "worker-3", UID: "3", Created: 3, Ranges: []string{"10.0.3.0/24"}, Target: target(1)}, w.now)
	w.pass(time.Minute)
	w.wantNotice("worker-1", "vpc-1 10.0.1.0/24")
	w.wantNotice("worker-2", "vpc-1")
	w.wantNotice("worker-3", "")
}

// TestNoticeOfANodeWithoutRoom: if the table is full, a node may send without a tunnel, but the
// others use their tunnels to it.
func TestNoticeOfANodeWithoutRoom(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	w.quota = cloud.Quota{Most: subnet.Pair[int]{3, 3}}
	w.readTables()
	w.add(1)
	w.add(2)
	w.pass(time.Minute)
	w.wantNotice("worker-1", "vpc-1 10.0.1.0/24")
	w.wantNotice("worker-2", "vpc-1")
	w.quota.Most[subnet.IPv4] = 4
	w.readTables()
	w.pass(time.Minute)
	w.wantNotice("worker-2", "vpc-1 10.0.2.0/24")
}
