package network

import (
	"maps"
	"sync"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// Host is the owner of what this node needs of its kernel for itself. Each
// peer's is its lease's key, which cannot be mistaken for it.
const Host = "host"

// Peers turns what a store tells of leases into the desired state of the
// kernel: each peer's part depends on its own lease, on ours and on the host
// alone, so that a change of one peer costs one peer's work.
type Peers struct {
	desired *reconcile.Reconciler

	mu          sync.Mutex
	own         subnet.Lease
	backend     backend.Backend
	table       *subnet.Table
	unreachable map[string]error // peers that the backend cannot reach, by key
}

// NewPeers begins with no peer, for the node that holds own.
func NewPeers(cfg subnet.Config, own subnet.Lease, b backend.Backend, desired *reconcile.Reconciler) *Peers {
	p := &Peers{
		desired: desired, own: own, backend: b,
		table:       subnet.NewTable(cfg, own),
		unreachable: make(map[string]error),
	}
	desired.Update(func(d *reconcile.Desired) { d.Set(Host, b.Host(own)) })
	return p
}

// Update takes in what a store tells.
func (p *Peers) Update(u subnet.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.table.Apply(u)
	p.desired.Update(func(d *reconcile.Desired) {
		// Those who leave go first: what they held may be another's now.
		for _, key := range changes.Drop {
			delete(p.unreachable, key)
			d.Remove(key)
		}
		for _, l := range changes.Set {
			p.set(d, l.Key, l.Lease)
		}
		if u.Complete {
			d.Complete()
		}
	})
	for _, e := range changes.Rejected {
		klog.InfoS("Ignoring a lease", "key", e.Key, "reason", e.Err)
	}
}

// Rehost decides everything anew for a host that has changed. What comes out
// the same stays as it is in the kernel.
func (p *Peers) Rehost(b backend.Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backend = b
	p.desired.Update(func(d *reconcile.Desired) {
		d.Set(Host, b.Host(p.own))
		for key, l := range p.table.Peers() {
			p.set(d, key, l)
		}
	})
}

// set makes one peer's part what the backend says; the caller holds mu.
func (p *Peers) set(d *reconcile.Desired, key string, l subnet.Lease) {
	objects, err := p.backend.Peer(p.own, l)
	d.Set(key, objects)
	before := p.unreachable[key]
	switch {
	case err == nil:
		delete(p.unreachable, key)
		return
	case before == nil || before.Error() != err.Error():
		klog.InfoS("Cannot reach a peer", "key", key, "node", l.Node.Name, "reason", err)
	}
	p.unreachable[key] = err
}

// Rejected are the leases that are not believed.
func (p *Peers) Rejected() []*subnet.LeaseError {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Rejected()
}

// Unreachable are the peers that the backend cannot reach, or not in every
// family, and why.
func (p *Peers) Unreachable() map[string]error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.unreachable)
}
