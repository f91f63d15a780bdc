package etcd

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

func TestWrongCountCostsLittle(t *testing.T) {
	for count, want := range map[int64]int{math.MinInt64: 0, -1: 0, 0: 0, 10_000: 10_000, 50_001: 50_000, math.MaxInt64: 50_000} {
		if is := expected(count); is != want {
			t.Errorf("etcd announces %d keys: memory for %d leases, want %d", count, is, want)
		}
	}
}

// ranges calls after, with its number from 1 on, once each page of a list was read.
func ranges(after func(page int64, answer *etcdserverpb.RangeResponse) error) grpc.DialOption {
	var pages atomic.Int64
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, o...)
		if r, ok := request.(*etcdserverpb.RangeRequest); ok && err == nil && r.Limit == pageSize {
			err = after(pages.Add(1), reply.(*etcdserverpb.RangeResponse))
		}
		return err
	})
}

// TestWatchReportsChangesDuringAList: of leases that the list has read already.
func TestWatchReportsChangesDuringAList(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	fill(t, l.client, 2*pageSize+1)
	const key = "10.0.0.0-28" // on the first page
	f := l.follow(l.open(ranges(func(page int64, _ *etcdserverpb.RangeResponse) error {
		if page > 1 {
			return nil
		}
		_, err := l.client.Delete(context.Background(), prefix+"/subnets/"+key)
		return err
	})))
	f.await("the deletion", func() bool {
		_, has := f.leases[key]
		return f.lists > 0 && !has
	})
}

// TestListEndsWithoutKeys: an answer that announces more keys than it has is an error.
func TestListEndsWithoutKeys(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	fill(t, l.client, 3)
	s := l.open(ranges(func(page int64, answer *etcdserverpb.RangeResponse) error {
		if page == 1 {
			answer.Kvs, answer.More = nil, true
		}
		return nil
	}))
	if got, err := s.list(t.Context()); err != nil || len(got.leases) != 3 {
		t.Errorf("the second try: %v, %v", got, err)
	}
}

// TestEachPageHasItsTime: a list may take longer than a try, if its pages do not.
func TestEachPageHasItsTime(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	fill(t, l.client, 2*pageSize+1)
	var ends []time.Time
	s := l.open(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if r, ok := request.(*etcdserverpb.RangeRequest); ok && r.Limit == pageSize {
			end, _ := ctx.Deadline()
			ends = append(ends, end)
		}
		return invoke(ctx, method, request, reply, conn, o...)
	}))
	if got, err := s.list(t.Context()); err != nil || len(got.leases) != 2*pageSize+1 {
		t.Errorf("%d leases, %v", len(got.leases), err)
	}
	if len(ends) < 3 || !slices.IsSortedFunc(ends, time.Time.Compare) || len(slices.Compact(ends)) != len(ends) {
		t.Errorf("the pages must be answered by %v", ends)
	}
}
