package ends

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/retry"
)

// routes knows when the links, addresses, routes and rules of this host change. A peer's packets have shown an
// address and an interface of this host. The way back leaves from there only while the kernel would
// choose that interface for it.
type routes struct {
	generation atomic.Uint64 // from 1; each change begins another
	due        atomic.Bool   // another generation begins soon
	mark       atomic.Uint32 // of the sockets
	relinked   func()        // is called when links may have changed
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

// newRoutes returns what knows a kernel's routes, and calls relinked when its links may have
// changed.
func newRoutes(k *kernel.Kernel, relinked func()) *routes {
	ctx, stop := context.WithCancel(context.Background())
	r := &routes{kernel: k, relinked: relinked, stop: stop}
	r.generation.Store(1)
	r.running.Go(func() {
		for ctx.Err() == nil {
			if err := k.WatchRoutes(ctx, r.changed); ctx.Err() == nil {
				klog.ErrorS(err, "Failed to watch the host's routes; retrying")
				retry.Sleep(ctx, watchAgain)
			}
		}
	})
	return r
}

func (r *routes) changed(links bool) {
	if links {
		r.relinked()
	}
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
	way, now := e.way.Load(), 2*r.generation.Load()
	switch way {
	case unpinned, now:
		return datagram.Source{}
	case now + 1:
		return e.source
	}
	if !r.lead(e) {
		e.way.CompareAndSwap(way, now)
		return datagram.Source{}
	}
	e.way.CompareAndSwap(way, now+1)
	return e.source
}

// lead reports whether packets from an endpoint's source to it leave through the interface to which
// its packets came.
func (r *routes) lead(e *endpoint) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kernel == nil {
		return false
	}
	link, err := r.kernel.LinkTo(e.DstIP(), e.source.Addr, r.mark.Load())
	return err == nil && link == int(e.source.Link)
}
