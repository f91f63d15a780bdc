package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestDriftIsRestoredByItsKeyAlone checks that one object of any kind that another
// program changes is restored by its key alone, at once. Only a changed route causes
// a resync: there may be a second one beside it.
func TestDriftIsRestoredByItsKeyAlone(t *testing.T) {
	otherRoute := route(1)
	otherRoute.Via = subnet(9).Addr()
	otherSetting := setting
	otherSetting.Value = "1"
	stray := peer(7)
	tests := []struct {
		name   string
		tamper func(*lab)
		want   string // ops
		healed []uint64
	}{
		{"setting", func(l *lab) { l.f.Put(otherSetting) },
			"replace sysctl net/ipv4/conf/tulle.1/rp_filter", []uint64{0, 1, 0, 0, 0, 0}},
		{"neighbour gone", func(l *lab) { l.f.Delete(neigh(1).Key()) },
			"create neigh 10.0.1.0 dev tulle.1", []uint64{0, 0, 0, 1, 0, 0}},
		{"neighbour changed", func(l *lab) { l.f.Put(netstate.Neigh{Link: "tulle.1", IP: neigh(1).IP, MAC: hw(9)}) },
			"replace neigh 10.0.1.0 dev tulle.1", []uint64{0, 0, 0, 1, 0, 0}},
		{"neighbour too much", func(l *lab) { l.f.Put(neigh(7)) },
			"delete neigh 10.0.7.0 dev tulle.1", []uint64{0, 0, 0, 1, 0, 0}},
		{"forwarding entry gone", func(l *lab) { l.f.Delete(fdb(1).Key()) },
			"create fdb 3a:00:00:00:00:01 dev tulle.1", []uint64{0, 0, 0, 0, 1, 0}},
		{"forwarding entry changed", func(l *lab) { l.f.Put(netstate.FDB{Link: "tulle.1", MAC: fdb(1).MAC, Dst: ip("198.51.100.1")}) },
			"replace fdb 3a:00:00:00:00:01 dev tulle.1", []uint64{0, 0, 0, 0, 1, 0}},
		{"forwarding entry too much", func(l *lab) { l.f.Put(fdb(7)) },
			"delete fdb 3a:00:00:00:00:07 dev tulle.1", []uint64{0, 0, 0, 0, 1, 0}},
		{"route gone", func(l *lab) { l.f.Delete(route(1).Key()) },
			"create route 10.0.1.0/24", []uint64{0, 0, 0, 0, 0, 1}},
		{"IPv6 route gone", func(l *lab) { l.f.Delete(route6(1).Key()) },
			"create route fd00:0:0:1::/64", []uint64{0, 0, 0, 0, 0, 1}},
		{"route changed", func(l *lab) { l.f.Put(otherRoute) },
			"replace route 10.0.1.0/24", []uint64{0, 0, 0, 0, 0, 1}},
		{"route of ours too much", func(l *lab) { l.f.Put(route(7)) },
			"delete route 10.0.7.0/24", []uint64{0, 0, 0, 0, 0, 1}},
		{"address too much", func(l *lab) { l.f.Put(netstate.Addr{Link: "tulle.1", Prefix: pfx("10.9.0.0/32")}) },
			"delete addr 10.9.0.0/32 dev tulle.1", []uint64{0, 0, 1, 0, 0, 0}},
		{"all of one peer", func(l *lab) {
			for _, o := range peer(1) {
				l.f.Delete(o.Key())
			}
		}, "create neigh 10.0.1.0 dev tulle.1, create fdb 3a:00:00:00:00:01 dev tulle.1, create route 10.0.1.0/24", []uint64{0, 0, 0, 1, 1, 1}},
		{"gone and back", func(l *lab) {
			l.f.Delete(route(1).Key())
			l.f.Put(route(1))
		}, "", []uint64{0, 0, 0, 0, 0, 0}},
		{"come and gone", func(l *lab) {
			for _, o := range stray {
				l.f.Put(o)
				l.f.Delete(o.Key())
			}
		}, "", []uint64{0, 0, 0, 0, 0, 0}},
		{"none of our business", func(l *lab) {
			l.f.Put(foreign(direct(8), 4))
			l.f.Put(netstate.Neigh{Link: "eth0", IP: ip("192.0.2.9"), MAC: hw(9)})
			l.f.Put(netstate.Sysctl{Path: "net/ipv4/conf/eth0/rp_filter", Value: "1"})
			l.f.Put(netstate.Link{Name: "eth1", Kind: "device", Up: true})
			l.f.Put(netstate.Addr{Link: "eth1", Prefix: pfx("198.51.100.1/24")})
			l.f.DeleteLink("eth1")
		}, "", []uint64{0, 0, 0, 0, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			running(t, append(host(), route6(1)), func(l *lab) {
				l.setPeers(1, 3)
				l.quiet()
				ops := l.ops()
				test.tamper(l)
				synctest.Wait()
				if s := l.r.Status(); s.InSync != (test.want == "") || s.Pending != strings.Count(test.want, ", ")+min(1, len(test.want)) {
					l.Errorf("right after it: %+v", s)
				}
				l.wait(2 * settle)
				if got := ops(); got != test.want {
					l.Errorf("did %q, want %q", got, test.want)
				}
				l.wait(time.Minute)
				dumps := uint64(strings.Count(test.want, "replace route")) // for what that may hide
				if got := l.f.Counts(); uint64(got.Dumps) != dumps {
					l.Errorf("%d dumps, not %d", got.Dumps, dumps)
				}
				l.synced()
				l.healed(test.healed...)
			})
		})
	}
}

// TestStrayStaysUntilAllOwnersAreKnown checks that unknown objects of ours stay
// before the list is complete, because an owner may want them.
func TestStrayStaysUntilAllOwnersAreKnown(t *testing.T) {
	run(t, kerneltest.NewFake(eth0), func(l *lab) {
		l.set("host", host()...)
		l.wait(time.Minute)
		for _, o := range peer(1) {
			l.f.Put(o)
		}
		l.wait(interval * 2)
		l.has(peer(1)...)
		l.complete()
		l.synced()
		l.hasNot(peer(1)...)
	})
}

// TestLinkComesBackWithAllOnIt checks changes of a link or of its addresses, which
// may cost more than their events say. Everything is back in less than 200 ms,
// whatever the events said.
func TestLinkComesBackWithAllOnIt(t *testing.T) {
	readdressed := link
	readdressed.MAC = hw(99)
	resized := link
	resized.MTU = 1300
	rebuilt := link
	rebuilt.VXLAN.VNI = 77
	tests := map[string]func(*kerneltest.Fake){
		"deleted":      func(f *kerneltest.Fake) { f.DeleteLink("tulle.1") },
		"down":         func(f *kerneltest.Fake) { f.LinkDown("tulle.1") },
		"down and up":  func(f *kerneltest.Fake) { f.LinkDown("tulle.1"); f.LinkUp("tulle.1") },
		"another MAC":  func(f *kerneltest.Fake) { f.Put(readdressed) },
		"MAC and back": func(f *kerneltest.Fake) { f.Put(readdressed); f.Put(link) },
		"another MTU":  func(f *kerneltest.Fake) { f.Put(resized) },
		"another VNI":  func(f *kerneltest.Fake) { f.Put(rebuilt) },
		"re-created":   func(f *kerneltest.Fake) { f.DeleteLink("tulle.1"); f.Put(link) },
		"a second one": func(f *kerneltest.Fake) {
			f.Put(netstate.Link{Name: "tulle.9", Kind: "vxlan", Up: true, VXLAN: netstate.VXLAN{VNI: 9, Port: 8472}})
		},
		"last address":     func(f *kerneltest.Fake) { f.Delete(addr.Key()) },
		"address and back": func(f *kerneltest.Fake) { f.Delete(addr.Key()); f.Put(addr) },
		"IPv6 address":     func(f *kerneltest.Fake) { f.Delete(addr6.Key()) },
		"others' address": func(f *kerneltest.Fake) {
			f.Delete(netstate.Addr{Link: "eth0", Prefix: pfx("192.0.2.1/24")}.Key())
		},
		"others' link down": func(f *kerneltest.Fake) { f.LinkDown("eth0"); f.LinkUp("eth0") },
	}
	for what, tamper := range tests {
		for _, mute := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mute %t", what, mute), func(t *testing.T) {
				running(t, append(host(), direct(500)), func(l *lab) {
					l.f.Put(netstate.Addr{Link: "eth0", Prefix: pfx("192.0.2.1/24")})
					l.r.Update(func(d *Desired) {
						for n := 1; n <= 50; n++ {
							d.Set(name(n), append(peer(n), route6(n)))
						}
					})
					l.quiet()
					l.f.Mute(mute)
					before := l.f.Snapshot()
					for range 4 {
						tamper(l.f)
						start := time.Now()
						l.wait(0) // the events are in
						l.synced()
						if took := time.Since(start); took > 150*time.Millisecond {
							l.Errorf("took %v", took)
						}
						if after := l.f.Snapshot(); what != "others' address" && !after.Equal(before) {
							l.Fatalf("there is\n%s\nthere was\n%s", after, before)
						}
						if lines := log.Take(); len(lines) > 1 || len(lines) == 1 && !strings.HasPrefix(lines[0], `"Restored`) {
							l.Errorf("logged %q", lines)
						}
						l.wait(time.Second)
					}
					if what == "deleted" || what == "down" {
						if got := l.r.Status().Healed[netstate.KindLink]; got != 4 {
							l.Errorf("healed %d links", got)
						}
					}
				})
			})
		}
	}
}

// TestRoutesReturnWithTheHostsLink checks that a host's link that disappears takes
// its routes with it, and gets them again when it is back. Until then they are
// reported.
func TestRoutesReturnWithTheHostsLink(t *testing.T) {
	running(t, []netstate.Object{direct(1), direct(2), netstate.Sysctl{Path: "net/ipv4/conf/eth0/accept_local", Value: "1"}}, func(l *lab) {
		l.f.DeleteLink("eth0")
		l.wait(time.Second)
		if got := l.failing(); !strings.Contains(got, "route 10.0.1.0/24 of \"host\": no such device") {
			l.Errorf("failing %q", got)
		}
		l.wait(time.Hour)
		l.f.Put(eth0)
		l.wait(100 * time.Millisecond)
		l.synced()
		l.f.LinkDown("eth0")
		l.wait(time.Second)
		if got := l.failing(); !strings.Contains(got, "route 10.0.1.0/24 of \"host\": network is down") {
			l.Errorf("failing %q", got)
		}
		l.f.LinkUp("eth0")
		l.wait(100 * time.Millisecond)
		l.synced()
	})
}

func TestLostEventsCauseAResync(t *testing.T) {
	wreck := func(l *lab) {
		l.f.Delete(route(1).Key())
		l.f.Delete(neigh(2).Key())
		l.f.Put(fdb(9))
		l.f.Put(netstate.Neigh{Link: "tulle.1", IP: neigh(3).IP, MAC: hw(9)})
	}
	t.Run("overrun", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 3)
			l.quiet()
			l.f.Overrun(4)
			wreck(l)
			l.wait(2 * settle)
			l.cost(1, 1, 4)
			l.synced()
			l.healed(0, 0, 0, 2, 1, 1)
		})
	})
	t.Run("silently", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 3)
			l.quiet()
			l.f.LoseEvents(4)
			wreck(l)
			l.wait(interval * 8 / 10)
			l.cost(0, 0, 0)
			l.wait(interval * 4 / 10)
			l.cost(1, 1, 4)
			l.synced()
			l.healed(0, 0, 0, 2, 1, 1)
		})
	})
	t.Run("with the watch", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 3)
			l.quiet()
			l.f.FailWatch(3, errTest)
			synctest.Wait()
			wreck(l)
			if s := l.r.Status(); !errors.Is(s.WatchError, errTest) {
				l.Errorf("watch error %v", s.WatchError)
			}
			l.wait(4*rewatch + 2*settle)
			l.cost(1, 1, 4)
			l.synced()
			l.healed(0, 0, 0, 2, 1, 1)
			if s := l.r.Status(); s.WatchError != nil {
				l.Errorf("watch error %v", s.WatchError)
			}
			lines := log.Take()
			if len(lines) != 3 || !strings.HasPrefix(lines[0], `"Lost the watch`) || lines[1] != `"Watching the kernel again"` {
				l.Errorf("logged %q", lines)
			}
		})
	})
	t.Run("a watch that ends by itself", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.FailWatch(0, nil)
			l.wait(time.Minute)
			l.f.Delete(addr.Key())
			l.wait(time.Second)
			l.has(addr)
		})
	})
}

// TestOwnChangesAreNoDrift checks that our own changes, whose events come late, count
// neither as drift nor as a fight, however fast the desired state changes meanwhile.
func TestOwnChangesAreNoDrift(t *testing.T) {
	running(t, host(), func(l *lab) {
		for round := range 20 {
			release := l.f.HoldEvents()
			for i := range 6 {
				entry := fdb(1)
				entry.Dst = number(198<<24, i)
				l.set(name(1), neigh(1), entry, route(1))
				synctest.Wait()
			}
			if round%2 == 0 {
				l.remove(name(1))
				synctest.Wait()
			}
			if round%4 == 0 {
				l.set(name(1), peer(1)...)
				synctest.Wait()
			}
			l.f.ResetCounts()
			release()
			l.wait(time.Second)
			l.cost(0, 0, 0)
			l.synced()
		}
		l.healed(0, 0, 0, 0, 0, 0)
		if lines := log.Take(); len(lines) > 0 {
			l.Errorf("logged %q", lines)
		}
	})
}

// TestBurstIsRestoredTogether deletes a device with ten thousand entries, each with
// an event of its own, most of them before the device's.
func TestBurstIsRestoredTogether(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.setPeers(1, 900)
		l.quiet()
		l.f.DeleteLink("tulle.1")
		l.wait(0)
		l.synced()
		c := l.f.Counts()
		if c.Dumps > 3 || c.Steps() > len(host())+3*900 {
			l.Errorf("%d dumps, %d steps", c.Dumps, c.Steps())
		}
		l.healed(1, 1, 2, 900, 900, 900)
	})
}

// TestChangeAtAnyMomentIsRestored checks that a change at any moment of a pass is
// restored after it, without waiting for the next periodic resync.
func TestChangeAtAnyMomentIsRestored(t *testing.T) {
	changed := func(l *lab) { l.f.Put(netstate.Neigh{Link: "tulle.1", IP: neigh(1).IP, MAC: hw(99)}) }
	tampers := map[string]func(*lab){
		"delete route":   func(l *lab) { l.f.Delete(route(1).Key()) },
		"delete fdb":     func(l *lab) { l.f.Delete(fdb(1).Key()) },
		"change neigh":   changed,
		"stray":          func(l *lab) { l.f.Put(neigh(77)) },
		"link down":      func(l *lab) { l.f.LinkDown("tulle.1") },
		"link deleted":   func(l *lab) { l.f.DeleteLink("tulle.1") },
		"address":        func(l *lab) { l.f.Delete(addr.Key()) },
		"overrun":        func(l *lab) { l.f.Overrun(1); changed(l) },
		"update":         func(l *lab) { l.set(name(1), neigh(1), fdb(1), direct(1)); l.setPeers(5, 5) },
		"link changed":   func(l *lab) { o := link; o.MTU = 1300; l.set("host", o, setting, forward, addr, addr6) },
		"link rebuilt":   func(l *lab) { o := link; o.VXLAN.VNI = 9; l.set("host", o, setting, forward, addr, addr6) },
		"peer removed":   func(l *lab) { l.remove(name(1)); l.f.Delete(route(2).Key()) },
		"peer come back": func(l *lab) { l.remove(name(1)); l.setPeers(1, 1) },
	}
	moments := map[string]func(func()) kerneltest.Hooks{
		"before dump":  func(f func()) kerneltest.Hooks { return kerneltest.Hooks{BeforeDump: f} },
		"after dump":   func(f func()) kerneltest.Hooks { return kerneltest.Hooks{AfterDump: f} },
		"before apply": func(f func()) kerneltest.Hooks { return kerneltest.Hooks{BeforeApply: func(netstate.Plan) { f() }} },
		"in apply":     func(f func()) kerneltest.Hooks { return kerneltest.Hooks{AfterOp: func(netstate.Op, error) { f() }} },
		"after apply": func(f func()) kerneltest.Hooks {
			return kerneltest.Hooks{AfterApply: func(netstate.Plan, error) { f() }}
		},
	}
	starts := map[string]func(*lab){
		"update":  func(l *lab) { l.setPeers(3, 4) },
		"drift":   func(l *lab) { l.f.Delete(route(1).Key()); l.f.Delete(fdb(2).Key()) },
		"resync":  func(l *lab) { l.f.Overrun(2); l.f.Delete(route(1).Key()); l.f.Delete(fdb(2).Key()) },
		"link":    func(l *lab) { l.f.DeleteLink("tulle.1") },
		"failing": func(l *lab) { l.f.Fail(2, kerneltest.OfKey(route(1).Key()), errTest); l.f.Delete(route(1).Key()) },
	}
	for what, tamper := range tampers {
		for when, hook := range moments {
			for from, start := range starts {
				for _, late := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s of %s, events late %t", what, when, from, late), func(t *testing.T) {
						running(t, host(), func(l *lab) {
							l.setPeers(1, 2)
							l.quiet()
							did := false
							l.f.SetHooks(hook(func() {
								if did {
									return
								}
								did = true
								if late {
									release := l.f.HoldEvents()
									time.AfterFunc(time.Millisecond, release)
								}
								tamper(l)
								if !late {
									synctest.Wait() // the events are in
								}
							}))
							start(l)
							l.wait(5 * time.Second)
							l.synced()
						})
					})
				}
			}
		}
	}
}
