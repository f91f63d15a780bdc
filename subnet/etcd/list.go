package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/subnet"
)

// pageSize is the number of keys in an answer. A single answer with 10,000 leases
// would take 5 MiB more memory for a moment. Many small ones would cost etcd more: for
// each it counts the keys that remain.
const pageSize = 2000

// page is etcd's answer to one request of a list.
type page struct {
	*clientv3.GetResponse
	err error
}

// listing holds everything that etcd has of a network at one revision.
type listing struct {
	revision int64
	moved    <-chan struct{}  // closed when etcd has another history, as after a restore
	config   *mvccpb.KeyValue // nil if absent
	leases   []subnet.Lease
	ids      map[string]clientv3.LeaseID // of the leases that expire, by Key
	bad      []*subnet.LeaseError
}

// list reads the config and all leases, one page per call. It requests the next page
// before it parses the present one, so that etcd prepares it meanwhile. Each page has a
// time limit of its own: a long list from a slow etcd ends, too.
func (s *Store) list(ctx context.Context) (*listing, error) {
	var l *listing
	err := s.retryParts(ctx, "listing the leases", func(limit time.Duration) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		l = &listing{}
		from, to := s.extent()
		keys := int64(0)
		for next := s.request(ctx, limit, from, to, 0); next != nil; {
			r := <-next
			if r.err != nil {
				return r.err
			}
			// A later answer has etcd's revision at its time, not that of the list.
			if next = nil; l.revision == 0 {
				l.revision = r.Header.Revision
			}
			if r.More {
				if len(r.Kvs) == 0 {
					return errors.New("etcd announces more keys, and sends none")
				}
				next = s.request(ctx, limit, string(r.Kvs[len(r.Kvs)-1].Key)+"\x00", to, l.revision)
			}
			if l.leases == nil {
				l.leases = make([]subnet.Lease, 0, expected(r.Count))
				l.ids = make(map[string]clientv3.LeaseID, expected(r.Count))
			}
			var latest *mvccpb.KeyValue
			for _, kv := range r.Kvs {
				lease, followed := s.add(l, kv)
				if lease {
					keys++
				}
				if followed && (latest == nil || kv.ModRevision > latest.ModRevision) {
					latest = kv
				}
			}
			if latest != nil {
				s.position.saw(markOf(latest))
			}
		}
		s.position.counted(extent{l.revision, keys})
		return nil
	})
	return l, err
}

// expected returns how many leases to allocate memory for, if etcd announces count keys.
// A wrong count, even one below zero, costs some 10 MB at most.
func expected(count int64) int { return int(min(max(count, 0), 50_000)) }

// request requests the keys from a key on, at a revision; 0 is the present one. The
// answer comes when ctx ends, too.
func (s *Store) request(ctx context.Context, limit time.Duration, from, to string, revision int64) <-chan page {
	answer := make(chan page, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		r, err := s.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithRev(revision), clientv3.WithLimit(pageSize))
		answer <- page{r, err}
	}()
	return answer
}

// add adds an entry to a listing. It reports whether the entry is a lease, good or bad, and
// whether this store follows its changes. What lies between the config and the leases,
// like the notices of routes, may change unseen: it proves nothing of etcd's history.
func (s *Store) add(l *listing, kv *mvccpb.KeyValue) (isLease, followed bool) {
	if string(kv.Key) == s.configKey() {
		l.config = kv
		return false, true
	}
	key, ok := s.leaseKey(kv)
	if !ok {
		return false, false
	}
	lease, bad := parseLease(key, kv)
	if bad != nil {
		l.bad = append(l.bad, bad)
		return true, true
	}
	l.leases = append(l.leases, lease)
	if kv.Lease != 0 {
		l.ids[key] = clientv3.LeaseID(kv.Lease) // ParseLease accepts no other key than the lease's
	}
	return true, true
}

// leaseKey returns the key of the lease in an entry. ok is false for a key outside the
// leases' prefix.
func (s *Store) leaseKey(kv *mvccpb.KeyValue) (key string, ok bool) {
	prefix := s.leasesPrefix()
	if len(kv.Key) < len(prefix) || string(kv.Key[:len(prefix)]) != prefix {
		return "", false
	}
	return string(kv.Key[len(prefix):]), true
}

// parse reads one entry. ok is false for a key outside the leases' prefix.
func (s *Store) parse(kv *mvccpb.KeyValue) (lease subnet.Lease, bad *subnet.LeaseError, ok bool) {
	key, ok := s.leaseKey(kv)
	if !ok {
		return subnet.Lease{}, nil, false
	}
	lease, bad = parseLease(key, kv)
	return lease, bad, true
}

// parseLease reads the lease of an entry.
func parseLease(key string, kv *mvccpb.KeyValue) (lease subnet.Lease, bad *subnet.LeaseError) {
	lease, err := subnet.ParseLease(key, kv.Value)
	if err != nil {
		return subnet.Lease{}, asLeaseError(key, err)
	}
	lease.Revision, lease.Created = kv.ModRevision, kv.CreateRevision
	if kv.Lease != 0 {
		lease.Expires = noExpiry
	}
	return lease, nil
}

// noExpiry is the Expires of every lease that expires. The real time would cost one
// call per lease.
var noExpiry = time.Unix(1<<33, 0)

// toAcquire returns the listing that Config has read, to the first Acquire alone.
func (s *Store) toAcquire() *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acquired {
		return nil
	}
	s.acquired = true
	return s.current()
}

// toWatch returns the listing that Config has read, to the first Watch alone.
func (s *Store) toWatch() *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.current()
	s.unused = nil
	return l
}

// current returns the listing that Config has read, unless etcd's history has changed
// since: much time may pass until the node has an uplink and a lease. The caller holds
// mu.
func (s *Store) current() *listing {
	if s.unused != nil && s.unused.moved != s.position.moved() {
		s.unused = nil
	}
	return s.unused
}
