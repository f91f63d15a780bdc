package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// defaultHeartbeat is the longest interval between renewals. etcd neither stores
	// a renewal nor notifies watchers of it.
	defaultHeartbeat = 5 * time.Minute
	// rewriteSpread is the time over which many nodes that lost their leases together
	// write them again.
	rewriteSpread = 500 * time.Millisecond
	// quietTime is how long a lease must stay unchanged before the back-off starts
	// over.
	quietTime = time.Minute
)

// Hold implements subnet.Store.
func (s *Store) Hold(ctx context.Context, own subnet.Lease) error {
	value, err := subnet.FormatAttrs(own.Attrs)
	if err != nil {
		return err
	}
	h := holder{Store: s, own: own, value: string(value), written: own.Revision != 0}
	if h.written {
		h.renew()
	}
	// Acquire has just read the lease: only later changes matter.
	moved, from := s.position.moved(), own.Revision+1
	for first := true; ; first = false {
		if !first || own.Revision != 0 {
			if err := h.wait(ctx, from, moved); err != nil {
				return err
			}
		}
		moved = s.position.moved()
		err := s.retry(ctx, "renewing the lease", func(ctx context.Context) error {
			var err error
			if from, err = h.checkAndRenew(ctx); err != nil {
				h.what = lost // no longer lostNow
				return err
			}
			h.renew()
			return nil
		})
		if err != nil {
			return err
		}
	}
}

func (s *Store) heartbeat() time.Duration { return cmp.Or(s.options.heartbeat, defaultHeartbeat) }

// renew records that etcd has just renewed the node's lease.
func (s *Store) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = time.Now()
}

type holder struct {
	*Store
	own      subnet.Lease
	value    string
	failures int  // of the watch, in a row
	what     loss // what the last wait found
	written  bool // own was in the store, at least at the start
	rewrites int  // of foreign changes, in a row
	// unsure says that own was written again, and may not have been compared with the others
	// yet: the answer may be lost, or the comparison have failed.
	unsure  bool
	granted clientv3.LeaseID // for a restore that has not succeeded yet
}

// checkAndRenew restores the lease if it differs, and renews it. It returns the
// revision from which later changes are seen.
func (h *holder) checkAndRenew(ctx context.Context) (from int64, err error) {
	key := h.key(h.own)
	r, err := h.client.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	var id clientv3.LeaseID
	condition := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	reserved := false
	if len(r.Kvs) > 0 {
		kv := r.Kvs[0]
		l, bad, _ := h.parse(kv)
		reserved = bad == nil && l.IsReservation() // a person may have made it one
		if bad == nil {
			if err := h.checkHolder(ctx, l, clientv3.LeaseID(kv.Lease)); err != nil {
				return 0, err
			}
		}
		id = clientv3.LeaseID(kv.Lease)
		condition = clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)
		if bad == nil && l.Attrs == h.own.Attrs && h.unsure {
			if err := h.compareNow(ctx, kv); err != nil {
				return 0, err
			}
		}
		if bad == nil && l.Attrs == h.own.Attrs && reserved {
			return r.Header.Revision + 1, nil
		}
		if bad == nil && l.Attrs == h.own.Attrs && id != clientv3.NoLease {
			switch _, err := h.client.KeepAliveOnce(ctx, id); {
			case err == nil:
				return r.Header.Revision + 1, nil
			case !errors.Is(err, rpctypes.ErrLeaseNotFound):
				return 0, err
			}
		}
	}
	return h.restore(ctx, condition, id, reserved)
}

// checkHolder returns an error if another live node holds the lease. Writing it again
// would only start a fight.
func (h *holder) checkHolder(ctx context.Context, l subnet.Lease, id clientv3.LeaseID) error {
	own, instance := h.own, l.Node.Instance
	switch {
	case !l.SameNode(own.Attrs), instance != "" && instance != own.Node.Instance:
		if alive, err := h.alive(ctx, id); err != nil || !alive && l.Node.ID != "" {
			return err
		}
		if l.SameNode(own.Attrs) {
			h.setDisplacer(instance)
			return fmt.Errorf("%w: another installation on it leased %s; give each node an address of its own (%s), or restart this daemon if that one is gone",
				subnet.ErrSameAddress, l.Key(), h.options.Names.Address)
		}
		return fmt.Errorf("%w: %s is leased to %s", subnet.ErrTaken, l.Key(), l.Holder())
	case h.written && instance != "" && !l.IsReservation() && l.PublicIP != own.PublicIP && h.copyAnswers(ctx, l):
		return &subnet.TwinError{Lease: l, Copied: true}
	}
	return nil
}

// copyAnswers reports whether a copy of this machine lives at the public IP of a lease.
// Otherwise the lease is this machine's own from before it was renumbered, for example
// in an etcd that was restored from a backup.
func (h *holder) copyAnswers(ctx context.Context, l subnet.Lease) bool {
	return h.options.Answers == nil || h.options.Answers(ctx, l)
}

// restore writes the lease again.
func (h *holder) restore(ctx context.Context, condition clientv3.Cmp, id clientv3.LeaseID, reserved bool) (from int64, err error) {
	key := h.key(h.own)
	var options []clientv3.OpOption
	if !reserved {
		if id, err = h.keepable(ctx, id, h.granted); err != nil {
			return 0, err
		}
		h.granted = id
		options = append(options, clientv3.WithLease(id))
	}
	then := []clientv3.Op{clientv3.OpPut(key, h.value, options...), clientv3.OpGet(key)}
	if isDual(h.own) || h.what != lostNow { // another node may have a part of it, under another key
		then, h.unsure = append(then, h.getKeys()), true
	}
	r, err := h.client.Txn(ctx).If(condition).Then(then...).Commit()
	switch {
	case err != nil:
		return 0, err
	case !r.Succeeded:
		return 0, errChanged
	}
	written := r.Responses[1].GetResponseRange().Kvs[0]
	h.position.saw(markOf(written))
	if h.own.Created = written.CreateRevision; len(then) > 2 {
		if err := h.compare(ctx, written, r.Responses[2].GetResponseRange().Kvs); err != nil {
			return 0, err
		}
	}
	klog.InfoS("Restored our lease after it was lost or changed", "key", h.own.Key())
	h.written, h.granted = true, clientv3.NoLease
	if h.what == none {
		h.rewrites++
	}
	return r.Header.Revision + 1, nil
}

// compare yields if another node has leased a part of own before own was written again. all
// are all keys, as of that write or later.
func (h *holder) compare(ctx context.Context, written *mvccpb.KeyValue, all []*mvccpb.KeyValue) error {
	other, err := h.earlier(ctx, h.own, all)
	if err != nil {
		return err
	}
	if other != nil {
		h.own.Revision = written.ModRevision
		if err := h.withdraw(ctx, h.own); err != nil {
			return err
		}
		return fmt.Errorf("%w: a part of %s is leased to %s as %s", subnet.ErrTaken, h.own.Key(), other.Holder(), other.Key())
	}
	h.unsure = false
	return nil
}

// compareNow is compare with the keys that there are now.
func (h *holder) compareNow(ctx context.Context, written *mvccpb.KeyValue) error {
	r, err := h.client.Get(ctx, h.leasesPrefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	h.own.Created = written.CreateRevision
	return h.compare(ctx, written, r.Kvs)
}

// errChanged makes a step retry that was based on an old revision.
var errChanged = errors.New("the lease was changed meanwhile")

// wait waits until the lease changes or must be renewed.
func (h *holder) wait(ctx context.Context, from int64, moved <-chan struct{}) error {
	if h.rewrites > 0 {
		// Back off from a program that changes it again and again.
		if err := pauses.Sleep(ctx, h.rewrites); err != nil {
			return err
		}
	}
	since := time.Now()
	renewal := h.renewal()
	waiting, cancel := context.WithTimeout(ctx, renewal-renewal/10+rand.N(renewal/10+1))
	defer cancel()
	var err error
	h.what, err = h.await(waiting, h.key(h.own), from, moved, &h.failures)
	if time.Since(since) > quietTime {
		h.rewrites = 0
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	case err != nil:
		return err
	case h.what != none:
		return retry.Sleep(ctx, rand.N(rewriteSpread))
	}
	return nil
}

// renewal returns the longest time between renewals. It keeps the margin, and leaves
// time to retry a failed renewal.
func (h *holder) renewal() time.Duration {
	return min(h.heartbeat(), max(h.options.TTL-h.options.RenewMargin, time.Second), h.options.TTL/3)
}
