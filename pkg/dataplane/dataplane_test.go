package dataplane

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// holder is a Holder that records plans.
type holder struct {
	name     string
	log      *[]string
	has      []netstate.Object
	dump     error
	apply    error
	watch    chan error
	events   chan netstate.Event
	idle     chan struct{}
	commands bool
}

func (h *holder) Dump(context.Context, netstate.Scope) ([]netstate.Object, error) {
	return h.has, h.dump
}

func (h *holder) Apply(_ context.Context, p netstate.Plan) error {
	for _, op := range p {
		*h.log = append(*h.log, h.name+" "+op.String())
	}
	return h.apply
}

func (h *holder) Watch(ctx context.Context, to func(netstate.Event)) error {
	for {
		select {
		case e := <-h.events:
			to(e)
		case <-h.idle:
		case err := <-h.watch:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send makes the holder's Watch report an event, and waits until it has.
func (h *holder) send(e netstate.Event) {
	h.events <- e
	h.idle <- struct{}{}
}

func (h *holder) Holds(o netstate.Object) bool {
	_, is := o.(netstate.Command)
	return is == h.commands
}

func pair() (kernel, engine *holder, log *[]string) {
	log = new([]string)
	kernel = &holder{name: "kernel", log: log, watch: make(chan error), events: make(chan netstate.Event), idle: make(chan struct{})}
	engine = &holder{name: "engine", log: log, watch: make(chan error), events: make(chan netstate.Event), idle: make(chan struct{}), commands: true}
	return kernel, engine, log
}

var (
	tun     = netstate.Link{Name: "tulle.udp", MTU: 1472, Up: true}
	route   = netstate.Route{Dst: netip.MustParsePrefix("10.5.1.0/24"), Link: "tulle.udp"}
	command = netstate.Command{Name: "SubnetAddCommand", Subnet: route.Dst}
)

var errTest = errors.New("planted")

func TestPlanKeepsItsOrderAcrossHolders(t *testing.T) {
	kernel, engine, log := pair()
	plan := netstate.Plan{{Object: tun}, {Object: route}, {Object: command}, {Verb: netstate.Delete, Object: command}, {Verb: netstate.Delete, Object: route}}
	if err := New(kernel, engine).Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"kernel " + plan[0].String(), "kernel " + plan[1].String(),
		"engine " + plan[2].String(), "engine " + plan[3].String(), "kernel " + plan[4].String(),
	}
	if !slices.Equal(*log, want) {
		t.Errorf("applied %q, want %q", *log, want)
	}
}

func TestFailuresAreJoined(t *testing.T) {
	kernel, engine, log := pair()
	plan := netstate.Plan{{Object: route}, {Object: command}}
	kernel.apply = netstate.Failures{{Op: plan[0], Err: errTest}}
	engine.apply = netstate.Failures{{Op: plan[1], Err: errTest}}
	var failed netstate.Failures
	if err := New(kernel, engine).Apply(t.Context(), plan); !errors.As(err, &failed) || len(failed) != 2 {
		t.Errorf("two holders with a failure each: %v", err)
	}
	kernel.apply, *log = errTest, nil
	if err := New(kernel, engine).Apply(t.Context(), plan); !errors.Is(err, errTest) || errors.As(err, &failed) {
		t.Errorf("a holder of which nothing is known: %v", err)
	}
	if len(*log) != 1 {
		t.Errorf("the plan went on after an unknown state: %q", *log)
	}
}

func TestDumpIsWholeOrFails(t *testing.T) {
	kernel, engine, _ := pair()
	shown := tun
	shown.MTU = 9000
	kernel.has, engine.has = []netstate.Object{shown, route}, []netstate.Object{tun, command}
	got, err := New(kernel, engine).Dump(t.Context(), netstate.Scope{})
	if want := []netstate.Object{route, tun, command}; err != nil || !slices.Equal(got, want) {
		t.Errorf("dumped %v, %v; want %v", got, err, want)
	}
	for _, h := range []*holder{kernel, engine} {
		h.dump = errTest
		if got, err := New(kernel, engine).Dump(t.Context(), netstate.Scope{}); !errors.Is(err, errTest) || got != nil {
			t.Errorf("with %s unreadable: %v, %v", h.name, got, err)
		}
		h.dump = nil
	}
}

// TestDumpWithoutAPartHasTheRest: only one link's program does not answer.
func TestDumpWithoutAPartHasTheRest(t *testing.T) {
	kernel, engine, _ := pair()
	kernel.has, engine.has = []netstate.Object{tun, route}, []netstate.Object{command}
	kernel.dump = netstate.Unknown{}.With(tun.Name, errTest)
	got, err := New(kernel, engine).Dump(t.Context(), netstate.Scope{})
	if unknown, failed := netstate.UnknownOf(err); failed != nil || unknown[tun.Name] != errTest {
		t.Errorf("the dump ends with %v", err)
	}
	if want := []netstate.Object{tun, route, command}; !slices.Equal(got, want) {
		t.Errorf("dumped %v, want %v", got, want)
	}
	engine.dump = errTest
	if got, err := New(kernel, engine).Dump(t.Context(), netstate.Scope{}); got != nil || errors.As(err, new(netstate.Unknown)) {
		t.Errorf("with the engine unreadable: %v, %v", got, err)
	}
}

// watch runs a Watch of both, until one ends.
func watch(t *testing.T, kernel, engine *holder) (events chan netstate.Event, done chan error) {
	events, done = make(chan netstate.Event, 10), make(chan error, 1)
	go func() { done <- New(kernel, engine).Watch(t.Context(), func(e netstate.Event) { events <- e }) }()
	return events, done
}

func TestWatchEndsWithTheFirst(t *testing.T) {
	for _, ends := range []int{0, 1} {
		kernel, engine, _ := pair()
		_, done := watch(t, kernel, engine)
		kernel.send(netstate.Event{})
		engine.send(netstate.Event{})
		[]*holder{kernel, engine}[ends].watch <- errTest
		if err := <-done; !errors.Is(err, errTest) {
			t.Errorf("Watch ended with %v", err)
		}
	}
}

// TestWatchBeginsWithTheLast: what changes before all are watched is in the dump that
// follows the first event.
func TestWatchBeginsWithTheLast(t *testing.T) {
	for _, last := range []int{0, 1} {
		kernel, engine, _ := pair()
		holders := []*holder{kernel, engine}
		early, late := holders[1-last], holders[last]
		events, done := watch(t, kernel, engine)
		early.send(netstate.Event{})
		early.send(netstate.Event{Object: route, Gone: true})
		early.send(netstate.Event{}) // events were lost
		early.send(netstate.Event{Object: route})
		if len(events) > 0 {
			t.Fatalf("before %s is watched: %+v", late.name, <-events)
		}
		late.send(netstate.Event{})
		want := func(e netstate.Event) {
			t.Helper()
			if got := <-events; got != e {
				t.Errorf("with %s last, an event is %+v, want %+v", late.name, got, e)
			}
		}
		want(netstate.Event{})
		for _, h := range holders {
			for _, e := range []netstate.Event{{Object: tun}, {}} {
				h.send(e)
				want(e)
			}
		}
		early.watch <- errTest
		if err := <-done; !errors.Is(err, errTest) {
			t.Errorf("Watch ended with %v", err)
		}
	}
}
