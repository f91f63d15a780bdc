package etcdlead

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Notices stores the notices of routes in etcd, with one key for each lease. The nodes read
// them. It implements route.NoticeStore.
type Notices struct {
	Client *clientv3.Client
	// Prefix begins the keys, like /coreos.com/network/routed/.
	Prefix string
	// Fence, if set, returns the conditions of a write, like Elector.Guard.
	Fence func() []clientv3.Cmp
}

// Read returns all notices at one revision, keyed by the keys of their leases.
func (n Notices) Read(ctx context.Context) (map[string]string, error) {
	all := make(map[string]string)
	from, end, revision := n.Prefix, clientv3.GetPrefixRangeEnd(n.Prefix), int64(0)
	for {
		page, err := n.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(largestPage), clientv3.WithRev(revision))
		if err != nil {
			return nil, fmt.Errorf("read the notices in etcd, %s: %w", n.Prefix, err)
		}
		for _, kv := range page.Kvs {
			all[strings.TrimPrefix(string(kv.Key), n.Prefix)] = string(kv.Value)
		}
		if !page.More || len(page.Kvs) == 0 {
			return all, nil
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// Set writes the notice of a lease, or removes it if it is empty.
func (n Notices) Set(ctx context.Context, key, notice string) error {
	op := clientv3.OpPut(n.Prefix+key, notice)
	if notice == "" {
		op = clientv3.OpDelete(n.Prefix + key)
	}
	var conditions []clientv3.Cmp
	if n.Fence != nil {
		conditions = n.Fence()
	}
	done, err := n.Client.Txn(ctx).If(conditions...).Then(op).Commit()
	switch {
	case err != nil:
		return err
	case !done.Succeeded:
		return errMoved
	}
	return nil
}
