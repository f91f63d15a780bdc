package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// knownConfig is the config that Config returned last, with its revision. The
// revision is valid until moved is closed.
type knownConfig struct {
	config   subnet.Config
	revision int64
	moved    <-chan struct{}
}

// Config implements subnet.Store. The first config comes with all leases, which
// Acquire and Watch need. For a later one Config watches the config's key only.
func (s *Store) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	c := configReader{Store: s, known: known, usable: trouble.Config(known == subnet.Config{})}
	s.mu.Lock()
	last := s.knownConfig
	s.mu.Unlock()
	for {
		moved := s.position.moved()
		if known != (subnet.Config{}) && last.config == known && last.moved == moved {
			c.revision, last = last.revision, knownConfig{}
		} else {
			cfg, ok, err := c.next(ctx, moved)
			if ok || err != nil {
				return cfg, err
			}
		}
		if _, err := s.await(ctx, s.configKey(), c.revision+1, moved, &c.failures); err != nil {
			return subnet.Config{}, subnet.Waited(c.usable.Err(), err)
		}
	}
}

// configReader is one call of Config.
type configReader struct {
	*Store
	known    subnet.Config
	revision int64 // up to which there is nothing new
	usable   trouble.Outcome
	failures int
}

// next returns a config that differs from the known one, if there is one.
func (c *configReader) next(ctx context.Context, moved <-chan struct{}) (cfg subnet.Config, ok bool, err error) {
	var all *listing
	var kv *mvccpb.KeyValue
	if c.known == (subnet.Config{}) {
		if all, err = c.list(ctx); err == nil {
			kv, c.revision, all.moved = all.config, all.revision, moved
		}
	} else {
		kv, c.revision, err = c.get(ctx)
	}
	if err != nil {
		return cfg, false, err
	}
	if kv == nil {
		err = fmt.Errorf("there is no key %s; write it: etcdctl put %s '{\"Network\": \"10.5.0.0/16\"}'", c.configKey(), c.configKey())
	} else {
		cfg, err = subnet.ParseConfig(kv.Value)
	}
	c.usable.Was(err, "key", c.configKey())
	if err == nil && cfg != c.known {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.knownConfig = knownConfig{cfg, c.revision, moved}
		// An earlier listing belongs to an earlier config.
		c.unused, c.acquired = all, all == nil
		return cfg, true, nil
	}
	return cfg, false, nil
}

// get reads the config's key only.
func (s *Store) get(ctx context.Context) (kv *mvccpb.KeyValue, revision int64, err error) {
	err = s.retry(ctx, "reading the network config", func(ctx context.Context) error {
		r, err := s.client.Get(ctx, s.configKey())
		if err != nil {
			return err
		}
		revision = r.Header.Revision
		if len(r.Kvs) > 0 {
			kv = r.Kvs[0]
			s.position.saw(markOf(kv))
		}
		return nil
	})
	return kv, revision, err
}
