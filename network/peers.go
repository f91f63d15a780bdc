package network

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// ownerHost is the owner of the objects that the node itself needs. A peer's owner is
// its lease's key, which is never equal to it.
const ownerHost = "host"

// peerSet turns the store's updates into the desired state of the kernel. A peer's
// objects depend only on its own lease, on ours and on the host. So a change of one
// peer costs one peer's work.
type peerSet struct {
	desired   *reconcile.Reconciler
	responder *probe.Responder // answers the peers' probes; may be nil

	mu         sync.Mutex
	own        subnet.Lease
	backends   move.Backends
	known      subnet.Attrs // what the store confirmed of own
	seen       subnet.Attrs // what the store's updates said of own last
	table      *subnet.Table
	left       int // leases of the present update that are not in table yet
	metrics    backend.Metrics
	rejections rejections
	unroutable map[string]error // peers that are unroutable with the backends, by key
	moved      map[string]moved // of each peer during a move, by key
	ways       *ways            // nil before the first notices, and with other backends than a Router
	tunnels    tunnelSet        // of peers with two
}

// newPeerSet returns a peerSet without a peer, for the node that holds own.
func newPeerSet(cfg subnet.Config, own subnet.Lease, b move.Backends, desired *reconcile.Reconciler) *peerSet {
	p := &peerSet{
		desired: desired, own: own, backends: b, known: own.Attrs, seen: own.Attrs,
		table:      subnet.NewTable(cfg, own),
		unroutable: make(map[string]error),
		moved:      make(map[string]moved),
		tunnels:    newTunnelSet(),
	}
	desired.Update(p.setHost)
	return p
}

// setHost sets what the node needs with or without peers. Objects that go from one of its
// owners to the other stay in the kernel. The caller holds mu.
func (p *peerSet) setHost(d *reconcile.Desired) {
	primary, others := p.backends.Host(p.own)
	d.Set(ownerMove, slices.Concat(primary, others))
	d.Set(ownerHost, primary)
	d.Set(ownerMove, others)
}

// hostObjects returns what the node needs with or without peers. The caller holds mu.
func (p *peerSet) hostObjects() []netstate.Object {
	primary, others := p.backends.Host(p.own)
	return slices.Concat(primary, others)
}

// DropLingering drops the peers that began to linger before the previous call. It
// reports whether more linger.
func (p *peerSet) DropLingering() (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.table.DropLingering()
	p.put(changes, p.workOn(changes), func(*reconcile.Desired) {})
	return p.table.Lingering()
}

// Lingered returns how many peers have begun to linger so far.
func (p *peerSet) Lingered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Lingered()
}

// put applies changes to the desired state, together with and.
func (p *peerSet) put(changes subnet.Changes, parts parts, and func(*reconcile.Desired)) {
	p.desired.Update(func(d *reconcile.Desired) {
		p.drop(d, changes.Drop)
		parts.set(d)
		and(d)
	})
	p.admit(changes)
	p.rejections.log(changes.Rejected, p.table.CountRejected(), time.Now())
}

// drop removes peers. It runs before others are added, which may have their subnets
// now.
func (p *peerSet) drop(d *reconcile.Desired, keys []string) {
	for _, key := range keys {
		delete(p.unroutable, key)
		p.tunnels.remove(key)
		delete(p.moved, key)
		d.Remove(key)
	}
}

// rehost computes all objects again after a change of the host, the config or own.
// Objects that stay the same stay in the kernel. It reports whether Update needs a
// complete list then.
func (p *peerSet) rehost(cfg subnet.Config, own subnet.Lease, b move.Backends) (relist bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.backends = own, b
	p.findOwn()
	p.see()
	changes := p.table.Reconfigure(cfg, own)
	p.chooseMetrics()
	parts := p.work(p.byAge())
	p.desired.Update(func(d *reconcile.Desired) {
		p.drop(d, changes.Drop)
		p.setHost(d)
		parts.set(d)
	})
	p.admit(changes)
	p.rejections.log(changes.Rejected, p.table.CountRejected(), time.Now())
	return changes.Relist
}

// parts are the objects of several owners.
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

// workOn returns the parts of the changed peers, or of all peers if the metrics of
// their routes change, or what they may know of this node during a move. The caller holds mu.
func (p *peerSet) workOn(changes subnet.Changes) parts {
	if seen := p.see(); p.chooseMetrics() || seen {
		return p.work(p.byAge())
	}
	return p.work(changes.Set)
}

// byAge returns all peers, the earliest first: of two peers that need one key, the
// earlier gets it. The caller holds mu.
func (p *peerSet) byAge() []subnet.Peer {
	all := p.all()
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Lease.Created, b.Lease.Created), strings.Compare(a.Key, b.Key)) < 0
	})
	return all
}

// work returns the backend's objects for peers. The caller holds mu.
func (p *peerSet) work(peers []subnet.Peer) parts {
	out := make(parts, len(peers))
	for i, peer := range peers {
		p.tunnels.find(p.backends, p.own, peer)
		way := p.way(peer, p.metrics)
		p.remember(peer.Key, way)
		out[i] = part{peer.Key, way.Objects}
		err := way.Err
		if err == nil {
			delete(p.unroutable, peer.Key)
			continue
		}
		if before := p.unroutable[peer.Key]; before == nil || before.Error() != err.Error() {
			klog.InfoS("Peer unroutable", "key", peer.Key, "node", peer.Lease.Node.Name, "reason", err)
		}
		p.unroutable[peer.Key] = err
	}
	return out
}

// Len returns the number of accepted peers.
func (p *peerSet) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Len()
}

// All returns the accepted peers.
func (p *peerSet) All() []subnet.Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all()
}

// leases returns the leases of the accepted peers, which must not be changed.
func (p *peerSet) leases() []*subnet.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*subnet.Lease, 0, p.table.Len())
	for _, l := range p.table.Peers() {
		all = append(all, l)
	}
	return all
}

// keys returns the keys of the accepted peers.
func (p *peerSet) keys() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := make([]string, 0, p.table.Len())
	for key := range p.table.Peers() {
		keys = append(keys, key)
	}
	return keys
}

// all is All for callers that hold mu.
func (p *peerSet) all() []subnet.Peer {
	all := make([]subnet.Peer, 0, p.table.Len())
	for key, l := range p.table.Peers() {
		all = append(all, subnet.Peer{Key: key, Lease: p.routed(key, l)})
	}
	return all
}
