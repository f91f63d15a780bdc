package network

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/alloc"
	"github.com/tulle-net/tulle/backend/cloud"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/ipip"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

var factories = map[string]backend.Factory{
	alloc.Type: alloc.New, hostgw.Type: hostgw.New, vxlan.Type: vxlan.New, ipip.Type: ipip.New, cloud.Type: cloud.New,
}

// lab is a cluster of hosts in namespaces on one link, without a store: the test tells
// each node its leases.
type lab struct {
	t    testing.TB
	cfg  subnet.Config
	link *kerneltest.NS // the switch
	node []*node
}

// node is one host with everything except a store.
type node struct {
	t       testing.TB
	number  int
	cfg     subnet.Config
	ns      *kerneltest.NS
	own     subnet.Lease
	backend backend.Backend
	kernel  *kernel.Kernel
	loop    *reconcile.Reconciler
	peers   *peerSet
	stop    func() // ends the loop, and leaves the kernel unchanged
}

func parseConfig(t testing.TB, text string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newLab(t testing.TB, config string) *lab {
	t.Helper()
	l := &lab{t: t, cfg: parseConfig(t, config), link: newSwitch(t)}
	return l
}

func newSwitch(t testing.TB) *kerneltest.NS {
	ns := kerneltest.NewNS(t, "switch")
	ns.IP(t, "link add br0 type bridge")
	ns.IP(t, "link set br0 up")
	return ns
}

// plug connects a host's interface to a switch.
func plug(t testing.TB, sw, host *kerneltest.NS, name string, addresses ...string) {
	t.Helper()
	port := fmt.Sprintf("p%d", time.Now().UnixNano()%1e12)
	kerneltest.Join(t, sw, port, host, name)
	sw.IP(t, "link set "+port+" master br0")
	for _, a := range addresses {
		host.IP(t, "addr add "+a+" dev "+name)
	}
}

// add returns the next host, numbered from 1, with 198.18.0.N and fd00:18::N.
func (l *lab) add() *node {
	l.t.Helper()
	i := len(l.node) + 1
	n := &node{t: l.t, number: i, cfg: l.cfg, ns: kerneltest.NewNS(l.t, fmt.Sprintf("node%d", i))}
	plug(l.t, l.link, n.ns, "eth0", fmt.Sprintf("198.18.0.%d/24", i), fmt.Sprintf("fd00:18::%d/64 nodad", i))
	l.node = append(l.node, n)
	return n
}

// facts returns the host's present facts; the first address of each family counts.
func (n *node) facts() backend.HostFacts {
	n.t.Helper()
	survey, err := n.kernel.Survey(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	h := backend.HostFacts{NodeID: fmt.Sprintf("machine-%d", n.number), OnLink: survey.OnLink, Tunnels: survey.Tunnels()}
	for _, l := range survey.Links {
		if l.Name != "eth0" {
			continue
		}
		for _, a := range l.Addrs {
			if u := &h.Uplinks[subnet.FamilyOf(a.Addr())]; u.Link == "" {
				*u = backend.Uplink{Link: l.Name, MTU: l.MTU, Address: a.Addr(), Public: a.Addr(), TakesRouterAdvertisements: l.RouterAdvertisements}
			}
		}
	}
	return h
}

func (n *node) makeBackend() backend.Backend {
	n.t.Helper()
	b, err := factories[n.cfg.Backend.Type](n.cfg, n.facts())
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// prepare gives the node its subnets, and a bridge with the first address of each, as
// a CNI plugin does.
func (n *node) prepare() {
	n.t.Helper()
	if n.kernel != nil {
		return
	}
	var err error
	if n.kernel, err = kernel.New(n.ns.Path); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.kernel.Close)
	n.ns.IP(n.t, "link add cni0 type bridge")
	n.ns.IP(n.t, "link set cni0 up")
	for f, pool := range n.cfg.Pools {
		if pool.IsValid() {
			n.own.Subnets[f] = pool.Subnet(uint64(n.number - 1))
			n.ns.IP(n.t, fmt.Sprintf("addr add %s/%d dev cni0 nodad", n.pod(subnet.Family(f)), n.own.Subnets[f].Bits()))
		}
	}
}

// start runs the node, which knows no peer yet.
func (n *node) start() {
	n.t.Helper()
	n.prepare()
	n.backend = n.makeBackend()
	n.own.Attrs = n.backend.Publish()
	n.own.Node.ID, n.own.Created = fmt.Sprintf("machine-%d", n.number), int64(n.number)
	n.loop = reconcile.New(n.kernel, time.Minute, budget.New().Kernel())
	n.peers = newPeerSet(n.cfg, n.own, only(n.backend), n.loop)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { n.loop.Run(ctx) })
	n.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	n.t.Cleanup(n.stop)
}

// pod returns the address of the node's bridge in its subnet.
func (n *node) pod(f subnet.Family) netip.Addr { return n.own.Subnets[f].Addr().Next() }

// know gives the node the complete list of leases, and drops lingering peers.
func (n *node) know(nodes ...*node) {
	n.t.Helper()
	u := subnet.Update{Complete: true}
	for _, other := range nodes {
		u.Leases = append(u.Leases, other.own)
	}
	n.peers.Update(u)
	dropAllLingering(n.peers)
	n.synced()
}

// Update applies an update from the store, as Agent.updatePeers does.
func (p *peerSet) Update(u subnet.Update) {
	left := p.split(u)
	pace(context.Background(), p.desired, func() (more bool) { return p.applyNext(left) })
}

// dropAllLingering drops all lingering peers.
func dropAllLingering(p *peerSet) {
	for p.DropLingering() {
	}
}

// synced waits until the kernel holds everything that it should.
func (n *node) synced() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.loop.WaitSynced(ctx); err != nil {
		n.t.Fatalf("node %d is not in sync: %v: %+v", n.number, err, n.loop.Status())
	}
}

// startAll starts all hosts, and gives each all leases.
func (l *lab) startAll() {
	l.t.Helper()
	for _, n := range l.node {
		n.start()
	}
	for _, n := range l.node {
		n.know(l.node...)
	}
}

// pingAll pings from every node's pod address to every other's.
func (l *lab) pingAll() {
	l.t.Helper()
	for _, a := range l.node {
		for _, b := range l.node {
			for f, pool := range l.cfg.Pools {
				if a != b && pool.IsValid() {
					a.ping(b, subnet.Family(f))
				}
			}
		}
	}
}

// ping sends the largest packet that the node's MTU allows.
func (n *node) ping(to *node, f subnet.Family) {
	n.t.Helper()
	header := 28
	if f == subnet.IPv6 {
		header = 48
	}
	mtu := min(n.backend.MTU(), to.backend.MTU())
	n.ns.Ping(n.t, n.pod(f).String(), to.pod(f).String(), mtu-header)
}
