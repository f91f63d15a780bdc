package etcdlead

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/route"
)

// isGone reports whether err says that a lease no longer exists.
func isGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// Ledger is the ledger of routes in etcd, with one key for each destination. It implements
// route.Ledger. Every write changes a guard key, and requires its last known revision. So a
// write that was planned with an older state fails.
type Ledger struct {
	Client *clientv3.Client
	// Prefix begins the keys, like /coreos.com/network/tulle-controller.
	Prefix string
	// Fence, if set, returns further conditions of a write, like Elector.Guard.
	Fence func() []clientv3.Cmp
}

func (l Ledger) guard() string { return l.Prefix + "/routes-guard" }
func (l Ledger) keys() string  { return l.Prefix + "/routes/" }

// mostOps is the maximum number of entries in a transaction. etcd allows 128 operations by
// default.
const mostOps = 100

// largestPage is the maximum number of keys in one read.
const largestPage = 1000

// Ref implements route.Ledger.
func (l Ledger) Ref() controller.Ref { return controller.Ref{Kind: "Ledger", Name: l.keys()} }

// Read implements route.Ledger. It reads all entries at one revision.
func (l Ledger) Read(ctx context.Context) (c route.Contents, err error) {
	guard, err := l.Client.Get(ctx, l.guard())
	if err != nil {
		return c, fmt.Errorf("read the ledger in etcd, %s: %w", l.keys(), err)
	}
	c.Version = "0"
	if len(guard.Kvs) > 0 {
		c.Version = strconv.FormatInt(guard.Kvs[0].ModRevision, 10)
	}
	from, end := l.keys(), clientv3.GetPrefixRangeEnd(l.keys())
	for {
		page, err := l.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(largestPage), clientv3.WithRev(guard.Header.Revision))
		if err != nil {
			return route.Contents{}, fmt.Errorf("read the ledger in etcd, %s: %w", l.keys(), err)
		}
		for _, kv := range page.Kvs {
			e, err := cloudroute.ParseEntry(strings.TrimPrefix(string(kv.Key), l.keys()), string(kv.Value))
			if err != nil {
				c.Problems = append(c.Problems, fmt.Sprintf("etcd key %.200q: %v; its routes count as foreign, delete the key", kv.Key, err))
				continue
			}
			c.Entries = append(c.Entries, e)
		}
		if !page.More || len(page.Kvs) == 0 {
			return c, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// errMoved reports that another replica leads, or that another leader has written the ledger.
var errMoved = errors.New("another replica leads now, or another leader has written the ledger; reading it again")

// Write implements route.Ledger.
func (l Ledger) Write(ctx context.Context, version string, entries []cloudroute.Entry) (string, error) {
	if version == "" {
		version = "0"
	}
	for part := range slices.Chunk(entries, mostOps) {
		revision, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return "", fmt.Errorf("version %q of the ledger: %w", version, err)
		}
		ops := []clientv3.Op{clientv3.OpPut(l.guard(), "")}
		for _, e := range part {
			if key := l.keys() + e.Key(); len(e.Routes) > 0 {
				ops = append(ops, clientv3.OpPut(key, e.Text()))
			} else {
				ops = append(ops, clientv3.OpDelete(key))
			}
		}
		conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(l.guard()), "=", revision)}
		if l.Fence != nil {
			conditions = append(conditions, l.Fence()...)
		}
		done, err := l.Client.Txn(ctx).If(conditions...).Then(ops...).Commit()
		switch {
		case err != nil:
			return "", err
		case !done.Succeeded:
			return "", errMoved
		}
		version = strconv.FormatInt(done.Header.Revision, 10)
	}
	return version, nil
}
