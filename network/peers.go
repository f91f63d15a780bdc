package network

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// OwnerHost is the owner of what this node needs of its kernel for itself. Each
// peer's is its lease's key, which cannot be mistaken for it.
const OwnerHost = "host"

// Peers turns what a store tells of leases into the desired state of the
// kernel: each peer's part depends on its own lease, on ours and on the host
// alone, so that a change of one peer costs one peer's work.
type Peers struct {
	desired   *reconcile.Reconciler
	responder *probe.Responder // answers the peers' probes; may be nil

	mu          sync.Mutex
	own         subnet.Lease
	backend     backend.Backend
	table       *subnet.Table
	metrics     metrics
	unreachable map[string]error // peers that the backend cannot reach, by key
}

// NewPeers begins with no peer, for the node that holds own.
func NewPeers(cfg subnet.Config, own subnet.Lease, b backend.Backend, desired *reconcile.Reconciler) *Peers {
	p := &Peers{
		desired: desired, own: own, backend: b,
		table:       subnet.NewTable(cfg, own),
		unreachable: make(map[string]error),
	}
	desired.Update(func(d *reconcile.Desired) { d.Set(OwnerHost, b.Host(own)) })
	return p
}

// Update takes in what a store tells. What it says is gone lingers until Bury.
func (p *Peers) Update(u subnet.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	complete, portions := u.Complete, p.table.Portions(u, portion)
	left, paced := len(u.Leases), len(portions) > 1
	if paced {
		// A large network has other metrics from its first route on. Otherwise those of
		// the first portion change, and for what it deletes the loop waits for the last.
		p.desired.Update(func(d *reconcile.Desired) { d.Expect(left) })
	}
	for i, u := range portions {
		left -= len(u.Leases)
		changes := p.table.Apply(u)
		parts := p.workOn(changes, left)
		paced = paced && p.taken()
		p.put(changes, parts, func(d *reconcile.Desired) {
			d.Expect(left) // at the most
			if complete && i == len(portions)-1 {
				d.Complete()
			}
		})
	}
}

// Bury lets go of what has lingered since the last Bury, and says whether there
// is more to bury.
func (p *Peers) Bury() (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.table.DropLingering()
	p.put(changes, p.workOn(changes, 0), func(*reconcile.Desired) {})
	return p.table.Lingering()
}

// Lingering says whether there is something to Bury.
func (p *Peers) Lingering() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Lingering()
}

// put puts what changes come to into the desired state, and the caller adds to
// that.
func (p *Peers) put(changes subnet.Changes, parts parts, and func(*reconcile.Desired)) {
	p.desired.Update(func(d *reconcile.Desired) {
		p.drop(d, changes.Drop)
		parts.set(d)
		and(d)
	})
	p.admit(changes)
	logRejected(changes)
}

// drop lets go of peers. They go before others come: what they held may be
// another's now.
func (p *Peers) drop(d *reconcile.Desired, keys []string) {
	for _, key := range keys {
		delete(p.unreachable, key)
		d.Remove(key)
	}
}

func logRejected(c subnet.Changes) {
	for _, e := range c.Rejected {
		klog.InfoS("Rejected a lease", "key", e.Key, "reason", e.Err)
	}
}

// Rehost decides everything anew for a host or a config that has changed, and a
// node that publishes own now. What comes out the same stays as it is in the
// kernel.
func (p *Peers) Rehost(cfg subnet.Config, own subnet.Lease, b backend.Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.backend = own, b
	changes := p.table.Reconfigure(cfg, own)
	p.metrics.choose(p.table.Len())
	parts := p.work(p.byAge())
	p.desired.Update(func(d *reconcile.Desired) {
		p.drop(d, changes.Drop)
		d.Set(OwnerHost, b.Host(own))
		parts.set(d)
	})
	p.admit(changes)
	logRejected(changes)
}

// taken waits for the kernel to take the portion before, so that little more than
// two are under way. It is false for a kernel in trouble, which is not waited for.
func (p *Peers) taken() bool {
	ctx, cancel := context.WithTimeout(context.Background(), portionTime)
	defer cancel()
	return p.desired.WaitTaken(ctx) == nil
}

// portionTime is several times as long as a kernel takes for a portion.
const portionTime = 100 * time.Millisecond

// portion is how many peers of a first list are taken in at once: the kernel has
// them while the next are worked out.
const portion = 1000

// parts are what owners want.
type parts []part

type part struct {
	owner   string
	objects []netstate.Object
}

func (p parts) set(d *reconcile.Desired) {
	for _, part := range p {
		d.Set(part.owner, part.objects)
	}
}

// workOn returns the parts of the peers that changes concern: of all, if the
// metrics of their routes change. So many peers more may come in a moment. The
// caller holds mu.
func (p *Peers) workOn(changes subnet.Changes, more int) parts {
	if p.metrics.choose(p.table.Len() + more) {
		return p.work(p.byAge())
	}
	return p.work(changes.Set)
}

// byAge returns all peers, the earliest first: of two that want one key the
// earlier has it. The caller holds mu.
func (p *Peers) byAge() []subnet.Peer {
	all := p.all()
	slices.SortFunc(all, func(a, b subnet.Peer) int {
		return cmp.Or(cmp.Compare(a.Lease.Created, b.Lease.Created), strings.Compare(a.Key, b.Key))
	})
	return all
}

// work asks the backend for the peers' parts; the caller holds mu.
func (p *Peers) work(peers []subnet.Peer) parts {
	out := make(parts, len(peers))
	for i, peer := range peers {
		objects, err := p.backend.Peer(p.own, *peer.Lease)
		p.metrics.apply(objects)
		out[i] = part{peer.Key, objects}
		if err == nil {
			delete(p.unreachable, peer.Key)
			continue
		}
		if before := p.unreachable[peer.Key]; before == nil || before.Error() != err.Error() {
			klog.InfoS("Peer unreachable", "key", peer.Key, "node", peer.Lease.Node.Name, "reason", err)
		}
		p.unreachable[peer.Key] = err
	}
	return out
}

// Len is how many peers are believed.
func (p *Peers) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Len()
}

// All are the peers that are believed.
func (p *Peers) All() []subnet.Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all()
}

// all is All for who holds mu.
func (p *Peers) all() []subnet.Peer {
	all := make([]subnet.Peer, 0, p.table.Len())
	for key, l := range p.table.Peers() {
		all = append(all, subnet.Peer{Key: key, Lease: l})
	}
	return all
}
