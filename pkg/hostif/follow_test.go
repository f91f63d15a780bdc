package hostif

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

const (
	both = `
		link lo 65536 127.0.0.1/8 ::1/128
		link eth0 1500 192.0.2.7/24 2001:db8::7/64
		link eth1 9000 198.51.100.7/24
		link cni0 1450 10.5.34.1/24
		default eth0 100 via 192.0.2.1
		default eth0 1024 via fe80::1
		direct 192.0.2.0/24 eth0
		direct 198.51.100.0/24 eth1
		direct 10.5.34.0/24 cni0`
	bothCalls = `
		eth0 192.0.2.7 mtu 1500
		eth0 2001:db8::7 mtu 1500
		direct 192.0.2.0/24 eth0
		direct 198.51.100.0/24 eth1
		bridge cni0 [10.5.34.1/24]`
)

func bothSpec() Spec { return Spec{Networks: networks("46"), Bridges: []string{"docker0", "cni0"}} }

// started is follow after the first survey.
func started(t *testing.T, host, first string, spec Spec, test func(*lab)) {
	t.Helper()
	follow(t, host, spec, func(l *lab) {
		l.after(0, first)
		l.after(10 * settle) // the watch may have begun after the first survey, and called for another
		l.host.set(func(h *fakeHost) { h.surveys = 0 })
		log.Take()
		test(l)
	})
}

func link(name string, mtu int) netstate.Event {
	return netstate.Event{Object: netstate.Link{Name: name, MTU: mtu}}
}

func addr(link, prefix string) netstate.Event {
	return netstate.Event{Object: netstate.Addr{Link: link, Prefix: netip.MustParsePrefix(prefix)}}
}

func route(dst, via, link string) netstate.Event {
	r := netstate.Route{Dst: netip.MustParsePrefix(dst), Link: link, Protocol: netstate.ProtocolBoot}
	if via != "" {
		r.Via = netip.MustParseAddr(via)
	}
	return netstate.Event{Object: r}
}

func gone(e netstate.Event) netstate.Event {
	e.Gone = true
	return e
}

func TestFollowTellsOfChanges(t *testing.T) {
	swap := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(both) }
	changed := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(bothCalls) }
	for _, c := range []struct {
		name   string
		host   string
		events []netstate.Event
		want   string // "" if to is not called
		log    []string
	}{
		{"the address changed", swap("192.0.2.7", "192.0.2.8"), []netstate.Event{gone(addr("eth0", "192.0.2.7/24")), addr("eth0", "192.0.2.8/24")},
			changed("192.0.2.7", "192.0.2.8"), []string{"Chose the uplink"}},
		{"the MTU changed", swap("eth0 1500", "eth0 1400"), []netstate.Event{link("eth0", 1400)},
			changed("mtu 1500", "mtu 1400"), []string{"Chose the uplink", "Chose the uplink"}},
		{"the default route moved", swap("default eth0 100 via 192.0.2.1", "default eth1 100 via 198.51.100.1"), []netstate.Event{route("0.0.0.0/0", "198.51.100.1", "eth1")},
			changed("eth0 192.0.2.7 mtu 1500", "eth1 198.51.100.7 mtu 9000"), []string{"Chose the uplink"}},
		{"one more network on link", both + "\ndirect 203.0.113.0/24 eth1", []netstate.Event{route("203.0.113.0/24", "", "eth1")},
			changed("\t\tbridge", "direct 203.0.113.0/24 eth1\nbridge"), nil},
		{"a link with a network on it went", swap("link eth1 9000 198.51.100.7/24", "link eth1 9000", "direct 198.51.100.0/24 eth1", ""), []netstate.Event{gone(link("eth1", 9000))},
			changed("direct 198.51.100.0/24 eth1", ""), nil},
		{"the bridge has another address", swap("link cni0 1450 10.5.34.1/24", "link cni0 1450 10.5.35.1/24"), []netstate.Event{addr("cni0", "10.5.35.1/24")},
			changed("10.5.34.1", "10.5.35.1"), nil},
		{"the bridge lost its address", swap("link cni0 1450 10.5.34.1/24", "link cni0 1450"), []netstate.Event{gone(addr("cni0", "10.5.34.1/24"))},
			changed("10.5.34.1/24", ""), nil},
		{"the bridge is gone", swap("link cni0 1450 10.5.34.1/24", ""), []netstate.Event{gone(link("cni0", 1450))},
			changed("bridge cni0 [10.5.34.1/24]", ""), nil},
		{"another bridge came", both + "\nlink docker0 1450 172.17.0.1/16", []netstate.Event{link("docker0", 1450)},
			changed("bridge cni0", "bridge docker0 [172.17.0.1/16]\nbridge cni0"), nil},
		{"events were lost", swap("eth0 1500", "eth0 1400"), []netstate.Event{{}},
			changed("mtu 1500", "mtu 1400"), []string{"Chose the uplink", "Chose the uplink"}},
		{"nothing changed", both, []netstate.Event{addr("eth0", "192.0.2.7/24"), link("eth0", 1500), {}}, "", nil},
		{"nothing that is reported", both + "\nlink eth2 1500 203.0.113.7/24", []netstate.Event{addr("eth2", "203.0.113.7/24")}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			started(t, both, bothCalls, bothSpec(), func(l *lab) {
				l.become(c.host, c.events...)
				l.after(settle - 1)
				l.surveyed(0)
				if c.want == "" {
					l.after(1)
				} else {
					l.after(1, c.want)
				}
				l.after(time.Hour)
				l.surveyed(1)
				l.logged(c.log...)
			})
		})
	}
}

// TestFollowIgnores checks that what cannot matter causes no survey.
func TestFollowIgnores(t *testing.T) {
	spec := bothSpec()
	spec.CanReach = netip.MustParseAddr("203.0.113.9")
	const host = both + `
		link ppp0 1492
		link veth8 1450
		direct 203.0.114.0/24 ppp0
		direct 10.5.34.8/32 veth8
		reach eth0 192.0.2.7`
	changed := strings.ReplaceAll(bothCalls, "\t\tbridge", "direct 203.0.114.0/24 ppp0\nbridge")
	for _, c := range []struct {
		name  string
		event netstate.Event
		looks int
	}{
		{"a container's cable", link("veth7", 1450), 0},
		{"a container's cable that goes", gone(link("veth7", 1450)), 0},
		{"a cable with a route to its container", gone(link("veth8", 1450)), 0},
		{"an overlay address elsewhere", addr("veth7", "10.5.34.9/32"), 0},
		{"a bridge that stays absent", gone(link("docker0", 1450)), 0},
		{"the bridge as it is", link("cni0", 1450), 0},
		{"another link as it is", link("eth1", 9000), 0},
		{"the bridge's address as it is", addr("cni0", "10.5.34.1/24"), 0},
		{"a bridge address that was not", gone(addr("cni0", "10.5.99.1/24")), 0},
		{"a route to a peer", netstate.Event{Object: netstate.Route{Dst: netip.MustParsePrefix("10.5.35.0/24"), Link: "tulle.1"}}, 0},
		{"a route to a container", route("10.5.34.7/32", "", "veth7"), 0},
		{"a cable's own network", route("fe80::/64", "", "veth7"), 0},
		{"a route to far away", route("203.0.115.0/24", "192.0.2.1", "eth0"), 0},
		{"a neighbour", netstate.Event{Object: netstate.Neigh{Link: "eth0", IP: netip.MustParseAddr("192.0.2.1")}}, 0},
		{"a setting", netstate.Event{Object: netstate.Sysctl{Path: "net/ipv4/conf/eth0/rp_filter", Value: "0"}}, 0},

		{"the default route's link as it is: its cable, perhaps", link("eth0", 1500), 1},
		{"another link's MTU", link("eth1", 1500), 1},
		{"a link without an address that has a network on it", netstate.Event{Object: netstate.Link{Name: "ppp0", MTU: 1492, Up: true}}, 1},
		{"the uplink is gone", gone(link("eth0", 1500)), 1},
		{"a default route", gone(route("::/0", "fe80::1", "eth0")), 1},
		{"a part of a network on link by a router", route("192.0.2.128/25", "192.0.2.1", "eth0"), 1},
		{"the route to what must be reached", route("203.0.113.0/24", "192.0.2.1", "eth0"), 1},
		{"any other address", addr("veth7", "203.0.113.7/24"), 1},
		{"the bridge down", netstate.Event{Object: netstate.Link{Name: "cni0", MTU: 1450, Up: true}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			started(t, host, changed, spec, func(l *lab) {
				l.become(host, c.event)
				l.after(time.Hour)
				l.surveyed(c.looks)
			})
		})
	}
}

func TestFollowTakesABurstAtOnce(t *testing.T) {
	started(t, both, bothCalls, bothSpec(), func(l *lab) {
		for range 40 {
			l.become(both, gone(addr("eth0", "192.0.2.7/24")), addr("eth0", "192.0.2.7/24"), netstate.Event{})
			<-time.After(settle / 50)
		}
		l.after(time.Hour)
		l.surveyed(1)
		l.logged()
	})
}

// TestFollowWhileLooking checks an event that comes during a survey. The result
// decides what the event means, because it may be older than the event.
func TestFollowWhileLooking(t *testing.T) {
	many := make([]netstate.Event, mostWaiting+1)
	for i := range many {
		many[i] = link("veth7", i)
	}
	for _, c := range []struct {
		name   string
		events []netstate.Event
		looks  int
	}{
		{"nothing of interest", []netstate.Event{link("veth7", 1450), link("eth2", 1450), addr("cni0", "10.5.34.1/24")}, 1},
		{"the link that the look finds", []netstate.Event{link("eth2", 1499), link("veth7", 1450)}, 2},
		{"lost events", []netstate.Event{{}}, 2},
		{"too much", many, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			started(t, both, bothCalls, bothSpec(), func(l *lab) {
				l.host.set(func(h *fakeHost) {
					h.during = func() {
						for _, e := range c.events {
							h.events <- e
						}
						synctest.Wait()
					}
				})
				l.become(both+"\nlink eth2 1450 203.0.113.7/24", netstate.Event{})
				l.after(time.Hour)
				l.surveyed(c.looks)
			})
		})
	}
}

// TestFollowKeepsTheLast checks that a family that loses its uplink is reported once.
func TestFollowKeepsTheLast(t *testing.T) {
	without := strings.Replace(both, "default eth0 100 via 192.0.2.1", "", 1)
	started(t, both, bothCalls, bothSpec(), func(l *lab) {
		l.become(without, link("eth0", 1500))
		l.after(settle, bothCalls+"\nno IPv4")
		l.logged("Uplink lost; keeping the last one")

		l.become(without+"\nlink eth2 1500 203.0.113.7/24", addr("eth2", "203.0.113.7/24"))
		l.after(time.Hour)
		l.surveyed(2)
		l.logged()

		// Another change is reported with what is still missing.
		l.become(strings.ReplaceAll(without, "2001:db8::7", "2001:db8::8"), netstate.Event{})
		l.after(settle, strings.ReplaceAll(bothCalls, "2001:db8::7", "2001:db8::8")+"\nno IPv4")
		l.logged("Chose the uplink")

		l.become(strings.ReplaceAll(both, "2001:db8::7/64", ""), netstate.Event{})
		l.after(settle, strings.ReplaceAll(bothCalls, "2001:db8::7", "2001:db8::8")+"\nno IPv6")
		l.logged("Uplink usable again", "Uplink lost; keeping the last one")

		// A new reason is reported, but not logged.
		l.become(strings.ReplaceAll(strings.ReplaceAll(both, "2001:db8::7/64", ""), "default eth0 1024 via fe80::1", ""), netstate.Event{})
		l.after(settle, strings.ReplaceAll(bothCalls, "2001:db8::7", "2001:db8::8")+"\nno IPv6")
		l.logged()

		l.become(both, netstate.Event{})
		l.after(settle, bothCalls)
		l.logged("Chose the uplink")
	})
}

// TestFollowWaitsForAFamily checks that the other family is reported meanwhile.
func TestFollowWaitsForAFamily(t *testing.T) {
	started(t, "link lo 65536 127.0.0.1/8", "no IPv4\nno IPv6", bothSpec(), func(l *lab) {
		l.become("link eth0 1500 192.0.2.7/24\ndefault eth0 0 via 192.0.2.1", netstate.Event{})
		l.after(settle, "eth0 192.0.2.7 mtu 1500\nno IPv6")
		l.logged("Chose the uplink")
		l.become(both, netstate.Event{})
		l.after(settle, bothCalls)
		l.logged("Chose the uplink")
	})
}

func TestFollowLogsTheFirstLook(t *testing.T) {
	follow(t, plain, Spec{Networks: networks("46")}, func(l *lab) {
		l.after(time.Hour, "eth0 192.0.2.7 mtu 1500\neth0 2001:db8::7 mtu 1500")
		l.logged("Chose the uplink", "Chose the uplink")
	})
	follow(t, vagrant, Spec{Networks: networks("46")}, func(l *lab) {
		l.after(time.Hour, "eth0 10.0.2.15 mtu 1500\nno IPv6")
		l.logged("Chose the uplink", "No uplink; waiting for one")
	})
}

// TestFollowGoesOnFromTheLast checks that the last choice stays among equals: first
// that of an earlier run, then this run's own.
func TestFollowGoesOnFromTheLast(t *testing.T) {
	host := func(addrs string) string { return "link eth0 1500 " + addrs + "\ndefault eth0 1024 via fe80::1" }
	spec := Spec{Networks: networks("6"), Last: subnet.Pair[netip.Addr]{{}, netip.MustParseAddr("2001:db8::2")}}
	started(t, host("2001:db8::1/64 2001:db8::2/64"), "eth0 2001:db8::2 mtu 1500", spec, func(l *lab) {
		l.become(host("2001:db8::3/64 2001:db8::1/64"), netstate.Event{})
		l.after(settle, "eth0 2001:db8::3 mtu 1500")
		l.become(host("2001:db8::2/64 2001:db8::3/64"), netstate.Event{})
		l.after(settle)
	})
}

func TestFollowSurveyFails(t *testing.T) {
	started(t, both, bothCalls, bothSpec(), func(l *lab) {
		l.host.set(func(h *fakeHost) { h.err = errTest })
		l.become(strings.ReplaceAll(both, "eth0 1500", "eth0 1400"), netstate.Event{})
		l.after(settle + 5*again + again/2)
		l.surveyed(6)
		l.logged("Failed to survey the host's interfaces; retrying")
		l.host.set(func(h *fakeHost) { h.err = nil })
		l.after(again, strings.ReplaceAll(bothCalls, "mtu 1500", "mtu 1400"))
		l.after(time.Hour)
		l.surveyed(1)
		l.logged("Chose the uplink", "Chose the uplink", "Surveyed the host's interfaces again")
	})
}

func TestFollowSurveyFailsAtFirst(t *testing.T) {
	follow(t, both, bothSpec(), func(l *lab) {
		l.after(3*again - 1)
		l.host.set(func(h *fakeHost) { h.err = nil })
		l.after(1, bothCalls)
		l.after(time.Hour)
	}, func(h *fakeHost) { h.err = errTest })
}

func TestFollowWatchFails(t *testing.T) {
	changed := strings.ReplaceAll(both, "eth0 1500", "eth0 1400")
	changedTold := strings.ReplaceAll(bothCalls, "mtu 1500", "mtu 1400")
	started(t, both, bothCalls, bothSpec(), func(l *lab) {
		l.host.set(func(h *fakeHost) { h.watchErr = errTest })
		l.host.broken <- errTest
		l.become(changed) // unseen
		l.after(10*again - 1)
		l.surveyed(0)
		l.logged("Failed to watch the host's interfaces; retrying")
		l.host.set(func(h *fakeHost) { h.watchErr = nil })
		l.after(1+settle, changedTold)
		l.logged("Watching the host's interfaces again", "Chose the uplink", "Chose the uplink")
		l.become(both, link("eth0", 1500))
		l.after(settle, bothCalls)
	})
}

// TestFollowEnds checks that Follow ends at once, whatever it waits for.
func TestFollowEnds(t *testing.T) {
	started(t, both, bothCalls, bothSpec(), func(l *lab) {
		l.become(both, netstate.Event{})
		l.stop() // while it waits for a burst to end
		l.surveyed(0)
	})
	started(t, both, bothCalls, bothSpec(), func(l *lab) {
		l.host.set(func(h *fakeHost) { h.err = errTest })
		l.become(both, netstate.Event{})
		l.after(settle)
		l.host.set(func(h *fakeHost) { h.watchErr = errTest })
		l.host.broken <- errTest
		l.stop() // while both wait for a retry
		l.logged("Failed to survey the host's interfaces; retrying", "Failed to watch the host's interfaces; retrying")
	})
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := &fakeHost{events: make(chan netstate.Event), during: cancel}
		err := Follow(ctx, h, bothSpec(), func(Interfaces, error) { t.Error("a call after the end") })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
	if got := log.Take(); len(got) > 0 {
		t.Errorf("the end was logged: %q", got)
	}
}

func TestFollowRefusesSettings(t *testing.T) {
	err := Follow(t.Context(), nil, Spec{IfaceRegexes: []string{"eth["}}, nil)
	var refusal *SettingError
	if !errors.As(err, &refusal) || refusal.Setting != "uplink regex" {
		t.Errorf("got %v", err)
	}
}
