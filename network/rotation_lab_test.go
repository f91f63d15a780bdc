package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/storetest"
)

// keyring is a cluster of agents on fake kernels, in a bubble. The fakes have a model of
// WireGuard's sessions. A packet that the model would lose fails the test.
type keyring struct {
	t     *testing.T
	store *storetest.Memory
	log   *logtest.Log
	node  []*keyed

	mu       sync.Mutex
	shaken   map[handshake]time.Time
	blocked  map[uint16]bool // UDP ports that no packet passes
	lossless bool            // what is lost fails the test
	lost     int
}

// handshake is one between two devices with the keys that they had.
type handshake struct {
	node, other     int
	link, otherLink string
	key, otherKey   netstate.PublicKey
}

// keyed is one node.
type keyed struct {
	*keyring
	number   int
	host     surveyed
	seen     *netstate.State               // what its kernel held at the present exchange
	received map[backend.SessionKey]uint64 // bytes
	dir      string
	agent    *Agent
	stop     func()
	mu       sync.Mutex
	down     chan struct{} // while the store is unreachable
	broken   error         // why the key file cannot be written
	blind    wgkey.Step    // in which the sessions cannot be read; None if there is no such step
}

// surveyed is a fake host with the wireguard devices of its kernel in its surveys.
type surveyed struct{ *fakeHost }

func (h surveyed) Survey(ctx context.Context) (netstate.Survey, error) {
	s, err := h.fakeHost.Survey(ctx)
	for o := range h.Snapshot().All() {
		if l, ok := o.(netstate.Link); ok && l.Kind == netstate.TunnelWireGuard {
			s.Links = append(s.Links, netstate.HostLink{Link: l})
		}
	}
	return s, err
}

func newKeyring(t *testing.T, config string, nodes int) *keyring {
	r := &keyring{t: t, store: storetest.NewMemory(config), log: logtest.Capture(t, 0), shaken: make(map[handshake]time.Time), blocked: make(map[uint16]bool)}
	for i := range nodes {
		n := &keyed{keyring: r, number: i + 1, host: surveyed{newFakeHost()}, dir: t.TempDir(), received: make(map[backend.SessionKey]uint64)}
		n.host.survey.Links[0].Addrs = []netstate.HostAddr{
			{Prefix: netip.MustParsePrefix(fmt.Sprintf("198.18.0.%d/16", n.number))},
			{Prefix: netip.MustParsePrefix(fmt.Sprintf("fd00:18::%d/64", n.number))},
		}
		n.host.survey.OnLink = append(n.host.survey.OnLink, netstate.Route{Dst: netip.MustParsePrefix("fd00:18::/64"), Link: "eth0", Protocol: 2})
		n.host.survey.Defaults = append(n.host.survey.Defaults, netstate.DefaultRoute{
			Route: netstate.Route{Dst: netip.MustParsePrefix("::/0"), Link: "eth0", Via: netip.MustParseAddr("fd00:18::fe"), Protocol: 3},
		})
		r.node = append(r.node, n)
		t.Cleanup(func() {
			if n.stop != nil {
				n.stop()
			}
		})
	}
	return r
}

// start runs the agent of a node.
func (n *keyed) start() {
	n.t.Helper()
	id := fmt.Sprintf("machine-%d", n.number)
	keys := wgkey.NewStore(n.dir, "--state-dir", id)
	n.agent = New(Options{
		Store: gatedStore{n.store, n}, Kernel: n.host, Healing: budget.New().Kernel(), Files: &fakeFiles{}, Firewall: &fakeFirewall{},
		Backends: map[string]backend.Factory{wireguard.Type: wireguard.New},
		Outputs:  Outputs{SubnetFile: "/nowhere/subnet.env", Network: "/test", StateDir: n.dir},
		Node:     subnet.Node{ID: id, Name: id}, Uplinks: hostif.Spec{Ifaces: []string{"eth0"}},
		Keys: brittleKeys{keys, n}, Sessions: n.sessions, AddPSK: func(text string) error { _, err := keys.AddPSK(text); return err },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); n.agent.Run(ctx) }()
	n.stop = func() { cancel(); <-ended; n.stop = nil }
}

// kill ends the agent, and starts another on the same host.
func (n *keyed) kill() {
	n.stop()
	n.start()
}

// brittleKeys are keys whose file cannot be written at times.
type brittleKeys struct {
	*wgkey.Store
	n *keyed
}

func (k brittleKeys) Rotate(instance string, f wgkey.Facts) (bool, error) {
	k.n.mu.Lock()
	err := k.n.broken
	k.n.mu.Unlock()
	if err != nil {
		return false, err
	}
	return k.Store.Rotate(instance, f)
}

// gatedStore is a store that is unreachable at times.
type gatedStore struct {
	*storetest.Memory
	n *keyed
}

func (g gatedStore) await(ctx context.Context) {
	g.n.mu.Lock()
	down := g.n.down
	g.n.mu.Unlock()
	if down != nil {
		select {
		case <-down:
		case <-ctx.Done():
		}
	}
}

func (g gatedStore) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	g.await(ctx)
	return g.Memory.Config(ctx, known)
}

func (g gatedStore) Acquire(ctx context.Context, claim subnet.Claim) (subnet.Lease, error) {
	g.await(ctx)
	if ctx.Err() != nil {
		return subnet.Lease{}, ctx.Err()
	}
	return g.Memory.Acquire(ctx, claim)
}

func (g gatedStore) Watch(ctx context.Context, to func(subnet.Update)) error {
	return g.Memory.Watch(ctx, func(u subnet.Update) {
		g.await(ctx)
		to(u)
	})
}

// cutOff makes the store unreachable for a node until reconnect.
func (n *keyed) cutOff() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = make(chan struct{})
}

func (n *keyed) reconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.down)
	n.down = nil
}

// blindIn makes the reading of the sessions fail in a step.
func (n *keyed) blindIn(s wgkey.Step) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blind = s
}

// fail makes the key file unwritable, or writable again with nil.
func (n *keyed) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = err
}

// end is one end of a tunnel.
type end struct {
	node *keyed
	link netstate.Link
}

// at returns the end that listens at an endpoint, if its packets get there.
func (r *keyring) at(p netip.AddrPort) (e end, ok bool) {
	if r.blocked[p.Port()] {
		return e, false
	}
	for _, n := range r.node {
		if p.Addr() != netip.MustParseAddr(fmt.Sprintf("198.18.0.%d", n.number)) && p.Addr() != netip.MustParseAddr(fmt.Sprintf("fd00:18::%d", n.number)) {
			continue
		}
		for o := range n.seen.All() {
			if l, ok := o.(netstate.Link); ok && l.Kind == netstate.TunnelWireGuard && l.Up && l.WireGuard.Port == p.Port() {
				return end{n, l}, true
			}
		}
	}
	return e, false
}

// peer returns the peer of a link with a key.
func (e end) peer(key netstate.PublicKey) (p netstate.WGPeer, ok bool) {
	o, ok := e.node.seen.Get(netstate.WGPeer{Link: e.link.Name, Peer: key}.Key())
	p, _ = o.(netstate.WGPeer)
	return p, ok
}

// owner returns the key of the peer that has a prefix.
func (e end) owner(p netip.Prefix) netstate.PublicKey {
	o, _ := e.node.seen.Get(netstate.WGAllowed{Link: e.link.Name, Prefix: p}.Key())
	a, _ := o.(netstate.WGAllowed)
	return a.Peer
}

// shake completes a handshake with a peer if both ends have each other's keys, and one of
// them has a reason to begin it.
func (r *keyring) shake(e end, p netstate.WGPeer) {
	other, ok := r.at(p.Endpoint)
	if !ok || other.link.WireGuard.Key != p.Peer {
		return
	}
	back, ok := other.peer(e.link.WireGuard.Key)
	if !ok || p.Keepalive == 0 && back.Keepalive == 0 && !r.traffic(e, p.Peer) {
		return
	}
	h := handshake{e.node.number, other.node.number, e.link.Name, other.link.Name, e.link.WireGuard.Key, p.Peer}
	if last, was := r.shaken[h]; !was || time.Since(last) > 120*time.Second {
		r.shaken[h] = time.Now()
		r.shaken[handshake{other.node.number, e.node.number, other.link.Name, e.link.Name, p.Peer, e.link.WireGuard.Key}] = time.Now()
	}
}

// traffic reports whether a route leads packets to a peer of a link.
func (r *keyring) traffic(e end, key netstate.PublicKey) bool {
	for o := range e.node.seen.All() {
		if route, ok := o.(netstate.Route); ok && route.Link == e.link.Name && e.owner(route.Dst) == key {
			return true
		}
	}
	return false
}

// sessions is Options.Sessions.
func (n *keyed) sessions(_ context.Context, links []string) (all netstate.Sessions, err error) {
	n.mu.Lock()
	blind := n.blind
	n.mu.Unlock()
	if blind != wgkey.None && n.step() == blind {
		return all, errors.New("too busy")
	}
	n.keyring.mu.Lock()
	defer n.keyring.mu.Unlock()
	for o := range n.host.Snapshot().All() {
		p, ok := o.(netstate.WGPeer)
		if !ok || !slices.Contains(links, p.Link) {
			continue
		}
		s := netstate.Session{Link: p.Link, Peer: p.Peer, Endpoint: p.Endpoint, Received: n.received[backend.SessionKey{Link: p.Link, Peer: p.Peer}]}
		for h, at := range n.shaken { // with whatever key the link had then
			if h.node == n.number && h.link == p.Link && h.otherKey == p.Peer && at.After(s.Handshake) {
				s.Handshake = at
			}
		}
		all.Peers = append(all.Peers, s)
	}
	return all, nil
}

// delivers returns why a packet from one node to another's subnet is lost, or "".
func (r *keyring) delivers(from, to *keyed, f subnet.Family) string {
	dst, src := to.subnet(f), from.subnet(f)
	var e end
	for o := range from.seen.All() {
		if route, ok := o.(netstate.Route); ok && route.Dst == dst && !route.Drop {
			o, _ := from.seen.Get(netstate.Link{Name: route.Link}.Key())
			l, _ := o.(netstate.Link)
			e = end{from, l}
		}
	}
	if e.node == nil {
		return "there is no route"
	}
	key := e.owner(dst)
	p, ok := e.peer(key)
	if !ok {
		return fmt.Sprintf("%s has no peer for it", e.link.Name)
	}
	other, ok := r.at(p.Endpoint)
	if !ok {
		return fmt.Sprintf("nothing listens at %s", p.Endpoint)
	}
	own := e.link.WireGuard.Key
	last, shaken := r.shaken[handshake{from.number, to.number, e.link.Name, other.link.Name, own, key}]
	// A device whose key has changed still accepts what an earlier session sends.
	if other.link.WireGuard.Key != key && (!shaken || time.Since(last) > netstate.SessionLife) {
		return fmt.Sprintf("%s has another key", other.link.Name)
	}
	if other.owner(src) != own {
		return fmt.Sprintf("%s does not accept it from %s", other.link.Name, own)
	}
	to.received[backend.SessionKey{Link: other.link.Name, Peer: own}] += 128
	return ""
}

// subnet returns the subnet of a node.
func (n *keyed) subnet(f subnet.Family) netip.Prefix { return n.lease().Subnets[f] }

func (n *keyed) lease() subnet.Lease {
	for _, l := range n.store.Leases() {
		if l.Node.ID == fmt.Sprintf("machine-%d", n.number) {
			return l
		}
	}
	return subnet.Lease{}
}

// run passes time in small steps, in which handshakes are completed and a packet is sent
// each way, until done or, without done, until limit. When nothing happens the steps grow.
func (r *keyring) run(limit time.Duration, done func() bool) {
	r.t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; {
		pause := 100 * time.Millisecond
		if past := time.Since(begin); past > 5*time.Minute {
			pause = 20 * time.Second
		}
		<-time.After(pause)
		synctest.Wait()
		r.exchange()
		if done != nil && done() {
			return
		}
	}
	if done != nil {
		var all []string
		for _, n := range r.node {
			if n.stop != nil {
				all = append(all, fmt.Sprintf("node %d: %s, elsewhere %v, %s", n.number, n.step(), n.keys().elsewhere, n.keys().problem))
			}
		}
		r.t.Fatalf("not done after %s:\n%s\n%s", limit, strings.Join(all, "\n"), r.log)
	}
}

// exchange completes handshakes, and sends a packet from every node to every other.
func (r *keyring) exchange() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.node {
		n.seen = n.host.Snapshot()
	}
	for _, n := range r.node {
		for o := range n.seen.All() {
			p, ok := o.(netstate.WGPeer)
			if l, exists := n.seen.Get(netstate.Link{Name: p.Link}.Key()); ok && exists {
				r.shake(end{n, l.(netstate.Link)}, p)
			}
		}
	}
	for _, from := range r.node {
		for _, to := range r.node {
			for f, s := range to.lease().Subnets {
				if from == to || !s.IsValid() {
					continue
				}
				if why := r.delivers(from, to, subnet.Family(f)); why != "" {
					if r.lost++; r.lossless {
						r.t.Errorf("a packet from %d to %d is lost: %s", from.number, to.number, why)
					}
				}
			}
		}
	}
}

// up starts all nodes, and waits until they reach each other.
func (r *keyring) up() {
	r.t.Helper()
	for _, n := range r.node {
		n.start()
	}
	r.run(time.Minute, func() bool { before := r.lost; r.exchange(); return r.lost == before })
	r.lossless, r.lost = true, 0
}

func (n *keyed) state() wgkey.State {
	n.t.Helper()
	s, err := n.agent.Keys.State("")
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// keys returns what the agent reports on its keys.
func (n *keyed) keys() keysView {
	n.t.Helper()
	k := n.agent.View(context.Background()).Keys
	if k == nil {
		return keysView{}
	}
	return *k
}

func (n *keyed) step() wgkey.Step { return n.state().Step }

func (n *keyed) request() {
	n.t.Helper()
	if _, _, err := wgkey.Request(n.dir); err != nil {
		n.t.Fatal(err)
	}
}

// reach passes time until a node is in a step.
func (n *keyed) reach(s wgkey.Step, limit time.Duration) {
	n.t.Helper()
	n.run(limit, func() bool { return n.step() == s })
}

// rotated checks that a node has another key than before, and that nothing of the old one
// or of second tunnels is left on any node.
func (n *keyed) rotated(before wgkey.State) {
	n.t.Helper()
	n.run(2*time.Minute, func() bool {
		for _, m := range n.node {
			for o := range m.host.Snapshot().All() {
				if text := o.String(); strings.Contains(text, "wg2") || strings.Contains(text, before.Device.String()) {
					return false
				}
			}
		}
		return true
	})
	now := n.state()
	if now.Device == before.Device || now.Step != wgkey.None || now.Published != now.Device {
		n.t.Errorf("node %d had %+v and has %+v", n.number, before, now)
	}
	if data := n.lease().BackendData[subnet.IPv4]; !strings.Contains(data, now.Device.String()) || strings.Contains(data, "Second") {
		n.t.Errorf("node %d publishes %s", n.number, data)
	}
}

var errFull = errors.New("no space left on device")
