package kerneltest_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	. "github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/reconcile"
)

var _ reconcile.Kernel = (*Fake)(nil)

var (
	ip  = netip.MustParseAddr
	pfx = netip.MustParsePrefix

	link    = Link{Name: "tulle.1", Kind: "vxlan", MAC: MAC{2}, MTU: 1450, Up: true, VXLAN: VXLAN{VNI: 1, Port: 8472}}
	eth0    = Link{Name: "eth0", Kind: "device", MTU: 1500, Up: true}
	addr    = Addr{Link: "tulle.1", Prefix: pfx("10.1.0.0/32")}
	addr6   = Addr{Link: "tulle.1", Prefix: pfx("fd00::/128")}
	neigh   = Neigh{Link: "tulle.1", IP: ip("10.1.2.0"), MAC: MAC{3}}
	neigh6  = Neigh{Link: "tulle.1", IP: ip("fd00:2::"), MAC: MAC{3}}
	fdb     = FDB{Link: "tulle.1", MAC: MAC{3}, Dst: ip("192.0.2.2")}
	route   = Route{Dst: pfx("10.1.2.0/24"), Via: ip("10.1.2.0"), Link: "tulle.1", OnLink: true}
	route6  = Route{Dst: pfx("fd00:2::/64"), Via: ip("fd00:2::"), Link: "tulle.1", OnLink: true}
	setting = Sysctl{Path: "net/ipv4/conf/tulle.1/rp_filter", Value: "2"}
	direct  = Route{Dst: pfx("10.1.3.0/24"), Via: ip("192.0.2.3"), Link: "eth0"}
)

func all() []Object {
	return []Object{link, setting, addr, addr6, neigh, neigh6, fdb, route, route6, eth0, direct}
}

func creates(objects ...Object) (p Plan) {
	for _, o := range objects {
		p = append(p, Op{Verb: Create, Object: o})
	}
	return p
}

func replaces(objects ...Object) (p Plan) {
	for _, o := range objects {
		p = append(p, Op{Verb: Replace, Object: o})
	}
	return p
}

func deletes(objects ...Object) (p Plan) {
	for _, o := range objects {
		p = append(p, Op{Verb: Delete, Object: o})
	}
	return p
}

// apply applies p and returns what was refused, as "key: error".
func apply(t *testing.T, f *Fake, p Plan) (refused []string) {
	t.Helper()
	err := f.Apply(context.Background(), p)
	var failures Failures
	if err != nil && !errors.As(err, &failures) {
		t.Fatal(err)
	}
	for _, e := range failures {
		refused = append(refused, e.Op.Object.Key().String()+": "+e.Err.Error())
	}
	return refused
}

// check fails the test unless f holds exactly want.
func check(t *testing.T, f *Fake, want ...Object) {
	t.Helper()
	if got := f.Snapshot(); !got.Equal(Of(want...)) {
		t.Errorf("there is:\n%swant:\n%s", got, Of(want...))
	}
}

func without(list []Object, which ...Object) []Object {
	return slices.DeleteFunc(slices.Clone(list), func(o Object) bool { return slices.Contains(which, o) })
}

// TestApply checks what each op changes, and which ones are refused.
func TestApply(t *testing.T) {
	other := Route{Dst: route.Dst, Via: ip("192.0.2.9"), Link: "eth0", Protocol: 4}
	spread := route
	spread.Metric = 7
	noLink := route
	noLink.Link = "tulle.9"
	rebuilt := link
	rebuilt.VXLAN.GBP = true
	rival := Link{Name: "tulle.2", Kind: "vxlan", VXLAN: link.VXLAN}
	readdressed := link
	readdressed.MAC = MAC{9}
	down := link
	down.Up = false

	tests := []struct {
		name    string
		before  []Object
		plan    Plan
		refused string // each "key: error", joined by "; "
		want    []Object
	}{
		{"all", []Object{eth0}, creates(all()[:9]...), "", without(all(), direct)},
		{"all again", all(), replaces(all()[:9]...), "", all()},
		{"all gone", all(), deletes(route6, route, fdb, neigh6, neigh, addr6, addr, link, direct), "", []Object{eth0}},
		{"nothing to delete", nil, deletes(route, fdb, neigh, addr, link), "", nil},
		{"no link", nil, creates(addr, neigh, fdb, route, setting),
			"addr 10.1.0.0/32 dev tulle.1: no such device; neigh 10.1.2.0 dev tulle.1: no such device; fdb 03:00:00:00:00:00 dev tulle.1: no such device; " +
				"route 10.1.2.0/24: no such device; sysctl net/ipv4/conf/tulle.1/rp_filter: no such file or directory", nil},
		{"link down", []Object{down}, creates(addr, addr6, neigh, fdb, route, route6),
			"route 10.1.2.0/24: network is down; route fd00:2::/64: network is down", []Object{down, addr, addr6, neigh, fdb}},
		{"a setting cannot be deleted", all(), deletes(setting), "sysctl net/ipv4/conf/tulle.1/rp_filter: invalid argument", all()},

		{"to make is to replace", all(), creates(Neigh{Link: "tulle.1", IP: neigh.IP, MAC: MAC{4}}, FDB{Link: "tulle.1", MAC: fdb.MAC, Dst: ip("192.0.2.4")}), "",
			append(without(all(), neigh, fdb), Neigh{Link: "tulle.1", IP: neigh.IP, MAC: MAC{4}}, FDB{Link: "tulle.1", MAC: fdb.MAC, Dst: ip("192.0.2.4")})},
		{"but not a route of ours", []Object{link, route}, creates(route), "route 10.1.2.0/24: file exists", []Object{link, route}},
		{"nor another's", []Object{link, eth0, other}, creates(route), "route 10.1.2.0/24: file exists", []Object{link, eth0, other}},
		{"replacing replaces any owner's", []Object{link, eth0, other}, replaces(route), "", []Object{link, eth0, route}},
		{"another metric stays beside it", []Object{link, eth0, other}, creates(spread), "", []Object{link, eth0, other, spread}},
		{"one of ours is deleted by its key", []Object{link, eth0, Route{Dst: route.Dst, Via: ip("192.0.2.9"), Link: "eth0"}}, deletes(noLink), "",
			[]Object{link, eth0}},
		{"another's is not", []Object{link, eth0, other}, deletes(route), "", []Object{link, eth0, other}},
		{"unless it is meant", []Object{link, eth0, other}, deletes(other), "", []Object{link, eth0}},
		{"and just so", []Object{link, eth0, other}, deletes(Route{Dst: route.Dst, Via: ip("192.0.2.8"), Link: "eth0", Protocol: 4}), "",
			[]Object{link, eth0, other}},
		{"metric 0 means any", []Object{link, spread}, deletes(route), "", []Object{link}},
		{"the lowest first", []Object{link, route, spread}, deletes(route), "", []Object{link, spread}},
		{"other metrics mean themselves", []Object{link, route}, deletes(spread), "", []Object{link, route}},

		{"a link goes with all that is on it", all(), deletes(link), "", []Object{eth0, direct}},
		{"one re-created is empty", all(), replaces(rebuilt), "", []Object{rebuilt, eth0, direct}},
		{"one may not have another's VNI", all(), creates(rival), "link tulle.2: file exists", all()},
		{"one with a lower one needs it", nil, creates(Link{Name: "tulle.3", Kind: "ipip", Lower: "eth9"}), "link tulle.3: no such device", nil},
		{"a MAC drops the neighbours", all(), replaces(readdressed), "", append(without(all(), link, neigh, neigh6), readdressed)},
		{"down it loses all but forwarding entries and IPv4 addresses", all(), replaces(down), "",
			append(without(all(), link, addr6, neigh, neigh6, route, route6), down)},
		{"the last IPv4 address takes IPv4 along", all(), deletes(addr), "", without(all(), addr, neigh, route)},
		{"not so the last but one", append(all(), Addr{Link: "tulle.1", Prefix: pfx("10.1.0.1/32")}), deletes(addr), "",
			append(without(all(), addr), Addr{Link: "tulle.1", Prefix: pfx("10.1.0.1/32")})},
		{"nor the last of IPv6", all(), deletes(addr6), "", without(all(), addr6)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := NewFake(test.before...)
			if got := strings.Join(apply(t, f, test.plan), "; "); got != test.refused {
				t.Errorf("refused: %s\nwant:    %s", got, test.refused)
			}
			check(t, f, test.want...)
			if got := f.Counts(); got.Applies != 1 || got.Steps() != len(test.plan) {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

// TestErrors checks that errors.Is finds the error of each failed op.
func TestErrors(t *testing.T) {
	f := NewFake(link, route)
	err := f.Apply(context.Background(), creates(route, Neigh{Link: "x", IP: neigh.IP}))
	if !errors.Is(err, fs.ErrExist) || !errors.Is(err, syscall.EEXIST) || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("got %v", err)
	}
}

// TestDump checks which objects a Dump contains.
func TestDump(t *testing.T) {
	boot := func(via string, metric uint32) Route {
		r := Route{Dst: pfx("10.1.9.0/24"), Link: "eth0", Metric: metric, Protocol: ProtocolBoot}
		if via != "" {
			r.Via = ip(via)
		}
		return r
	}
	adopted := Link{Name: "flannel.1", Kind: "vxlan", Up: true, VXLAN: VXLAN{VNI: 5}}
	onEth0 := Neigh{Link: "eth0", IP: ip("192.0.2.7"), MAC: MAC{7}}
	forward := Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "1"}
	f := NewFake(append(all(), adopted, boot("192.0.2.9", 0), onEth0, forward,
		FDB{Link: "flannel.1", MAC: MAC{8}, Dst: ip("192.0.2.8")},
		Route{Dst: pfx("10.1.8.0/24"), Via: ip("192.0.2.9"), Link: "eth0", Protocol: 4})...)
	mine := append(without(all(), eth0, setting), boot("192.0.2.9", 0))

	tests := []struct {
		name  string
		scope Scope
		want  []Object
	}{
		{"ours", Scope{}, mine},
		{"adopted", Scope{Links: []string{"flannel.1"}}, append(mine, adopted, FDB{Link: "flannel.1", MAC: MAC{8}, Dst: ip("192.0.2.8")})},
		{"settings", Scope{Sysctls: []string{setting.Path, forward.Path, "net/ipv6/conf/all/forwarding", "net/ipv4/conf/tulle.9/rp_filter"}},
			append(mine, setting, forward, Sysctl{Path: "net/ipv6/conf/all/forwarding", Value: "0"})},
		{"features", Scope{Sysctls: []string{TxChecksum("tulle.1", "").Path, TxChecksum("tulle.9", "").Path}}, append(mine, TxChecksum("tulle.1", "on"))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := f.Dump(context.Background(), test.scope)
			if err != nil {
				t.Fatal(err)
			}
			if !Of(got...).Equal(Of(test.want...)) || len(got) != len(test.want) {
				t.Errorf("got:\n%swant:\n%s", Of(got...), Of(test.want...))
			}
		})
	}
	for name, r := range map[string]Route{"no gateway": boot("", 0), "a metric": boot("192.0.2.9", 1)} {
		f := NewFake(eth0, r)
		if got, err := f.Dump(context.Background(), Scope{}); err != nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if got := f.Counts().Dumps; got != len(tests) {
		t.Errorf("counted %d dumps", got)
	}
	f.ResetCounts()
	if got := f.Counts(); got.Dumps != 0 || got.Steps() != 0 {
		t.Errorf("counted %+v after the reset", got)
	}
}

// TestStranger checks the changes that a test makes as another program.
func TestStranger(t *testing.T) {
	f := NewFake(all()...)
	if f.Delete(Neigh{Link: "tulle.1", IP: ip("10.1.9.0"), MAC: MAC{}}.Key()) || f.Delete(Link{Name: "x"}.Key()) || f.Delete(setting.Key()) {
		t.Error("deleted what was not there")
	}
	if !f.Delete(neigh.Key()) || !f.Delete(route.Key()) {
		t.Error("did not delete what was there")
	}
	check(t, f, without(all(), neigh, route)...)
	if err := f.Put(neigh); err != nil {
		t.Error(err)
	}
	if err := f.Put(route); err != nil {
		t.Error(err)
	}
	if err := f.Put(Neigh{Link: "x", IP: neigh.IP}); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("got %v", err)
	}
	check(t, f, all()...)
	if !f.Has(route) || f.Has(Route{Dst: route.Dst}) || f.Has(Neigh{Link: "x"}) {
		t.Error("Has is wrong")
	}
	f.LinkDown("tulle.1")
	down := link
	down.Up = false
	check(t, f, append(without(all(), link, addr6, neigh, neigh6, route, route6), down)...)
	f.LinkUp("tulle.1")
	f.LinkUp("x")
	check(t, f, without(all(), addr6, neigh, neigh6, route, route6)...)
	f.DeleteLink("tulle.1")
	check(t, f, eth0, direct)
}
