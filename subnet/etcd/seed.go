package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Seed writes the network's first config, unless a key below the prefix exists. It
// reports whether it did, and waits for etcd until ctx ends.
func (s *Store) Seed(ctx context.Context, config string) (seeded bool, err error) {
	folder := s.options.Prefix + "/"
	err = s.retry(ctx, "Writing the first config to etcd", func(ctx context.Context) error {
		r, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(folder), "=", 0).WithPrefix()).
			Then(clientv3.OpPut(s.configKey(), config)).
			Commit()
		if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
			return nil // an etcd with users was set up before, with a config
		}
		seeded = err == nil && r.Succeeded
		return err
	})
	return seeded, err
}
