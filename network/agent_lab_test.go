package network

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/storetest"
)

// life is an agent on a fake host, with a store in memory and fake files.
type life struct {
	t        *testing.T
	store    *gate
	host     *fakeHost
	files    *fakeFiles
	firewall *fakeFirewall
	backends map[string]backend.Factory
	log      *logtest.Log
	out      Outputs
	agent    *Agent
	stop     func()

	hints   func(context.Context, func(hostif.Spec))
	changed func() // called at every change of the status
	node    string // the node's ID
	// identity is the node's identity, if it is saved; elsewhere is Options.Lives.
	identity  *identity.Identity
	elsewhere func(context.Context, subnet.Lease) bool
	leaseEnds func() time.Time
	prober    *probe.Prober
	trim      func()
	keys      Keys
	prepare   func(command string, limit time.Duration) (string, error)
}

// newLife returns a host at 198.18.0.1 that has not started yet.
func newLife(t *testing.T, config string) *life {
	t.Helper()
	return &life{
		t: t, store: &gate{Memory: storetest.NewMemory(config)}, host: newFakeHost(), files: &fakeFiles{}, log: logtest.Capture(t, 0),
		firewall: &fakeFirewall{},
		backends: factories,
		node:     "machine-1",
		out:      Outputs{SubnetFile: "/nowhere/subnet.env", CNIConfFile: "/nowhere/cni", Network: "/test"},
	}
}

// start runs the agent until the test ends or stop is called.
func (l *life) start() {
	l.t.Helper()
	node := subnet.Node{ID: l.node, Name: "one"}
	if l.identity != nil {
		node = l.identity.Node()
	}
	l.agent = New(Options{
		Store: l.store, Kernel: l.host, Healing: budget.New().Kernel(), Backends: l.backends, Files: l.files, Outputs: l.out,
		Firewall: l.firewall, Rules: firewall.Rules{Forward: true},
		Node: node, Identity: l.identity, Lives: l.elsewhere, LeaseEnds: l.leaseEnds, Changed: l.changed, Hints: l.hints, Prober: l.prober, Trim: l.trim, Keys: l.keys, Prepare: l.prepare,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.agent.Run(ctx) }()
	l.stop = func() { cancel(); <-ended; l.stop = nil }
	l.t.Cleanup(func() { // before the directories that it has are removed
		if l.stop != nil {
			l.stop()
		}
	})
}

// view returns a View, also after the node's end.
func (l *life) view() View { return l.agent.View(context.Background()) }

// soon lets a second pass.
func (l *life) soon() { l.after(time.Second) }

func (l *life) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// peer writes the lease of another node to the store, at 198.18.0.x with the subnet
// 10.5.x.0/24.
func (l *life) peer(x byte) subnet.Lease {
	l.t.Helper()
	p := fakePeer(l.t, fmt.Sprintf("10.5.%d.0-24", x), fmt.Sprintf("198.18.0.%d", x), fmt.Sprintf("3a:00:00:00:00:%02x", x), 0)
	p.Node.ID = fmt.Sprintf("machine-%d", x)
	p.Expires = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	return l.store.Put(p)
}

// own returns the node's lease in the store.
func (l *life) own() subnet.Lease {
	l.t.Helper()
	for _, lease := range l.store.Leases() {
		if lease.Node.ID == l.node {
			return lease
		}
	}
	l.t.Fatalf("the node has no lease; %s", l.view().Line())
	return subnet.Lease{}
}

// runOnce runs the node for a minute, with a folder for its state. It returns the node's lease.
func (l *life) runOnce() subnet.Lease {
	l.t.Helper()
	l.out.StateDir = l.t.TempDir()
	l.start()
	l.after(time.Minute)
	own := l.own()
	l.stop()
	return own
}

func (l *life) wantReady(want bool, missing ...string) {
	l.t.Helper()
	v := l.view()
	if got := v.Checks().Ready(); got != want {
		l.t.Errorf("ready is %t: %s", got, v.Line())
	}
	for _, m := range missing {
		if !strings.Contains(v.Line(), m) {
			l.t.Errorf("the line %q does not contain %q", v.Line(), m)
		}
	}
}

func (l *life) wantFile(path, part string) {
	l.t.Helper()
	if got := l.files.content(path); !strings.Contains(got, part) {
		l.t.Errorf("%s holds %q, which lacks %q", path, got, part)
	}
}

// wantRoute checks whether the kernel has a route to dst.
func (l *life) wantRoute(dst string, want bool) {
	l.t.Helper()
	if got := l.host.hasRoute(dst); got != want {
		l.t.Errorf("a route to %s is there: %t; the kernel holds\n%s", dst, got, l.host.Snapshot())
	}
}

// gate is a store that can be down.
type gate struct {
	*storetest.Memory
	mu   sync.Mutex
	open chan struct{} // nil while the store works

	ends    bool          // Watch ends after its first update
	offered chan struct{} // delays the answer to a lease with an offer until it is closed, if it is not nil
	delayed chan struct{} // delays leases and changed configs until it is closed, if it is not nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) comeBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = nil
}

func (g *gate) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		select {
		case <-open:
		case <-ctx.Done():
			return subnet.Config{}, ctx.Err()
		}
	}
	if known != (subnet.Config{}) {
		g.delay(ctx)
	}
	return g.Memory.Config(ctx, known)
}

func (g *gate) Acquire(ctx context.Context, claim subnet.Claim) (subnet.Lease, error) {
	g.delay(ctx)
	l, err := g.Memory.Acquire(ctx, claim)
	if g.offered != nil && strings.Contains(claim.Attrs.Move, "Offers") {
		select {
		case <-g.offered:
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
	return l, err
}

func (g *gate) Watch(ctx context.Context, to func(subnet.Update)) error {
	if !g.ends {
		return g.Memory.Watch(ctx, to)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return g.Memory.Watch(ctx, func(u subnet.Update) {
		to(u)
		cancel()
	})
}

func (g *gate) delay(ctx context.Context) {
	if g.delayed != nil {
		select {
		case <-g.delayed:
		case <-ctx.Done():
		}
	}
}

// fakeHost is a fake kernel whose interfaces can change.
type fakeHost struct {
	*kerneltest.Fake
	mu      sync.Mutex
	survey  netstate.Survey
	changed chan struct{} // closed, and replaced, when survey changes
}

func newFakeHost() *fakeHost {
	h := &fakeHost{Fake: onEth0(), changed: make(chan struct{})}
	h.survey = netstate.Survey{
		Links: []netstate.HostLink{{
			Link:  netstate.Link{Name: "eth0", Kind: "device", MTU: 1500, Up: true},
			Addrs: []netstate.HostAddr{{Prefix: netip.MustParsePrefix("198.18.0.1/16")}},
		}},
		OnLink: []netstate.Route{{Dst: netip.MustParsePrefix("198.18.0.0/16"), Link: "eth0", Protocol: 2}},
		Defaults: []netstate.DefaultRoute{{
			Route: netstate.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Link: "eth0", Via: netip.MustParseAddr("198.18.255.254"), Protocol: 3},
		}},
	}
	return h
}

// change changes the host's interfaces, and sends an event.
func (h *fakeHost) change(f func(*netstate.Survey)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.survey)
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *fakeHost) Survey(context.Context) (netstate.Survey, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.survey
	s.Links = append([]netstate.HostLink(nil), s.Links...)
	return s, nil
}

func (h *fakeHost) RouteTo(context.Context, netip.Addr) (netstate.Path, error) {
	return netstate.Path{}, nil
}

// WatchHost sends the fake kernel's events about objects, and an event after each change
// of the survey.
func (h *fakeHost) WatchHost(ctx context.Context, to func(netstate.Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	one := func(e netstate.Event) {
		mu.Lock()
		defer mu.Unlock()
		to(e)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for {
			h.mu.Lock()
			changed := h.changed
			h.mu.Unlock()
			select {
			case <-changed:
				one(netstate.Event{})
			case <-ctx.Done():
				return
			}
		}
	})
	err := h.Fake.Watch(ctx, one)
	cancel()
	return err
}

func (h *fakeHost) hasRoute(dst string) bool {
	for o := range h.Snapshot().All() {
		if r, ok := o.(netstate.Route); ok && r.Dst == netip.MustParsePrefix(dst) {
			return true
		}
	}
	return false
}

func (h *fakeHost) device() netstate.Link {
	o, _ := h.Snapshot().Get(netstate.Link{Name: "tulle.1"}.Key())
	l, _ := o.(netstate.Link)
	return l
}

var _ hostif.Source = (*fakeHost)(nil)

// fakeFirewall is a firewall without foreign changes.
type fakeFirewall struct {
	mu   sync.Mutex
	want firewall.Rules
	err  error
	slow bool // nothing is written
}

// set makes it fail, or slow.
func (f *fakeFirewall) set(err error, slow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.slow = err, slow
}

func (f *fakeFirewall) Want(r firewall.Rules) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want = r
}

func (f *fakeFirewall) wants() firewall.Rules {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.want
}

func (f *fakeFirewall) Status() firewall.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return firewall.Status{Tried: f.want.Networks != subnet.Pair[netip.Prefix]{} && !f.slow, Err: f.err}
}

func (f *fakeFirewall) Await(context.Context) error { return nil }

func (f *fakeFirewall) Dropped(context.Context) (uint64, bool) { return 0, false }

func (f *fakeFirewall) Run(ctx context.Context) { <-ctx.Done() }

// fakeFiles are files without foreign changes.
type fakeFiles struct {
	mu     sync.Mutex
	now    map[string]string
	writes int
	full   error         // the error of every write
	stuck  chan struct{} // writes wait until it is closed, if it is not nil
}

func (f *fakeFiles) Set(path string, content []byte, _ fs.FileMode) error {
	if f.stuck != nil {
		<-f.stuck
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now = make(map[string]string)
	}
	if f.full == nil && f.now[path] != string(content) {
		f.now[path] = string(content)
		f.writes++
	}
	return f.full
}

func (f *fakeFiles) Failing() map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full == nil {
		return nil
	}
	return map[string]error{"/nowhere/subnet.env": f.full}
}

func (f *fakeFiles) Fights() map[string]budget.Fight { return nil }

func (f *fakeFiles) Run(ctx context.Context) { <-ctx.Done() }

func (f *fakeFiles) content(path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now[path]
}

func (f *fakeFiles) all() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.now)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
