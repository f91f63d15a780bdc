package network

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// benchHost is a node with a real kernel in a fresh namespace. Its peers are only
// leases; they get no packets.
type benchHost struct {
	*node
	tap      *tap
	stranger *kernel.Kernel // another program's view of the same namespace
}

// newBenchHost returns a host with its backend's objects and no peers.
func newBenchHost(t testing.TB, backend string) *benchHost {
	t.Helper()
	h := &benchHost{node: &node{
		t: t, number: 1, ns: kerneltest.NewNS(t, "bench"),
		// Room for 131,072 subnets.
		cfg: parseConfig(t, config(`"Network": "10.0.0.0/8", "SubnetLen": 25`, `{"Type": "`+backend+`"}`)),
	}}
	h.ns.IP(t, "link add eth0 type veth peer name far")
	h.ns.IP(t, "link set eth0 up")
	h.ns.IP(t, "link set far up")
	h.ns.IP(t, "addr add 198.18.0.1/15 dev eth0")
	h.prepare()
	var err error
	if h.stranger, err = kernel.New(h.ns.Path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stranger.Close)
	h.backend = h.makeBackend()
	h.own.Attrs = h.backend.Publish()
	h.own.Created = 1
	h.apply(netstate.Create, h.backend.Host(h.own))
	t.Cleanup(func() {
		// The kernel cleans up a namespace some time after its end, which would slow
		// the next measurement.
		for _, link := range []string{"eth0", "tulle.1"} {
			_ = exec.Command("ip", "-n", h.ns.Name, "link", "del", link).Run() // it may not exist
		}
	})
	return h
}

// start runs the node's loop, with the host's own objects and no peer.
func (h *benchHost) start() {
	h.t.Helper()
	h.tap = &tap{Kernel: h.kernel}
	h.loop = reconcile.New(h.tap, time.Hour, budget.New().Kernel())
	h.peers = newPeerSet(h.cfg, h.own, only(h.backend), h.loop)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.loop.Run(ctx) })
	h.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	h.t.Cleanup(h.stop)
	kerneltest.Eventually(h.t, 10*time.Second, func() error {
		if s := h.loop.Status(); s.Resyncs == 0 || s.Pending > 0 {
			return fmt.Errorf("the loop has not begun: %+v", s)
		}
		return nil
	})
}

// crowd returns the leases of count peers, numbered from first. This node is number
// 0.
func (h *benchHost) crowd(first, count int) []subnet.Lease {
	leases := make([]subnet.Lease, count)
	for i := range leases {
		n, l := first+i, &leases[i]
		l.Subnets[subnet.IPv4] = h.cfg.Pools[subnet.IPv4].Subnet(uint64(n))
		l.PublicIP[subnet.IPv4] = netip.AddrFrom4([4]byte{198, byte(18 + (n+1)>>16), byte((n + 1) >> 8), byte(n + 1)})
		l.BackendType = h.own.BackendType
		if h.own.BackendData[subnet.IPv4] != "" {
			l.BackendData[subnet.IPv4] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"3a:00:00:%02x:%02x:%02x"}`, byte(n>>16), byte(n>>8), byte(n))
		}
		l.Node = subnet.Node{ID: fmt.Sprintf("%032x", n), Name: fmt.Sprintf("node-%05d", n), MTU: h.backend.MTU()}
		l.Expires, l.Created, l.Revision = time.Unix(1<<33, 0), int64(n+1), int64(n+1)
	}
	return leases
}

// entries returns the objects that the kernel must hold for leases.
func (h *benchHost) entries(leases []subnet.Lease, spread bool) []netstate.Object {
	h.t.Helper()
	var all []netstate.Object
	for _, l := range leases {
		objects, err := h.backend.Peer(h.own, l, backend.Metrics(spread))
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

func planOf(v netstate.Verb, objects []netstate.Object) netstate.Plan {
	var p netstate.Planner
	for _, o := range objects {
		p.Add(v, o)
	}
	return p.Plan()
}

// apply changes the kernel without the loop's knowledge.
func (h *benchHost) apply(v netstate.Verb, objects []netstate.Object) {
	h.t.Helper()
	if err := h.stranger.Apply(context.Background(), planOf(v, objects)); err != nil {
		h.t.Fatal(err)
	}
}

// dump returns our objects in the kernel.
func (h *benchHost) dump() []netstate.Object {
	h.t.Helper()
	objects, err := h.stranger.Dump(context.Background(), h.scope())
	if err != nil {
		h.t.Fatal(err)
	}
	return objects
}

func (h *benchHost) scope() netstate.Scope {
	var s netstate.Scope
	for _, o := range h.backend.Host(h.own) {
		if setting, ok := o.(netstate.Sysctl); ok {
			s.Sysctls = append(s.Sysctls, setting.Path)
		}
	}
	return s
}

// want fails the test unless the kernel holds entries and the host's own objects, and
// no other object of ours.
func (h *benchHost) want(entries []netstate.Object) {
	h.t.Helper()
	want := netstate.Of(append(h.backend.Host(h.own), entries...)...)
	if plan := netstate.Diff(want, h.dump()); len(plan) > 0 {
		h.t.Fatalf("the kernel is %d steps from what it should hold, the first: %s", len(plan), plan[0])
	}
}

// batches are files for ip -batch and bridge -batch.
type batches struct{ ip, bridge string }

// write writes the batches that add or del objects, followed by more commands of ip.
func (h *benchHost) write(verb string, objects []netstate.Object, more ...string) batches {
	h.t.Helper()
	dir := h.t.TempDir()
	b := batches{filepath.Join(dir, "ip"), filepath.Join(dir, "bridge")}
	files := map[string]*bufio.Writer{}
	for _, name := range []string{b.ip, b.bridge} {
		f, err := os.Create(name)
		if err != nil {
			h.t.Fatal(err)
		}
		defer f.Close()
		files[name] = bufio.NewWriter(f)
		defer files[name].Flush()
	}
	for _, op := range planOf(netstate.Create, objects) {
		tool, line := command(op.Object)
		name := b.ip
		if tool == "bridge" {
			name = b.bridge
		}
		fmt.Fprintf(files[name], line+"\n", verb)
	}
	for _, line := range more {
		fmt.Fprintln(files[b.ip], line)
	}
	return b
}

// command returns the iproute2 command for an object; %s is add or del.
func command(o netstate.Object) (tool, line string) {
	switch o := o.(type) {
	case netstate.Neigh:
		return "ip", fmt.Sprintf("neigh %%s %s lladdr %s dev %s nud permanent", o.IP, o.MAC, o.Link)
	case netstate.FDB:
		return "bridge", fmt.Sprintf("fdb %%s %s dev %s dst %s", o.MAC, o.Link, o.Dst)
	case netstate.Route:
		line := fmt.Sprintf("route %%s %s via %s dev %s proto %d", o.Dst, o.Via, o.Link, netstate.Mark)
		if o.OnLink {
			line += " onlink"
		}
		if o.Metric != 0 {
			line += fmt.Sprintf(" metric %d", o.Metric)
		}
		return "ip", line
	default:
		panic(fmt.Sprintf("no command for %s", o))
	}
}

// run runs batches with iproute2.
func (h *benchHost) run(b batches) {
	h.t.Helper()
	h.tool("bridge", "-force", "-batch", b.bridge)
	h.tool("ip", "-force", "-batch", b.ip)
}

// show lists the namespace's objects of the kinds that peers need, with iproute2.
func (h *benchHost) show() {
	h.t.Helper()
	h.tool("ip", "route", "show")
	if h.own.BackendType == "vxlan" {
		h.tool("ip", "neigh", "show")
		h.tool("bridge", "fdb", "show")
	}
}

// tool runs ip or bridge in the namespace, and discards the output.
func (h *benchHost) tool(name string, args ...string) {
	h.t.Helper()
	cmd := exec.Command(name, append([]string{"-n", h.ns.Name}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		h.t.Fatalf("%s: %v", cmd, err)
	}
}

// tap is the kernel as the loop sees it. With it, a benchmark loses events, and waits
// until the loop has reached a state.
type tap struct {
	*kernel.Kernel

	mu      sync.Mutex
	send    func(netstate.Event) // the present watch
	deaf    bool                 // events are lost
	until   netstate.Key         // the event that ends the wait of heard
	heard   chan struct{}
	set     netstate.Key // the object that ends the wait of healed
	healed  chan struct{}
	applied time.Time // when the last plan was applied
}

func (k *tap) Watch(ctx context.Context, to func(netstate.Event)) error {
	k.mu.Lock()
	k.send = to
	k.mu.Unlock()
	return k.Kernel.Watch(ctx, func(e netstate.Event) {
		k.mu.Lock()
		deaf := k.deaf
		if deaf && k.heard != nil && (e.Object == nil || e.Object.Key() == k.until) {
			close(k.heard)
			k.heard = nil
		}
		k.mu.Unlock()
		if !deaf {
			to(e)
		}
	})
}

func (k *tap) Apply(ctx context.Context, p netstate.Plan) error {
	err := k.Kernel.Apply(ctx, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.applied = time.Now()
	if k.healed == nil {
		return err
	}
	for _, op := range p {
		if op.Verb != netstate.Delete && op.Object.Key() == k.set {
			close(k.healed)
			k.healed = nil
			break
		}
	}
	return err
}

// deafen loses all events from now on. It returns a channel that is closed when the
// event of key until is lost.
func (k *tap) deafen(until netstate.Key) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deaf, k.until, k.heard = true, until, make(chan struct{})
	return k.heard
}

// overrun reports lost events to the loop, as the kernel does.
func (k *tap) overrun() {
	k.mu.Lock()
	k.deaf = false
	send := k.send
	k.mu.Unlock()
	send(netstate.Event{})
}

// await returns a channel that is closed when the loop has written the object with
// key.
func (k *tap) await(key netstate.Key) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set, k.healed = key, make(chan struct{})
	return k.healed
}

func (k *tap) lastApplied() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.applied
}
