package links

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// fakeKernel is a Fake that shows nothing of what an engine knows.
type fakeKernel struct {
	*kerneltest.Fake
	Kernel
}

func (k fakeKernel) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	return k.Fake.Dump(ctx, scope)
}

func (k fakeKernel) Apply(ctx context.Context, p netstate.Plan) error {
	p = slices.Clone(p)
	for i, op := range p {
		if l, ok := op.Object.(netstate.Link); ok {
			l.UDP = netstate.UDP{}
			p[i].Object = l
		}
	}
	return k.Fake.Apply(ctx, p)
}

func (k fakeKernel) Watch(ctx context.Context, to func(netstate.Event)) error {
	return k.Fake.Watch(ctx, to)
}

// fakeEngine records what it is asked for.
type fakeEngine struct {
	mu     sync.Mutex
	open   map[string]netstate.UDP
	peers  *netstate.State
	calls  []string
	refuse error
	mute   error
	stop   func(string)
}

func (e *fakeEngine) Serves(o netstate.Object) bool {
	l, isLink := o.(netstate.Link)
	_, isPeer := o.(netstate.UDPPeer)
	return isPeer || isLink && l.Kind == netstate.TunnelUDP
}

func (e *fakeEngine) Open(_ context.Context, l netstate.Link) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, "open "+l.Name)
	if e.refuse == nil {
		e.open[l.Name] = l.UDP
	}
	return e.refuse
}

func (e *fakeEngine) Close(link string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, served := e.open[link]; served {
		e.calls = append(e.calls, "close "+link)
	}
	delete(e.open, link)
}

func (e *fakeEngine) Prune(has func(string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for link := range e.open {
		if !has(link) {
			e.calls = append(e.calls, "prune "+link)
			delete(e.open, link)
		}
	}
}

func (e *fakeEngine) Apply(_ context.Context, p netstate.Plan) (failed netstate.Failures) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, op := range p {
		e.calls = append(e.calls, op.Verb.String()+" "+op.Object.Key().String())
		switch {
		case e.refuse != nil:
			failed = append(failed, &netstate.OpError{Op: op, Err: e.refuse})
		case op.Verb == netstate.Delete:
			e.peers.Delete(op.Object.Key())
		default:
			e.peers.Put(op.Object)
		}
	}
	return failed
}

func (e *fakeEngine) Show(l netstate.Link) netstate.Link {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.UDP = e.open[l.Name]
	return l
}

func (e *fakeEngine) Dump(_ context.Context, l netstate.Link) (netstate.Link, []netstate.Object, error) {
	l = e.Show(l)
	e.mu.Lock()
	defer e.mu.Unlock()
	return l, e.peers.Sorted(), e.mute
}

func (e *fakeEngine) OnStop(f func(string)) { e.stop = f }

var (
	link = netstate.Link{
		Name: "tulle.udp", Kind: netstate.TunnelUDP, MTU: 1472, Group: netstate.Mark, Up: true,
		UDP: netstate.UDP{Local: netip.MustParseAddrPort("192.0.2.1:8285"), Network: netip.MustParsePrefix("10.5.0.0/16")},
	}
	addr  = netstate.Addr{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.1.0/32")}
	peer  = netstate.UDPPeer{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.2.0/24"), Endpoint: netip.MustParseAddrPort("192.0.2.2:8285")}
	route = netstate.Route{Dst: peer.Prefix, Link: link.Name}
	other = netstate.Link{Name: "tulle.ipip", Kind: netstate.TunnelIPIP, MTU: 1480, Group: netstate.Mark, Up: true}
)

func newPlane() (*Plane, fakeKernel, *fakeEngine) {
	k := fakeKernel{Fake: kerneltest.NewFake()}
	e := &fakeEngine{open: make(map[string]netstate.UDP), peers: &netstate.State{}}
	return New(k, e), k, e
}

func plan(t *testing.T, p *Plane, desired *netstate.State) netstate.Plan {
	t.Helper()
	has, err := p.Dump(t.Context(), netstate.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	return netstate.Diff(desired, has)
}

// TestEachGetsItsOwn brings both to what is wanted, and back to nothing.
func TestEachGetsItsOwn(t *testing.T) {
	p, k, e := newPlane()
	want := netstate.Of(link, other, addr, peer, route)
	if err := p.Apply(t.Context(), plan(t, p, want)); err != nil {
		t.Fatal(err)
	}
	if left := plan(t, p, want); len(left) > 0 {
		t.Errorf("still to do:\n%s", left)
	}
	if !k.Has(route) || k.Has(peer) || !k.Has(addr) || !k.Has(other) {
		t.Errorf("the kernel has\n%s", k.Snapshot())
	}
	if got := []string{"open tulle.udp", "create " + peer.Key().String()}; !slices.Equal(e.calls, got) {
		t.Errorf("the engine did %q, not %q", e.calls, got)
	}
	e.calls = nil
	if err := p.Apply(t.Context(), plan(t, p, netstate.Of(other))); err != nil {
		t.Fatal(err)
	}
	if left := plan(t, p, netstate.Of(other)); len(left) > 0 || len(e.calls) == 0 || e.calls[len(e.calls)-1] != "close tulle.udp" {
		t.Errorf("the engine did %q, and still to do is\n%s", e.calls, left)
	}
}

// TestLinkOfAnotherKindIsFree makes a link of the kernel's of one that the engine serves.
func TestLinkOfAnotherKindIsFree(t *testing.T) {
	p, k, e := newPlane()
	if err := p.Apply(t.Context(), plan(t, p, netstate.Of(link))); err != nil {
		t.Fatal(err)
	}
	became := other
	became.Name = link.Name
	k.SetHooks(kerneltest.Hooks{BeforeApply: func(netstate.Plan) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.open) > 0 {
			t.Error("the engine still serves the link when the kernel changes it")
		}
	}})
	if err := p.Apply(t.Context(), plan(t, p, netstate.Of(became))); err != nil {
		t.Fatal(err)
	}
	if !k.Has(became) || len(e.open) > 0 {
		t.Errorf("the kernel has\n%s, and the engine %v", k.Snapshot(), e.open)
	}
}

// TestEngineLetsGoOfALostDevice: also if nothing wants the link any more.
func TestEngineLetsGoOfALostDevice(t *testing.T) {
	p, k, e := newPlane()
	if err := p.Apply(t.Context(), plan(t, p, netstate.Of(link, other, peer))); err != nil {
		t.Fatal(err)
	}
	k.DeleteLink(link.Name)
	e.calls = nil
	if left := plan(t, p, netstate.Of(other)); len(left) > 0 || !slices.Equal(e.calls, []string{"prune tulle.udp"}) {
		t.Errorf("the engine did %q, and to do is\n%s", e.calls, left)
	}
}

// TestFailuresOfBothAreReported: no step of one keeps those of the other from being done.
func TestFailuresOfBothAreReported(t *testing.T) {
	p, k, e := newPlane()
	e.refuse = errors.New("no")
	k.Fail(-1, kerneltest.OfKind(netstate.KindAddr), errors.New("nor I"))
	want := netstate.Of(link, addr, peer, route)
	var failed netstate.Failures
	if err := p.Apply(t.Context(), plan(t, p, want)); !errors.As(err, &failed) || len(failed) != 3 {
		t.Fatalf("it ends with %v", err)
	}
	for i, o := range []netstate.Object{link, addr, peer} {
		if failed[i].Op.Object != o {
			t.Errorf("failure %d is of %s", i, failed[i].Op)
		}
	}
	if !k.Has(route) {
		t.Error("the route is missing")
	}
	// A device without its engine is the link to replace.
	if left := plan(t, p, want); len(left) != 3 || left[0].Verb != netstate.Replace || left[0].Object != link {
		t.Errorf("to do is\n%s", left)
	}
	k.AbortApply(0, errors.New("nothing is known"))
	if err := p.Apply(t.Context(), plan(t, p, want)); errors.As(err, &failed) {
		t.Errorf("an unknown outcome is %v", err)
	}
}

// TestDumpHasWhatIsKnown: an engine that does not know its part keeps nothing else back.
func TestDumpHasWhatIsKnown(t *testing.T) {
	p, _, e := newPlane()
	if err := p.Apply(t.Context(), plan(t, p, netstate.Of(link, other, addr, peer, route))); err != nil {
		t.Fatal(err)
	}
	e.mute = errors.New("no answer")
	bare := link
	bare.UDP = netstate.UDP{}
	e.open[link.Name] = netstate.UDP{}
	has, err := p.Dump(t.Context(), netstate.Scope{})
	if unknown, failed := netstate.UnknownOf(err); failed != nil || len(unknown) != 1 || !errors.Is(unknown[link.Name], e.mute) {
		t.Errorf("the dump ends with %v", err)
	}
	if want := netstate.Of(bare, other, addr, route); len(netstate.Diff(want, has)) > 0 {
		t.Errorf("it has %v", has)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Dump(ctx, netstate.Scope{}); !errors.Is(err, context.Canceled) || errors.As(err, new(netstate.Unknown)) {
		t.Errorf("a dump that was given up ends with %v", err)
	}
}

// TestEventsShowWhatTheEngineKnows: also that it stopped by itself.
func TestEventsShowWhatTheEngineKnows(t *testing.T) {
	p, k, e := newPlane()
	if err := p.Apply(t.Context(), plan(t, p, netstate.Of(link))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan netstate.Event, 100), make(chan error)
	go func() { ended <- p.Watch(ctx, func(event netstate.Event) { events <- event }) }()
	if first := <-events; first.Object != nil {
		t.Fatalf("the first event is %+v", first)
	}
	bare := link
	bare.UDP, bare.MTU = netstate.UDP{}, 1400
	if err := k.Put(bare); err != nil {
		t.Fatal(err)
	}
	want := link
	want.MTU = 1400
	if got := <-events; got.Object != want {
		t.Errorf("the event is of %v, not %v", got.Object, want)
	}
	e.stop(link.Name)
	if got := <-events; got.Object != (netstate.Link{Name: link.Name}) || got.Gone {
		t.Errorf("the event is %+v", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	e.stop(link.Name) // no Watch runs
}
