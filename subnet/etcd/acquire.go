package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/subnet"
)

// Acquire implements subnet.Store. It adopts the node's own lease as it is; after a
// restart that needs no write. For a new lease each try is one transaction. A failed
// transaction returns all that the next try needs.
func (s *Store) Acquire(ctx context.Context, claim subnet.Claim) (subnet.Lease, error) {
	value, err := subnet.FormatAttrs(claim.Attrs)
	if err != nil {
		return subnet.Lease{}, err
	}
	if claim.Attrs, err = subnet.ParseAttrs(value); err != nil {
		return subnet.Lease{}, err
	}
	known := s.toAcquire()
	if known == nil {
		if _, err := s.Config(ctx, subnet.Config{}); err != nil {
			return subnet.Lease{}, err
		}
		known = s.toAcquire()
	}
	a := &acquisition{Store: s, claim: claim, value: string(value), known: known, asked: make(map[string]bool)}
	var lease subnet.Lease
	err = s.retry(ctx, "leasing a subnet", func(ctx context.Context) error {
		lease, err = a.try(ctx)
		return err
	})
	if err == nil {
		s.wrote(lease)
	}
	return lease, err
}

// acquisition is one call of Acquire.
type acquisition struct {
	*Store
	cfg   subnet.Config
	claim subnet.Claim
	value string
	known *listing         // nil when it must be read
	id    clientv3.LeaseID // granted for this acquisition
	asked map[string]bool  // by version of a lease: whether its holder answered
	// unsure is the key that create may have written without getting an answer.
	unsure string
}

// try adopts one of the node's known leases, or leases a subnet. A failed try may
// have written, so the next one lists the leases again.
func (a *acquisition) try(ctx context.Context) (subnet.Lease, error) {
	known, err := a.prepare(ctx)
	if err != nil {
		return subnet.Lease{}, err
	}
	leases := slices.Clip(known.leases) // the first watch gets them as they are
	taken := make(map[string]bool, len(known.bad))
	for _, b := range known.bad {
		taken[b.Key] = true
	}
	for {
		if err := a.judge(ctx, leases, known.ids); err != nil {
			return subnet.Lease{}, err
		}
		own, ok, stale := a.claim.Own(a.cfg, leases)
		if ok && own.Key() == a.unsure && a.isLater(own, leases) {
			if err := a.withdraw(ctx, own); err != nil {
				return subnet.Lease{}, err
			}
			leases = without(leases, own.Key())
			continue
		}
		var lease subnet.Lease
		var met *mvccpb.KeyValue
		var err error
		if ok {
			lease, met, err = a.reuse(ctx, own, known.ids[own.Key()], stale)
		} else {
			lease, met, err = a.create(ctx, leases, taken, stale)
		}
		if err != nil || met == nil {
			return lease, err
		}
		// Another node was first. Continue with what it wrote.
		leases = without(leases, lease.Key())
		delete(known.ids, lease.Key())
		other, bad, _ := a.parse(met)
		switch {
		case met.ModRevision == 0: // deleted
		case bad != nil:
			taken[lease.Key()] = true
		default:
			leases = append(leases, other)
			if met.Lease != 0 {
				known.ids[other.Key()] = clientv3.LeaseID(met.Lease)
			}
		}
	}
}

// prepare returns the listing for a try, checks the etcd lease, and reads the config.
func (a *acquisition) prepare(ctx context.Context) (known *listing, err error) {
	known, a.known = a.known, nil
	if a.id != clientv3.NoLease { // an etcd that lost its data since has lost it too
		if a.id, err = a.keepable(ctx, a.id); err != nil {
			return nil, err
		}
	}
	if known == nil {
		if known, err = a.list(ctx); err != nil {
			return nil, err
		}
	}
	if known.config == nil {
		return nil, fmt.Errorf("the network's config %s is gone", a.configKey())
	}
	a.cfg, err = subnet.ParseConfig(known.config.Value)
	return known, err
}

// reuse adopts own. met is the key's present value if that is not what was known.
func (a *acquisition) reuse(ctx context.Context, own subnet.Lease, id clientv3.LeaseID, stale []subnet.Lease) (subnet.Lease, *mvccpb.KeyValue, error) {
	kept := clientv3.LeaseID(clientv3.NoLease)
	if !own.IsReservation() {
		var err error
		kept, err = a.keepable(ctx, id, a.id)
		if err != nil {
			return subnet.Lease{}, nil, err
		}
		if kept != id {
			a.id = kept
		}
		if kept == id && own.Attrs == a.claim.Attrs && len(stale) == 0 {
			return own, nil, nil
		}
	} else if own.Attrs == a.claim.Attrs && len(stale) == 0 {
		return own, nil, nil
	}
	key := a.key(own)
	lease, met, _, err := a.put(ctx, own, clientv3.Compare(clientv3.ModRevision(key), "=", own.Revision), stale, kept)
	return lease, met, err
}

// create tries the candidates one after the other.
func (a *acquisition) create(ctx context.Context, leases []subnet.Lease, taken map[string]bool, stale []subnet.Lease) (subnet.Lease, *mvccpb.KeyValue, error) {
	candidates, err := subnet.Candidates(a.cfg, leases, a.claim)
	if err != nil {
		return subnet.Lease{}, nil, err
	}
	for subnets := range candidates {
		lease := subnet.Lease{Subnets: subnets, Expires: noExpiry}
		if taken[lease.Key()] {
			continue
		}
		if a.id == clientv3.NoLease {
			if a.id, err = a.keepable(ctx, clientv3.NoLease); err != nil {
				return subnet.Lease{}, nil, err
			}
		}
		key := a.key(lease)
		a.unsure = lease.Key()
		lease, met, all, err := a.put(ctx, lease, clientv3.Compare(clientv3.CreateRevision(key), "=", 0), stale, a.id)
		if err != nil || met != nil {
			return lease, met, err
		}
		rival, err := a.earlier(ctx, lease, all)
		if err != nil || rival == nil {
			return lease, nil, err
		}
		// The later node yields.
		if err := a.withdraw(ctx, lease); err != nil {
			return subnet.Lease{}, nil, err
		}
		return *rival, &mvccpb.KeyValue{}, errRival
	}
	return subnet.Lease{}, nil, fmt.Errorf("%w: unreadable entries hold the last free ones; delete them", subnet.ErrOutOfSubnets)
}

// isLater reports whether another node leased a part of own's subnets before. All
// other nodes then accept that lease, and reject own.
func (a *acquisition) isLater(own subnet.Lease, leases []subnet.Lease) bool {
	return slices.ContainsFunc(leases, func(l subnet.Lease) bool {
		return l.Created < own.Created && overlap(l.Subnets, own.Subnets) && a.cfg.Allows(l.Subnets) && !a.claim.Owns(l)
	})
}

// errRival makes an acquisition start over.
var errRival = errors.New("another node leased a part of the same subnets first")

// put writes lease with our value if condition holds. In the same transaction it
// deletes the stale leases, if they are unchanged. all are the keys of all leases,
// for a lease of both families only.
func (a *acquisition) put(ctx context.Context, lease subnet.Lease, condition clientv3.Cmp, stale []subnet.Lease, id clientv3.LeaseID) (_ subnet.Lease, met *mvccpb.KeyValue, all []*mvccpb.KeyValue, err error) {
	key := a.key(lease)
	conditions := []clientv3.Cmp{condition}
	then := []clientv3.Op{clientv3.OpPut(key, a.value, clientv3.WithLease(id))}
	for _, l := range stale[:min(len(stale), 100)] { // etcd accepts 128 in one transaction
		if l.Key() != lease.Key() {
			conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(a.key(l)), "=", l.Revision))
			then = append(then, clientv3.OpDelete(a.key(l)))
		}
	}
	if isDual(lease) {
		then = append(then, a.getKeys())
	}
	r, err := a.client.Txn(ctx).If(conditions...).Then(then...).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return subnet.Lease{}, nil, nil, err
	}
	if !r.Succeeded {
		met = &mvccpb.KeyValue{}
		if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			met = kvs[0]
		}
		if met.ModRevision == lease.Revision { // a stale lease has changed
			return subnet.Lease{}, nil, nil, errChanged
		}
		return lease, met, nil, nil
	}
	a.position.saw(writeMark{key, r.Header.Revision, int64(id)})
	lease.Attrs, lease.Revision = a.claim.Attrs, r.Header.Revision
	if lease.Created == 0 {
		lease.Created = r.Header.Revision
	}
	return lease, nil, r.Responses[len(then)-1].GetResponseRange().GetKvs(), nil
}

// withdraw deletes our lease, unless another node has written to it since.
func (s *Store) withdraw(ctx context.Context, own subnet.Lease) error {
	key := s.key(own)
	_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", own.Revision)).Then(clientv3.OpDelete(key)).Commit()
	return err
}

// getKeys returns the request for the keys of all leases.
func (s *Store) getKeys() clientv3.Op {
	return clientv3.OpGet(s.leasesPrefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
}

// isDual reports whether a lease has both families.
//
// A lease of one family holds exactly what its key says. While all leases have one
// length, etcd itself prevents a second one. A lease of two families can overlap
// another key in each half. So each node gets all keys in the transaction that writes
// its own: the later of two nodes sees the earlier, and yields.
func isDual(l subnet.Lease) bool {
	return l.Subnets[subnet.IPv4].IsValid() && l.Subnets[subnet.IPv6].IsValid()
}

// earlier returns an older lease of another node that overlaps own, or nil. all are
// all keys.
func (s *Store) earlier(ctx context.Context, own subnet.Lease, all []*mvccpb.KeyValue) (*subnet.Lease, error) {
	for _, kv := range all {
		subnets, err := subnet.ParseKey(strings.TrimPrefix(string(kv.Key), s.leasesPrefix()))
		if err != nil || kv.CreateRevision >= own.Created || !overlap(subnets, own.Subnets) {
			continue
		}
		r, err := s.client.Get(ctx, string(kv.Key))
		if err != nil {
			return nil, err
		}
		if len(r.Kvs) == 0 {
			continue
		}
		l, bad, _ := s.parse(r.Kvs[0])
		if bad != nil || l.SameNode(own.Attrs) {
			continue
		}
		possible, err := s.possible(ctx, l)
		if err != nil || possible {
			return &l, err
		}
	}
	return nil, nil
}

func overlap(a, b subnet.Pair[netip.Prefix]) bool {
	for f := range a {
		if a[f].Overlaps(b[f]) {
			return true
		}
	}
	return false
}

// possible reports whether the config allows such a lease. A lease of the whole
// network, for example, takes no subnet. If etcd has no readable config, as after it
// lost its data, the last known one counts.
func (s *Store) possible(ctx context.Context, l subnet.Lease) (bool, error) {
	kv, _, err := s.get(ctx)
	if err != nil {
		return true, err
	}
	s.mu.Lock()
	cfg := s.knownConfig.config
	s.mu.Unlock()
	if kv != nil {
		if now, err := subnet.ParseConfig(kv.Value); err == nil {
			cfg = now
		}
	}
	for f, pool := range cfg.Pools {
		if pool.IsValid() && l.Subnets[f].IsValid() && !pool.Within(l.Subnets[f]) {
			return false, nil
		}
	}
	return true, nil
}

// keepable returns an etcd lease of the configured TTL, just renewed, to attach a key
// to. It is the first of ids that can be used, otherwise a new one. A try that fails keeps it
// for the next one: etcd would hold each new one for its TTL.
func (s *Store) keepable(ctx context.Context, ids ...clientv3.LeaseID) (clientv3.LeaseID, error) {
	ttl := int64(s.options.TTL.Seconds())
	for _, id := range ids {
		if id == clientv3.NoLease {
			continue
		}
		r, err := s.client.KeepAliveOnce(ctx, id)
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return 0, err
		}
		if err == nil && r.TTL == ttl {
			return id, nil
		}
	}
	r, err := s.client.Grant(ctx, ttl)
	if err != nil {
		return 0, err
	}
	return r.ID, nil
}

// alive reports whether the node that keeps an etcd lease renewed it lately. A key
// without an etcd lease counts as alive.
func (s *Store) alive(ctx context.Context, id clientv3.LeaseID) (bool, error) {
	if id == clientv3.NoLease {
		return true, nil
	}
	r, err := s.client.TimeToLive(ctx, id)
	if err != nil {
		return false, err
	}
	return r.TTL > 0 && r.GrantedTTL-r.TTL < int64((3*s.heartbeat()).Seconds()), nil
}
