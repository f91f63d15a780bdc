package network

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// wellView returns a View of a node without faults.
func wellView(t testing.TB) View {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(plainConfig))
	if err != nil {
		t.Fatal(err)
	}
	v := View{At: time.Now(), Config: cfg, Waiting: map[reason]string{}}
	v.Own.Subnets[subnet.IPv4] = netip.MustParsePrefix("10.5.1.0/24")
	v.Interfaces.Uplinks[subnet.IPv4] = hostif.Uplink{Link: "eth0", Address: netip.MustParseAddr("198.18.0.1"), Public: netip.MustParseAddr("198.18.0.1")}
	v.Interfaces.Holds[subnet.IPv4] = true
	v.Interfaces.OnLink = []netstate.Route{{Dst: netip.MustParsePrefix("198.18.0.0/16"), Link: "eth0"}}
	v.Kernel = reconcile.Status{Complete: true, InSync: true, Since: v.At.Add(-time.Hour), LastResync: v.At.Add(-time.Minute)}
	v.Firewall.Tried = true
	return v
}

// faults are all faults of a View, with the check that each fails.
var faults = []struct {
	name, check string
	degraded    bool
	add         func(*View)
	why         string
}{
	{"the loop is stuck", "loop", false, func(v *View) {
		*v = View{At: v.At, Stuck: errors.New("the daemon's main loop did not answer"), Kernel: v.Kernel, Firewall: v.Firewall, Files: v.Files}
	}, "did not answer"},
	{"no config", "config", false, func(v *View) { v.Waiting[onConfig] = "reading the config" }, "reading the config"},
	{"no uplink", "interface", false, func(v *View) { v.Interfaces = hostif.Interfaces{} }, "no uplink yet"},
	{"the uplink is lost", "interface", false, func(v *View) { v.Waiting[onUplink] = "no default route" }, "no default route"},
	{"no lease", "lease", false, func(v *View) { v.Own = subnet.Lease{}; v.Waiting[onLease] = "out of subnets" }, "out of subnets"},
	{"the lease has ended", "lease", false, func(v *View) { v.Own.Expires, v.LeaseEnds = v.At, v.At.Add(-time.Minute) }, "the lease ended 1m0s ago"},
	{"no list", "peers", false, func(v *View) { v.Waiting[onList] = "reading the leases" }, "reading the leases"},
	{"half a list", "peers", false, func(v *View) { v.Kernel.Complete = false }, "has not arrived"},
	{"no backend", "node", false, func(v *View) { v.Waiting[onBackend] = "no such backend" }, "no such backend"},
	{"a restart", "node", true, func(v *View) { v.Waiting[onRestart] = "restart needed" }, "restart needed"},
	{"a bridge", "node", true, func(v *View) { v.Waiting[onBridge] = "cni0 has another subnet" }, "cni0 has"},
	{"the first sync", "kernel", false, func(v *View) { v.Waiting[onKernel] = "syncing the kernel" }, "syncing the kernel"},
	{"no resync", "kernel", false, func(v *View) { v.Kernel.LastResync = time.Time{} }, "no full resync"},
	{"an old resync", "kernel", true, func(v *View) { v.Kernel.LastResync = v.At.Add(-20 * time.Minute) }, "20m0s ago"},
	{"out of sync", "kernel", true, func(v *View) {
		v.Kernel.InSync, v.Kernel.Since, v.Kernel.DumpError = false, v.At.Add(-time.Minute), syscall.EBUSY
	}, "dump failed: device or resource busy"},
	{"the host's own", "kernel", false, func(v *View) {
		v.Kernel.Failing = append(v.Kernel.Failing, reconcile.Failing{Key: netstate.Link{Name: "tulle.1"}.Key(), Owner: ownerHost, Err: syscall.EPERM})
	}, "refuses link tulle.1: operation not permitted"},
	{"a lost fight", "kernel", false, func(v *View) {
		v.Kernel.Fights = append(v.Kernel.Fights, reconcile.Fight{Key: netstate.Link{Name: "tulle.1"}.Key(), Owner: ownerHost, Fight: budget.Fight{Rate: 900, Wrong: 0.97}})
	}, "link tulle.1: another program keeps changing it, 900 times a second; it is wrong 97% of the time"},
	{"no rules", "firewall", false, func(v *View) { v.Firewall.Tried = false }, "writing the firewall rules"},
	{"wrong rules", "firewall", true, func(v *View) { v.Firewall.Err = errors.New("no nftables") }, "no nftables"},
	{"no files yet", "files", false, func(v *View) { v.Waiting[onFiles] = "writing the files" }, "writing the files"},
	{"an old file", "files", false, func(v *View) { v.Files = map[string]error{"/a": syscall.ENOSPC} }, "/a is out of date: no space left"},
}

// agree fails unless the report, its text, the line for systemd and Kubernetes and
// the checks of /readyz agree on v.
func agree(t *testing.T, v View) {
	t.Helper()
	checks, r := v.Checks(), v.Report()
	ready := checks.Ready()
	var text strings.Builder
	if err := status.WriteReport(&text, "tulled", r, v.At); err != nil {
		t.Fatal(err)
	}
	if r.Ready != ready || strings.Contains(text.String(), "NOT READY") == ready || strings.Contains(v.Line(), "not ready: ") == ready || (len(r.Missing) == 0) != ready {
		t.Errorf("ready by its checks: %t; report: %t, missing %q; line: %s\n%s", ready, r.Ready, r.Missing, v.Line(), &text)
	}
	if ready && !checks.Started() {
		t.Error("ready, but not started")
	}
	for _, why := range checks.Missing() {
		if !strings.Contains(v.Line(), why) || !strings.Contains(text.String(), why) {
			t.Errorf("%q is missing in %s, or in\n%s", why, v.Line(), &text)
		}
	}
}

func failing(checks status.Checks) (names []string) {
	for _, c := range checks {
		if !c.OK() {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestEachFaultFailsItsCheck(t *testing.T) {
	if v := wellView(t); !v.Checks().Ready() || !v.Checks().Started() {
		t.Errorf("a node that is well: %+v", v.Checks())
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			v := wellView(t)
			f.add(&v)
			agree(t, v)
			checks := v.Checks()
			want := []string{f.check}
			if v.Stuck != nil {
				want = []string{"loop", "config", "interface", "lease", "peers", "node"}
			}
			if got := failing(checks); !slices.Equal(got, want) || checks.Started() != f.degraded || !strings.Contains(v.Line(), f.why) {
				t.Errorf("failing: %v, started: %t, %s", got, checks.Started(), v.Line())
			}
		})
	}
}

func TestReadinessAgreesInEveryState(t *testing.T) {
	for range 2000 {
		v := wellView(t)
		degraded, broken := false, false
		var names []string
		for i := len(faults) - 1; i >= 0; i-- { // the first discards what the others wait for
			if f := faults[i]; rand.IntN(4) == 0 {
				f.add(&v)
				names = append(names, f.name)
				degraded, broken = degraded || f.degraded, broken || !f.degraded
			}
		}
		agree(t, v)
		if c := v.Checks(); c.Ready() == (broken || degraded) || c.Started() == broken {
			t.Errorf("%q: ready %t, started %t: %s", names, c.Ready(), c.Started(), v.Line())
		}
		if t.Failed() {
			return
		}
	}
}

func TestPeersMakeNoNodeUnready(t *testing.T) {
	v := wellView(t)
	v.Kernel.InSync, v.Kernel.Since = false, v.At.Add(-time.Hour)
	v.Kernel.Failing = []reconcile.Failing{{Key: netstate.Route{Dst: netip.MustParsePrefix("10.5.4.0/24")}.Key(), Owner: "10.5.4.0-24", Err: syscall.EEXIST}}
	agree(t, v)
	if !v.Checks().Ready() {
		t.Error(v.Line())
	}
	v = wellView(t)
	v.Kernel.InSync, v.Kernel.Since = false, v.At.Add(-time.Second) // a peer has just come
	if !v.Checks().Ready() {
		t.Error(v.Line())
	}
}

// TestOnlyPeersAreUnroutable: what fails for the host itself, for another backend during a
// move, or with a stale object, is no peer.
func TestOnlyPeersAreUnroutable(t *testing.T) {
	v := wellView(t)
	for _, owner := range []string{"", ownerHost, ownerMove, lastResort, "10.5.3.0-24"} {
		v.Kernel.Failing = append(v.Kernel.Failing, reconcile.Failing{Owner: owner, Err: syscall.EPERM})
		v.Kernel.Fights = append(v.Kernel.Fights, reconcile.Fight{Owner: owner, Fight: budget.Fight{Rate: 900, Wrong: 0.97}})
	}
	troubled := v.troubled()
	if _, is := troubled["10.5.3.0-24"]; !is || len(troubled) != 1 {
		t.Errorf("unroutable: %v", troubled)
	}
}

// TestOnlyLostFightsCostReadiness checks that a fight that tulle wins leaves the node
// ready and its peers reachable. A lost fight over a peer's object makes that peer
// unroutable.
func TestOnlyLostFightsCostReadiness(t *testing.T) {
	v := wellView(t)
	won, lost := budget.Fight{Rate: 0.1, Wrong: 0.002}, budget.Fight{Rate: 900, Wrong: 0.97}
	v.Kernel.Fights = []reconcile.Fight{
		{Key: netstate.Link{Name: "tulle.1"}.Key(), Owner: ownerHost, Fight: won},
		{Key: netstate.Route{Dst: netip.MustParsePrefix("10.5.2.0/24")}.Key(), Owner: "10.5.2.0-24", Fight: won},
		{Key: netstate.Route{Dst: netip.MustParsePrefix("10.5.3.0/24")}.Key(), Owner: "10.5.3.0-24", Fight: lost},
		{Key: netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24")}.Key(), Fight: lost}, // a stray
	}
	v.FileFights = map[string]budget.Fight{"/run/flannel/subnet.env": won}
	if !v.Checks().Ready() {
		t.Errorf("not ready: %v", v.Checks().Missing())
	}
	troubled := v.troubled()
	if _, ok := troubled["10.5.3.0-24"]; len(troubled) != 1 || !ok {
		t.Errorf("unroutable: %v", troubled)
	}
	if r := v.Report(); len(r.Fights) != 5 || !r.Fights[2].Lost || r.Fights[4].Kind != status.FileFight {
		t.Errorf("fights: %+v", r.Fights)
	}
	if !strings.Contains(v.Line(), "another program keeps changing 5 objects") {
		t.Errorf("the line: %s", v.Line())
	}
}

func TestStuckLoopIsNotReady(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.start()
		l.soon()
		l.wantReady(true)
		stuck := make(chan struct{})
		go l.agent.call(l.agent.ctx, func() { <-stuck })
		l.soon()
		begun := time.Now()
		v := l.view()
		agree(t, v)
		if v.Stuck == nil || v.Checks().Started() || time.Since(begun) > answerLimit {
			t.Errorf("after %s: %s", time.Since(begun), v.Line())
		}
		if p, err := l.agent.Peers(t.Context()); err == nil {
			t.Errorf("a stuck loop has peers: %+v", p)
		}
		close(stuck)
		l.soon()
		l.wantReady(true)
	})
}

// TestLateAnswerIsNotShared ends the wait while the loop still works on the answer. The
// race detector judges.
func TestLateAnswerIsNotShared(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.start()
		l.soon()
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			v, err := askLoop(ctx, l.agent, func() View {
				cancel()
				return l.agent.loopView(withPeers)
			})
			if err == nil && v.Waiting == nil {
				t.Error("an answer in time is empty")
			}
		}
	})
}

func TestPeersOnTheLinkNeedNoDefaultRoute(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.start()
		l.peer(9)
		l.soon()
		var routes []netstate.DefaultRoute
		l.host.change(func(s *netstate.Survey) { routes, s.Defaults = s.Defaults, nil })
		l.after(5 * time.Second)
		l.wantReady(true)
		far := fakePeer(t, "10.5.10.0-24", "192.0.2.10", "3a:00:00:00:00:0a", 0)
		far.Node.ID, far.Expires = "machine-10", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		l.store.Put(far)
		l.soon()
		l.wantReady(false, "no IPv4 uplink")
		l.host.change(func(s *netstate.Survey) { s.Defaults = routes })
		l.after(5 * time.Second)
		l.wantReady(true)
	})
}
