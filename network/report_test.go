package network

import (
	"context"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestReportInEachState reads reports before the node has a config, when everything
// works, and when the kernel refuses a peer's route.
func TestReportInEachState(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, "")
		l.start()
		l.soon()
		r := l.agent.Report(t.Context())
		if r.Ready || r.Lease != nil || len(r.Missing) == 0 || r.NodeID != "machine-1" {
			t.Errorf("at first: %+v", r)
		}
		if p, err := l.agent.Peers(t.Context()); err != nil || len(p) != 0 {
			t.Errorf("peers at first: %+v, %v", p, err)
		}
		if e, err := l.agent.Explain(t.Context(), netip.MustParseAddr("10.5.9.1")); err != nil || e.Code != status.Starting || !strings.Contains(e.Verdict, "no lease yet") {
			t.Errorf("at first: %+v, %v", e, err)
		}

		l.peer(9)
		l.peer(10)
		bad := netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24")}.Key()
		l.host.Fail(1<<30, kerneltest.OfKey(bad), syscall.EINVAL)
		l.store.SetConfig(plainConfig)
		l.after(time.Minute)
		r = l.agent.Report(t.Context())
		if !r.Ready || r.Lease == nil || r.Lease.Since == nil || r.Peers.All != 2 || r.Peers.Unroutable != 1 || len(r.Interfaces) != 1 || r.Network.MTU != 1450 || len(r.Kernel.Failing) != 1 {
			t.Errorf("%+v", r)
		}
		peers, err := l.agent.Peers(t.Context())
		if err != nil || len(peers) != 2 || peers[0].InSync || peers[0].Since == nil || !strings.Contains(peers[0].Problem, "10.5.9.0/24") || peers[1].Problem != "" || peers[1].By != "tunnel" {
			t.Errorf("%+v, %v", peers, err)
		}
		for ip, want := range map[string]struct {
			code    status.Code
			verdict string
		}{
			"10.5.9.1": {status.Incomplete, "1 of its 3 routes and neighbours"}, "10.5.10.1": {status.Bypassed, "the kernel sends elsewhere"},
			"10.5.77.1": {status.Unleased, "leased to no node"}, "192.0.2.1": {status.Outside, "outside the network"},
			"fd00::1": {status.Outside, "outside the network"},
			r.Lease.Subnets[0].Addr().Next().String(): {status.Local, "this node's own subnet"},
		} {
			e, err := l.agent.Explain(t.Context(), netip.MustParseAddr(ip))
			if err != nil || e.Code != want.code || !strings.Contains(e.Verdict, want.verdict) {
				t.Errorf("%s: %+v, %v", ip, e, err)
			}
		}
		// A request to a node that has ended returns.
		l.stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := l.agent.Report(ctx); r.Stuck == "" || r.Ready {
			t.Error("a node that has ended answers")
		}
	})
}
