package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/subnet"
)

// Options say where the network is kept and how to get there.
type Options struct {
	Endpoints []string
	Prefix    string // of all keys, like /coreos.com/network
	// CertFile and KeyFile are what the node shows to etcd, CAFile is whom it
	// believes; all are read again when they change.
	CertFile, KeyFile, CAFile string
	Username, Password        string
	// TTL is how long a lease outlives its node's last word.
	TTL time.Duration
	// RenewMargin is how much of that must always be left.
	RenewMargin time.Duration

	dial []grpc.DialOption // for tests
}

// Store is a network in etcd. All that it remembers is a listing that may save
// the next one, so that a start costs a handful of calls, however many leases
// there are.
type Store struct {
	options  Options
	client   *clientv3.Client
	trouble  trouble
	attempt  attempt
	position position
	ended    context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	acquired bool     // an Acquire has gone by unused
	unused   *listing // what Config found, for Watch to begin with
}

// Open makes a store. It waits for no etcd, unless a password has to be shown to
// one.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.Prefix = strings.TrimRight(o.Prefix, "/")
	s := &Store{options: o}
	config := clientv3.Config{
		Endpoints: o.Endpoints,
		Username:  o.Username, Password: o.Password,
		// A frozen server or a cut line shows within this time.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialTimeout: callLimit,
		Logger:      zap.NewNop(),
		DialOptions: append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(s.attempt.note)}, o.dial...),
	}
	var err error
	if config.TLS, err = tlsConfig(o); err != nil {
		return nil, err
	}
	err = s.retry(ctx, "Connecting to etcd", func(context.Context) error {
		s.client, err = clientv3.New(config)
		return err
	})
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(context.Background())
	s.ended = cancel
	s.running.Go(func() { s.guard(watching) })
	return s, nil
}

// Close lets go of etcd. Leases stay.
func (s *Store) Close() error {
	s.ended()
	s.running.Wait()
	return s.client.Close()
}

func (s *Store) configKey() string    { return s.options.Prefix + "/config" }
func (s *Store) leasesPrefix() string { return s.options.Prefix + "/subnets/" }

func (s *Store) key(l subnet.Lease) string { return s.leasesPrefix() + l.Key() }

// Config implements subnet.Store.
func (s *Store) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	told := ""
	for {
		l, err := s.list(ctx)
		if err != nil {
			return subnet.Config{}, err
		}
		why := ""
		if l.config == nil {
			why = fmt.Sprintf("there is no key %s; write one, as with: etcdctl put %s '{\"Network\": \"10.5.0.0/16\"}'", s.configKey(), s.configKey())
		} else if cfg, err := subnet.ParseConfig(l.config.Value); err != nil {
			why = err.Error()
		} else if cfg != known {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unused, s.acquired = l, false
			return cfg, nil
		}
		if why != "" && why != told {
			klog.InfoS("Waiting for the network's config", "key", s.configKey(), "reason", why)
		}
		told = why
		if err := s.await(ctx, s.configKey(), l.revision+1); err != nil {
			return subnet.Config{}, err
		}
	}
}

// await waits until something happens to key from a revision on, or until
// nobody knows whether it did.
func (s *Store) await(ctx context.Context, key string, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	moved := s.position.moved()
	events := s.client.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithRev(from))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
			return nil
		case r, ok := <-events:
			if !ok || r.Err() != nil {
				return s.pause(ctx, 1)
			}
			if len(r.Events) > 0 {
				return nil
			}
		}
	}
}
