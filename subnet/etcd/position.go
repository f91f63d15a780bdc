package etcd

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/retry"
)

// position is how far the history of this etcd is known. An etcd that was set up
// anew or set back to a backup has another history, of which a watch says
// nothing: it waits for revisions that there were already, or goes on from one
// that means something else. So with every break of the line what comes is not
// trusted until a check has found the same history at its other end.
type position struct {
	broken  retry.Wakeup // after a break
	mu      sync.Mutex
	last    writeMark     // written last of all that is known
	gone    writeMark     // deleted last
	all     extent        // of the last list
	breaks  uint64        // of the line
	checked uint64        // as of which of them the history is known to be the same
	changed chan struct{} // closed when the history is another
}

// writeMark is one write. Nodes that write their leases again in an etcd that was
// emptied may come to the same revisions; to the same etcd leases they do not.
type writeMark struct {
	key      string
	revision int64
	lease    int64
}

func markOf(kv *mvccpb.KeyValue) writeMark {
	return writeMark{string(kv.Key), kv.ModRevision, kv.Lease}
}

// extent is how many keys there were at a revision. Who reads a list hears nothing
// of what was deleted before.
type extent struct{ revision, keys int64 }

// moved is closed when what was known of the history does not hold any more.
func (p *position) moved() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// saw takes note of what was written.
func (p *position) saw(m writeMark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.revision > p.last.revision && p.checked == p.breaks {
		p.last = m
	}
}

// lost takes note of what was deleted.
func (p *position) lost(m writeMark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.revision > p.gone.revision && p.checked == p.breaks {
		p.gone = m
	}
}

// counted takes note of how much a list held.
func (p *position) counted(e extent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.revision > p.all.revision && p.checked == p.breaks {
		p.all = e
	}
}

// broke takes note that the line to etcd broke.
func (p *position) broke() {
	p.mu.Lock()
	p.breaks++
	p.mu.Unlock()
	p.broken.Wake()
}

// trusted says whether nothing has broken since the last check.
func (p *position) trusted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checked == p.breaks
}

// at is the last that is known, and how often the line has broken.
func (p *position) at() (last, gone writeMark, all extent, breaks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.gone, p.all, p.breaks
}

// passed takes note that the history was the same after so many breaks.
func (p *position) passed(breaks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checked = max(p.checked, breaks)
}

// forget begins a new history, after so many breaks.
func (p *position) forget(breaks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.gone, p.all, p.checked = writeMark{}, writeMark{}, extent{}, max(p.checked, breaks)
	p.lose()
}

// lose has all read anew; the caller holds mu.
func (p *position) lose() {
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// guard looks, each time that a line to etcd breaks, whether etcd is back and the
// same. It is also who tells first that etcd is away.
func (s *Store) guard(ctx context.Context) {
	s.running.Go(func() {
		conn := s.client.ActiveConnection()
		reached := false // all that is known is from then on
		for state := conn.GetState(); ; state = conn.GetState() {
			if reached {
				s.position.broke()
			}
			reached = reached || state == connectivity.Ready
			if !conn.WaitForStateChange(ctx, state) {
				return
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.position.broken:
		}
		if s.retry(ctx, "reaching etcd", s.check) != nil {
			return // it fails with ctx alone
		}
	}
}

// check has all be read anew if etcd is not the one that it was.
func (s *Store) check(ctx context.Context) error {
	last, gone, all, breaks := s.position.at()
	if last.key == "" {
		_, err := s.client.Get(ctx, s.configKey(), clientv3.WithCountOnly())
		if err == nil {
			s.position.forget(breaks) // there is nothing to know it by
		}
		return err
	}
	same, err := s.remembers(ctx, last)
	if err == nil && same && gone.revision > last.revision {
		same, err = s.lacks(ctx, gone)
	}
	if err == nil && same && all.revision > max(last.revision, gone.revision) {
		same, err = s.holds(ctx, all)
	}
	switch {
	case err != nil:
	case same:
		s.position.passed(breaks)
	default:
		klog.InfoS("Etcd lost known writes, as after a restore; listing everything again")
		s.position.forget(breaks)
	}
	return err
}

// remembers reports whether etcd holds the write that a mark names; a compacted
// one only while it is the key's current value. It reads the value too: without
// it, etcd 3.7 answers from its index, which has no etcd lease.
func (s *Store) remembers(ctx context.Context, m writeMark) (bool, error) {
	r, err := s.client.Get(ctx, m.key, clientv3.WithRev(m.revision))
	if errors.Is(err, rpctypes.ErrCompacted) {
		r, err = s.client.Get(ctx, m.key)
	}
	switch {
	case errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, err
	}
	return len(r.Kvs) == 1 && markOf(r.Kvs[0]) == m, nil
}

// lacks says whether etcd has nothing at a key as of its deletion: one that was
// set back to a backup from before may have it again.
func (s *Store) lacks(ctx context.Context, m writeMark) (bool, error) {
	r, err := s.client.Get(ctx, m.key, clientv3.WithRev(m.revision), clientv3.WithKeysOnly())
	if errors.Is(err, rpctypes.ErrCompacted) {
		if r, err = s.client.Get(ctx, m.key, clientv3.WithKeysOnly()); err == nil {
			return len(r.Kvs) == 0 || r.Kvs[0].CreateRevision > m.revision, nil
		}
	}
	switch {
	case errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, err
	}
	return len(r.Kvs) == 0, nil
}

// holds says whether etcd held as many keys as a list did. Where it has forgotten
// that, what it holds now has to do: nothing is known to have changed since.
func (s *Store) holds(ctx context.Context, e extent) (bool, error) {
	from, to := s.extent()
	r, err := s.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithRev(e.revision), clientv3.WithCountOnly())
	if errors.Is(err, rpctypes.ErrCompacted) {
		r, err = s.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithCountOnly())
	}
	switch {
	case errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, err
	}
	return r.Count == e.keys, nil
}

// connections is a grpc.StreamClientInterceptor that takes note when a line breaks. The
// client begins its watches anew by itself then, and says nothing of it.
func (p *position) connections(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := begin(ctx, d, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return watched{stream, p}, nil
}

// watched is one stream.
type watched struct {
	grpc.ClientStream
	position *position
}

// RecvMsg implements grpc.ClientStream. Nothing of a stream that comes after it
// is received before the break is noted.
func (w watched) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if err != nil && status.Code(err) != codes.Canceled { // that was us
		w.position.broke()
	}
	return err
}

// connWatcher is a stats.Handler that takes note of each new line. What is asked over
// it may be answered by another etcd than the one that a line which hangs, and has
// not broken yet, goes to.
type connWatcher struct{ *position }

// HandleConn implements stats.Handler.
func (n connWatcher) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, begins := s.(*stats.ConnBegin); !begins {
		return
	}
	if last, _, _, _ := n.at(); last.key != "" {
		n.broke()
	}
}

// TagConn, TagRPC and HandleRPC implement the rest of stats.Handler.
func (connWatcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (connWatcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connWatcher) HandleRPC(context.Context, stats.RPCStats)                         {}
