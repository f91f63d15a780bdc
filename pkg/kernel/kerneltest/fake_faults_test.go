package kerneltest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	. "github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	. "github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

var errTest = errors.New("injected")

// watch runs f.Watch until the test ends. The returned function lists its events so
// far, each as "key", or "-key" for a removed object, and "lost". It is for use in a
// bubble.
func watch(t *testing.T, f *Fake) func() string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var events []string
	done := make(chan error)
	go func() {
		done <- f.Watch(ctx, func(e Event) {
			s := "lost"
			if e.Object != nil {
				s = e.Object.Key().String()
				if l, ok := e.Object.(Link); ok && !e.Gone {
					s += map[bool]string{true: " up", false: " down"}[l.Up]
				}
			}
			if e.Gone {
				s = "-" + s
			}
			events = append(events, s)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
	return func() string {
		synctest.Wait()
		all := strings.Join(events, ", ")
		events = nil
		return all
	}
}

// TestWatch checks which events each change causes.
func TestWatch(t *testing.T) {
	// less are the events of objects that depend on a link that goes down, in the
	// kernel's order.
	const less = "-neigh 10.1.2.0 dev tulle.1, -neigh fd00:2:: dev tulle.1"
	const down = "link tulle.1 down, " + less + ", -addr fd00::/128 dev tulle.1, -route fd00:2::/64"
	moved := link
	moved.MAC = MAC{9}
	tests := []struct {
		name   string
		before []Object
		act    func(t *testing.T, f *Fake)
		want   string
	}{
		{"a stranger's doings", all(), func(t *testing.T, f *Fake) {
			f.Delete(route.Key())
			f.Put(route)
			f.Put(route) // unchanged
			f.Put(Neigh{Link: "tulle.1", IP: neigh.IP, MAC: MAC{4}})
			f.Delete(fdb.Key())
			f.Put(Addr{Link: "eth0", Prefix: pfx("192.0.2.1/24")})
		}, "-route 10.1.2.0/24, route 10.1.2.0/24, neigh 10.1.2.0 dev tulle.1, -fdb 03:00:00:00:00:00 dev tulle.1, addr 192.0.2.1/24 dev eth0"},
		{"of ours only links and forwarding entries", nil, func(t *testing.T, f *Fake) {
			apply(t, f, creates(link, addr, neigh, fdb, route))
			apply(t, f, replaces(Neigh{Link: "tulle.1", IP: neigh.IP, MAC: MAC{4}}, FDB{Link: "tulle.1", MAC: fdb.MAC, Dst: ip("192.0.2.9")}))
			apply(t, f, deletes(route, FDB{Link: "tulle.1", MAC: fdb.MAC}, neigh, addr))
		}, "link tulle.1 down, link tulle.1 up, fdb 03:00:00:00:00:00 dev tulle.1, fdb 03:00:00:00:00:00 dev tulle.1, -fdb 03:00:00:00:00:00 dev tulle.1"},
		{"settings that the kernel announces", all(), func(t *testing.T, f *Fake) {
			f.Put(Sysctl{Path: setting.Path, Value: "0"})
			f.Put(Sysctl{Path: setting.Path, Value: "0"})
			f.Put(Sysctl{Path: "net/ipv4/conf/tulle.1/accept_local", Value: "1"})
			apply(t, f, replaces(Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "1"}))
			f.Put(TxChecksum("tulle.1", "on")) // unchanged
			f.Put(TxChecksum("tulle.1", "off"))
		}, "sysctl net/ipv4/conf/tulle.1/rp_filter, sysctl net/ipv4/conf/all/forwarding, sysctl ethtool/tulle.1/tx-checksum"},
		{"a link down keeps silent of IPv4 routes", all(), func(t *testing.T, f *Fake) { f.LinkDown("tulle.1") }, down},
		{"a link deleted", all(), func(t *testing.T, f *Fake) { f.DeleteLink("tulle.1") },
			"-fdb 03:00:00:00:00:00 dev tulle.1, " + down + ", -addr 10.1.0.0/32 dev tulle.1, -link tulle.1"},
		{"another MAC", all(), func(t *testing.T, f *Fake) { f.Put(moved) }, "link tulle.1 up, " + less},
		{"the last address", all(), func(t *testing.T, f *Fake) { f.Delete(addr.Key()) }, "-addr 10.1.0.0/32 dev tulle.1, -neigh 10.1.2.0 dev tulle.1"},
		{"muted", all(), func(t *testing.T, f *Fake) {
			f.Mute(true)
			f.LinkDown("tulle.1")
			f.LinkUp("tulle.1")
			f.DeleteLink("tulle.1")
		}, "link tulle.1 down, link tulle.1 up, link tulle.1 down, -link tulle.1"},
		{"events lost", all(), func(t *testing.T, f *Fake) {
			f.LoseEvents(2)
			f.Delete(route.Key())
			f.Delete(neigh.Key())
			f.Delete(fdb.Key())
		}, "-fdb 03:00:00:00:00:00 dev tulle.1"},
		{"an overrun", all(), func(t *testing.T, f *Fake) {
			f.Overrun(2)
			f.Delete(route.Key())
			f.Delete(neigh.Key())
			f.Delete(fdb.Key())
		}, "lost, -fdb 03:00:00:00:00:00 dev tulle.1"},
		{"events held", all(), func(t *testing.T, f *Fake) {
			release := f.HoldEvents()
			f.Delete(route.Key())
			synctest.Wait()
			f.Put(route)
			release()
			release()
		}, "-route 10.1.2.0/24, route 10.1.2.0/24"},
		{"events held for good", all(), func(t *testing.T, f *Fake) {
			f.HoldEvents()
			f.Delete(route.Key())
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := NewFake(test.before...)
				events := watch(t, f)
				if got := events(); got != "lost" {
					t.Errorf("it begins with %q", got)
				}
				test.act(t, f)
				if got := events(); got != test.want {
					t.Errorf("got:  %s\nwant: %s", got, test.want)
				}
				f.Heal()
			})
		})
	}
}

func TestFailWatch(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := NewFake(all()...)
		done := make(chan error)
		begin := func() { done <- f.Watch(t.Context(), func(Event) {}) }
		go begin()
		synctest.Wait()
		f.FailWatch(2, errTest)
		for range 3 {
			if err := <-done; !errors.Is(err, errTest) {
				t.Errorf("got %v", err)
			}
			go begin()
		}
		synctest.Wait()
		f.FailWatch(0, errTest)
		if err := <-done; !errors.Is(err, errTest) {
			t.Errorf("got %v", err)
		}
		if got := f.Counts().Watches; got != 4 {
			t.Errorf("counted %d watches", got)
		}
	})
}

// TestFail checks which ops fail, how many times, and with which error.
func TestFail(t *testing.T) {
	n := func(i byte) Neigh { return Neigh{Link: "tulle.1", IP: ip("10.1.2.0"), MAC: MAC{i}} }
	f := NewFake(all()...)
	f.Fail(2, Both(OfKind(KindNeigh), OfVerb(Replace)), syscall.ENOBUFS)
	for i, want := range []string{"", "neigh 10.1.2.0 dev tulle.1: no buffer space available", "neigh 10.1.2.0 dev tulle.1: no buffer space available", ""} {
		p := replaces(n(byte(i)), fdb)
		if i == 0 {
			p = creates(n(byte(i)), fdb)
		}
		if got := strings.Join(apply(t, f, p), "; "); got != want {
			t.Errorf("round %d: refused %q, want %q", i, got, want)
		}
		if f.Has(n(byte(i))) != (want == "") {
			t.Errorf("round %d: there is\n%s", i, f.Snapshot())
		}
	}
	undo := f.Fail(-1, OfKey(route.Key()), errTest)
	for range 10 {
		if got := apply(t, f, replaces(route, route6)); len(got) != 1 || got[0] != "route 10.1.2.0/24: injected" {
			t.Errorf("refused %q", got)
		}
	}
	undo()
	undo()
	if got := apply(t, f, replaces(route)); len(got) != 0 {
		t.Errorf("refused %q after undo was called", got)
	}
	f.Fail(-1, OfKind(KindRoute), errTest)
	f.Heal()
	if got := apply(t, f, replaces(route)); len(got) != 0 {
		t.Errorf("refused %q after all was healed", got)
	}
	if got := f.Counts().Ops[OpKind{Replace, KindRoute}]; got != 22 {
		t.Errorf("counted %d", got)
	}
}

func TestFailDumps(t *testing.T) {
	f := NewFake(all()...)
	f.FailDumps(2, errTest)
	for i := range 3 {
		got, err := f.Dump(context.Background(), Scope{})
		if i < 2 && (!errors.Is(err, errTest) || got != nil) || i == 2 && (err != nil || len(got) == 0) {
			t.Errorf("dump %d: %v, %v", i, got, err)
		}
	}
}

func TestAbortApply(t *testing.T) {
	f := NewFake(link)
	f.AbortApply(2, errTest)
	err := f.Apply(context.Background(), creates(addr, neigh, fdb, route))
	var failures Failures
	if !errors.Is(err, errTest) || errors.As(err, &failures) {
		t.Errorf("got %v", err)
	}
	check(t, f, link, addr, neigh)
	apply(t, f, creates(fdb))
	check(t, f, link, addr, neigh, fdb)
}

// TestVanish checks that a link disappears in the middle of an Apply.
func TestVanish(t *testing.T) {
	f := NewFake(link)
	f.Vanish(2, "tulle.1")
	got := strings.Join(apply(t, f, creates(addr, neigh, fdb, route)), "; ")
	if want := "fdb 03:00:00:00:00:00 dev tulle.1: no such device; route 10.1.2.0/24: no such device"; got != want {
		t.Errorf("refused %q, want %q", got, want)
	}
	check(t, f)
	apply(t, f, creates(link, addr))
	check(t, f, link, addr)
}

// TestBlock checks that a blocked Apply or Dump waits for its release or its context.
func TestBlock(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := NewFake(link)
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		start := func() {
			go func() { results <- f.Apply(ctx, creates(addr)) }()
			go func() {
				_, err := f.Dump(ctx, Scope{})
				results <- err
			}()
			synctest.Wait()
		}
		releaseApply, releaseDump := f.BlockApply(), f.BlockDump()
		start()
		if f.Has(addr) || len(results) != 0 {
			t.Errorf("not blocked: %v, %d results", f.Has(addr), len(results))
		}
		releaseApply()
		releaseDump()
		releaseDump()
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		f.BlockApply()
		f.BlockDump()
		start()
		cancel()
		for range 2 {
			if err := <-results; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestApplyCancelled checks that a context that ends in the middle of an Apply leaves
// the other steps undone.
func TestApplyCancelled(t *testing.T) {
	f := NewFake(link)
	ctx, cancel := context.WithCancel(context.Background())
	f.SetHooks(Hooks{AfterOp: func(op Op, _ error) {
		if op.Object == neigh {
			cancel()
		}
	}})
	err := f.Apply(ctx, creates(addr, neigh, fdb, route))
	var failures Failures
	if !errors.Is(err, context.Canceled) || !errors.As(err, &failures) || len(failures) != 2 {
		t.Errorf("got %v", err)
	}
	check(t, f, link, addr, neigh)
}

// TestHooks checks that a hook may call all methods of the Fake.
func TestHooks(t *testing.T) {
	f := NewFake(link)
	var calls []string
	note := func(s string) { calls = append(calls, fmt.Sprintf("%s with %d", s, f.Snapshot().Len())) }
	f.SetHooks(Hooks{
		BeforeDump:  func() { f.Put(addr); note("before dump") },
		AfterDump:   func() { f.Put(neigh); note("after dump") },
		BeforeApply: func(p Plan) { note(fmt.Sprintf("before apply of %d", len(p))) },
		AfterOp:     func(op Op, err error) { f.Delete(neigh.Key()); note(fmt.Sprintf("after %s: %v", op.Object.Key(), err)) },
		AfterApply:  func(p Plan, err error) { note(fmt.Sprintf("after apply of %d: %v", len(p), err)) },
	})
	got, _ := f.Dump(context.Background(), Scope{})
	if !Of(got...).Equal(Of(link, addr)) {
		t.Errorf("dumped %v", got)
	}
	apply(t, f, creates(fdb, Addr{Link: "x"}))
	want := []string{
		"before dump with 2", "after dump with 3", "before apply of 2 with 3",
		"after fdb 03:00:00:00:00:00 dev tulle.1: <nil> with 3", "after addr invalid Prefix dev x: no such device with 3",
		"after apply of 2: create addr invalid Prefix dev x: no such device with 3",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
	f.SetHooks(Hooks{})
}
