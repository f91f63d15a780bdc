package command

import (
	"context"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/status"
)

// fakeDaemon answers on a socket.
type fakeDaemon struct {
	report  status.Report
	peers   []status.Peer
	leases  status.Leases
	explain status.Explanation
	// readyAfter is the number of requests after which it is ready.
	readyAfter int64
	asked      atomic.Int64
}

func (d *fakeDaemon) Report(context.Context) status.Report {
	r := d.report
	if n := d.asked.Add(1); d.readyAfter > 0 {
		r.Ready = n > d.readyAfter
	}
	return r
}
func (d *fakeDaemon) Peers(context.Context) ([]status.Peer, error)  { return d.peers, nil }
func (d *fakeDaemon) Leases(context.Context) (status.Leases, error) { return d.leases, nil }
func (d *fakeDaemon) Explain(_ context.Context, a netip.Addr) (status.Explanation, error) {
	e := d.explain
	e.Address = a
	return e, nil
}

// start makes d answer at a socket until the test ends.
func (d *fakeDaemon) start(t *testing.T, socket string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { status.Serve(ctx, socket, "", keepfile.New(budget.New().Files()), d) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// serve makes d answer until the test ends, and returns its socket.
func (d *fakeDaemon) serve(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	d.start(t, socket)
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err := status.Dial(socket, "").Peers(t.Context()); err == nil {
			return socket
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
