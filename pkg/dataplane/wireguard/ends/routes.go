package ends

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// routes knows when the routes and addresses of this host change. A peer's packets have shown an
// address and an interface of this host. The way back leaves from there only while the kernel would
// choose that interface for it.
type routes struct {
	generation atomic.Uint64 // from 1; each change begins another
	due        atomic.Bool   // another generation begins soon
	mark       atomic.Uint32 // of the sockets
	stop       func()
	running    sync.WaitGroup

	mu     sync.Mutex
	kernel *kernel.Kernel // nil once closed
}

const (
	// settleTime is how long a generation waits for further changes. After it, the next packet to
	// each peer costs a lookup.
	settleTime = 250 * time.Millisecond
	// watchAgain is when a watch that failed begins again.
	watchAgain = time.Second
)

func newRoutes(k *kernel.Kernel) *routes {
	ctx, stop := context.WithCancel(context.Background())
	r := &routes{kernel: k, stop: stop}
	r.generation.Store(1)
	r.running.Go(func() {
		for ctx.Err() == nil {
			if err := k.WatchHost(ctx, r.changed); ctx.Err() == nil {
				klog.ErrorS(err, "Failed to watch the host's routes; retrying")
				retry.Sleep(ctx, watchAgain)
			}
		}
	})
	return r
}

func (r *routes) changed(netstate.Event) {
	if r.due.CompareAndSwap(false, true) {
		time.AfterFunc(settleTime, func() {
			r.due.Store(false)
			r.generation.Add(1)
		})
	}
}

func (r *routes) close() {
	r.stop()
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kernel != nil {
		r.kernel.Close()
		r.kernel = nil
	}
}

// source returns the address from which packets to an endpoint leave.
func (r *routes) source(e *endpoint) datagram.Source {
	known, now := e.routes.Load(), r.generation.Load()
	switch known {
	case unknown:
		return datagram.Source{}
	case now:
		return e.from
	}
	if !r.lead(e) {
		e.routes.CompareAndSwap(known, unknown)
		return datagram.Source{}
	}
	e.routes.CompareAndSwap(known, now)
	return e.from
}

// lead reports whether packets from an endpoint's source to it leave through the interface to which
// its packets came.
func (r *routes) lead(e *endpoint) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kernel == nil {
		return false
	}
	link, err := r.kernel.LinkTo(e.DstIP(), e.from.Addr, r.mark.Load())
	return err == nil && link == int(e.from.Link)
}
