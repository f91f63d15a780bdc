package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// TestFailedWritesGrantOneLease: etcd keeps each lease that it grants for its TTL, so tries that
// fail use the first one again.
func TestFailedWritesGrantOneLease(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	var granted, failing atomic.Int32
	faulty := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		switch {
		case strings.HasSuffix(method, "/LeaseGrant"):
			granted.Add(1)
		case strings.HasSuffix(method, "/Txn") && failing.Add(-1) >= 0:
			return errors.New("etcd refuses the write")
		}
		return invoke(ctx, method, request, reply, conn, options...)
	})
	l.acquire(l.Store, claim(1))
	s := l.openWith(func(o *Options) { o.dial, o.TTL = []grpc.DialOption{faulty}, 12*time.Hour })
	failing.Store(3)
	own := l.acquire(s, claim(1)) // it needs another TTL
	if n := granted.Swap(0); n != 1 || failing.Load() >= 0 {
		t.Errorf("to acquire, it was granted %d leases", n)
	}
	l.hold(s, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))
	failing.Store(3)
	l.Delete(own.Key())
	f.await("its return", func() bool { return failing.Load() < 0 && f.has(own)() })
	if n := granted.Load(); n != 1 {
		t.Errorf("to restore it, it was granted %d leases", n)
	}
}
