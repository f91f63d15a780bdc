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

// position is how far this etcd's history is known. An etcd that was set up again or
// restored from a backup has another history. A watch does not show that: it waits
// for revisions that existed already, or resumes at one that means something else. So
// after each broken connection, events are not trusted until a check has found the
// same history.
type position struct {
	broken  retry.Wakeup // after a break
	mu      sync.Mutex
	last    writeMark     // the latest known write
	gone    writeMark     // the latest known deletion
	all     extent        // of the last list
	notices noticeMark    // zero until this store follows the notices
	breaks  uint64        // broken connections so far
	checked uint64        // the value of breaks for which the history was verified
	changed chan struct{} // closed when the history is another
}

// writeMark identifies one write. Nodes that write their leases again to an emptied
// etcd may reach the same revisions, but not the same etcd leases.
type writeMark struct {
	key      string
	revision int64
	lease    int64
}

func markOf(kv *mvccpb.KeyValue) writeMark {
	return writeMark{string(kv.Key), kv.ModRevision, kv.Lease}
}

// extent is the number of leases' keys at a revision. A list does not show earlier
// deletions.
type extent struct{ revision, keys int64 }

// noticeMark is the value of a notice's key at a revision: the latest that is known of
// the notices.
type noticeMark struct {
	revision int64
	key      string
	write    writeMark // zero if the key was absent
}

// moved returns a channel that is closed when the known history is no longer valid.
func (p *position) moved() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// saw records a write.
func (p *position) saw(m writeMark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.revision > p.last.revision && p.checked == p.breaks {
		p.last = m
	}
}

// lost records a deletion.
func (p *position) lost(m writeMark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.revision > p.gone.revision && p.checked == p.breaks {
		p.gone = m
	}
}

// counted records the number of leases' keys in a list.
func (p *position) counted(e extent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.revision > p.all.revision && p.checked == p.breaks {
		p.all = e
	}
}

// noticed records the latest of the notices. It always belongs to what WatchNotices has
// delivered, also while the history is not checked: the next check decides about both.
func (p *position) noticed(m noticeMark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notices = m
}

// broke records that a connection to etcd broke.
func (p *position) broke() {
	p.mu.Lock()
	p.breaks++
	p.mu.Unlock()
	p.broken.Wake()
}

// trusted reports whether no connection broke since the last check.
func (p *position) trusted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checked == p.breaks
}

// at returns the latest known marks, and the number of broken connections.
func (p *position) at() (last, gone writeMark, all extent, breaks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.gone, p.all, p.breaks
}

// latestNotice returns the latest known of the notices.
func (p *position) latestNotice() noticeMark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notices
}

// passed records that the history was unchanged after that many breaks.
func (p *position) passed(breaks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checked = max(p.checked, breaks)
}

// forget starts a new history, after that many breaks.
func (p *position) forget(breaks uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.gone, p.all, p.notices = writeMark{}, writeMark{}, extent{}, noticeMark{}
	p.checked = max(p.checked, breaks)
	p.lose()
}

// lose makes all readers list again. The caller holds mu.
func (p *position) lose() {
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// guard checks etcd's history after each broken connection, and retries until etcd is
// reachable. It is usually the first to report an unreachable etcd.
func (s *Store) guard(ctx context.Context) {
	s.running.Go(func() {
		conn := s.client.ActiveConnection()
		reached := false // nothing is known from before
		for state := conn.GetState(); ; state = conn.GetState() {
			if reached {
				s.position.broke()
			}
			if state == connectivity.Ready {
				reached = true
				s.reconnections.announce()
			}
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
			return // only ctx ends it
		}
	}
}

// check starts a new history if etcd lost known writes or deletions.
func (s *Store) check(ctx context.Context) error {
	last, gone, all, breaks := s.position.at()
	if last.key == "" {
		_, err := s.client.Get(ctx, s.configKey(), clientv3.WithCountOnly())
		if err == nil {
			s.position.forget(breaks) // there is no mark to compare
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
	if notice := s.position.latestNotice(); err == nil && same && notice.revision > 0 {
		same, err = s.keepsNotice(ctx, notice)
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

// remembers reports whether etcd has the write of a mark. A compacted write counts
// only while it is the key's current value. The request includes the value: without
// it etcd 3.7 answers from its index, which has no etcd lease.
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

// lacks reports whether a key was absent when it had been deleted. An etcd restored
// from an earlier backup may have it again.
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

// holds reports whether etcd had as many leases' keys as a list. If that revision is
// compacted, it asks for the next one, from which a watch resumes. If that is compacted,
// too, the count proves nothing: leases may have come and gone since. The watch then fails,
// and everything is listed again.
func (s *Store) holds(ctx context.Context, e extent) (bool, error) {
	count := func(revision int64) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, s.leasesPrefix(), clientv3.WithPrefix(), clientv3.WithRev(revision), clientv3.WithCountOnly())
	}
	r, err := count(e.revision)
	if errors.Is(err, rpctypes.ErrCompacted) {
		r, err = count(e.revision + 1)
	}
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return true, nil
	case errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, err
	}
	return r.Count == e.keys, nil
}

// keepsNotice reports whether etcd has the latest that is known of the notices. A
// compacted revision proves nothing: in the same history, a notice may have changed since.
func (s *Store) keepsNotice(ctx context.Context, m noticeMark) (bool, error) {
	r, err := s.client.Get(ctx, m.key, clientv3.WithRev(m.revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return true, nil
	case errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, err
	case m.write == (writeMark{}):
		return len(r.Kvs) == 0, nil
	}
	return len(r.Kvs) == 1 && markOf(r.Kvs[0]) == m.write, nil
}

// connections is a grpc.StreamClientInterceptor that records broken connections. The
// client resumes its watches by itself then, and reports nothing.
func (p *position) connections(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := begin(ctx, d, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return watched{stream, p}, nil
}

// watched is a stream that records its break.
type watched struct {
	grpc.ClientStream
	position *position
}

// RecvMsg implements grpc.ClientStream. It records the break before a later stream
// can deliver anything.
func (w watched) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if err != nil && status.Code(err) != codes.Canceled { // we cancelled it
		w.position.broke()
	}
	return err
}

// connWatcher is a stats.Handler that records each new connection. Another etcd may
// answer over it, while an older connection hangs and has not broken yet.
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
