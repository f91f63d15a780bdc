package etcd

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Options locate the network's etcd and authenticate to it.
type Options struct {
	Endpoints []string
	Prefix    string // of all keys, like /coreos.com/network
	// CertFile and KeyFile are the node's certificate for etcd, CAFile the
	// authorities that it trusts. All are read again at each connection.
	CertFile, KeyFile, CAFile string
	// Username and either Password or PasswordFile authenticate to an etcd with
	// users. The file is read again when etcd rejects its password.
	Username, Password, PasswordFile string
	// TTL is how long a lease outlives its last renewal.
	TTL time.Duration
	// RenewMargin is the least time left of a lease when it is renewed.
	RenewMargin time.Duration
	Names       Names
	// Answers asks at the public IPs of a lease whether its holder lives there and is
	// not this process. The holder of a lease with this node's own instance must
	// prove that it has the instance's secret. With nil the store does not ask.
	Answers func(ctx context.Context, l subnet.Lease) bool

	dial      []grpc.DialOption // for tests
	heartbeat time.Duration     // for tests
}

// Store is a network in etcd. It keeps one listing, which may replace the next one: a
// start costs a handful of calls, however many leases there are.
type Store struct {
	options       Options
	client        *clientv3.Client
	login         *login // nil without a user name
	trouble       trouble.Log
	attempt       attempt
	reach         reach
	position      position
	ended         context.CancelFunc
	running       sync.WaitGroup
	reconnections reconnections
	streams       atomic.Int64 // counts the streams on which watches failed

	mu          sync.Mutex
	acquired    bool         // an Acquire has used, or missed, the listing
	unused      *listing     // the listing of Config, for Watch to begin with
	knownConfig knownConfig  // the last result of Config
	last        subnet.Lease // the lease that this process has in etcd
	displaced   string       // the instance that took our lease at our own address
	renewed     time.Time
	opened      time.Time
	watching    time.Time // since when the watch runs without a break
}

// reconnecting limits the back-off to an unreachable etcd. gRPC's default reaches two
// minutes.
var reconnecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Open returns a store. It does not wait for etcd.
func Open(o Options) (*Store, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Prefix, o.Names = strings.TrimRight(o.Prefix, "/"), o.Names.orWords()
	s := &Store{options: o, opened: time.Now(), trouble: trouble.Log{Explain: reasonsFor(o.Names).explain}, position: position{broken: retry.NewWakeup()}}
	unary, stream := []grpc.UnaryClientInterceptor{s.attempt.note}, []grpc.StreamClientInterceptor{s.position.connections}
	var err error
	if s.login, err = newLogin(o); err != nil {
		return nil, err
	}
	if s.login != nil {
		unary, stream = append(unary, s.login.unary), append(stream, s.login.stream)
	}
	secure, err := tlsConfig(o)
	if err != nil {
		return nil, err
	}
	config := clientv3.Config{
		Endpoints: o.Endpoints,
		// A frozen server or a cut connection is detected within this time.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		Logger: zap.NewNop(), TLS: secure,
		DialOptions: append([]grpc.DialOption{
			grpc.WithChainUnaryInterceptor(unary...), grpc.WithChainStreamInterceptor(stream...),
			grpc.WithConnectParams(reconnecting), grpc.WithStatsHandler(connWatcher{&s.position}), s.reach.dial(o, secure),
		}, o.dial...),
	}
	if s.client, err = clientv3.New(config); err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(context.Background())
	s.ended = cancel
	s.running.Go(func() { s.guard(watching) })
	return s, nil
}

// Reload reads the password again, without waiting until the old one fails.
func (s *Store) Reload() error {
	if s.login == nil {
		return nil
	}
	if _, err := s.login.password(); err != nil {
		return err
	}
	s.login.changed()
	return nil
}

// Status returns the state of the store.
func (s *Store) Status() trouble.Status {
	last, _, _, _ := s.position.at()
	s.mu.Lock()
	defer s.mu.Unlock()
	failing, recent := s.trouble.List()
	status := trouble.Status{Failing: failing, Last: recent, Watching: s.watching, Revision: last.revision, Renewed: s.renewed}
	// A process that has never renewed the lease does not know how long it still had.
	if status.LeaseEnds = s.opened.Add(s.options.TTL); !s.renewed.IsZero() {
		status.LeaseEnds = s.renewed.Add(s.options.TTL)
	}
	return status
}

// Client returns the store's client, for what else a program keeps in the same etcd. It
// ends with the store.
func (s *Store) Client() *clientv3.Client { return s.client }

// Close closes the connection to etcd. Leases stay.
func (s *Store) Close() error {
	s.ended()
	s.running.Wait()
	return s.client.Close()
}

func (s *Store) configKey() string    { return s.options.Prefix + "/config" }
func (s *Store) leasesPrefix() string { return s.options.Prefix + "/subnets/" }

// extent returns the range of the config and the leases. Keys of controllers lie in
// between.
func (s *Store) extent() (from, to string) {
	return s.configKey(), clientv3.GetPrefixRangeEnd(s.leasesPrefix())
}

func (s *Store) key(l subnet.Lease) string { return s.leasesPrefix() + l.Key() }
