package azure

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/subnet"
)

// ground is a subscription in which the rows of the conformance table run. It has the virtual
// machine VM-1 and the third instance of the scale set Pool, whose host name is pool000003,
// and a route table with one route of another program, in which 1,000 routes have room.
type ground struct {
	lab
	vm, inSet string // provider IDs
	spy       *spy

	// state returns what the route table has.
	state func() tableState
	// write writes a route of another program.
	write func(name, to, hop string)
	// forwards reports whether the virtual machine's interface forwards packets.
	forwards func() bool
	// deallocate stops the virtual machine, and remove removes it.
	deallocate, remove func()
	// refuse is the answer to the next write of the table. fail lets the operation fail
	// that the next write begins.
	refuse func(status int, code string)
	fail   func()
}

// tableState is what a route table has: the next hops and the names of its routes by
// destination, and whether what the program does not know is still there.
type tableState struct {
	hops, names map[string]string
	intact      bool
}

// spy passes requests on. It records the If-Match of each write of the route table, and
// calls meanwhile before the next one.
type spy struct {
	to        policy.Transporter
	mu        sync.Mutex
	matches   []string
	meanwhile func()
}

// Do implements policy.Transporter.
func (s *spy) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.Contains(strings.ToLower(r.URL.Path), "/routetables/") {
		s.mu.Lock()
		s.matches = append(s.matches, r.Header.Get("If-Match"))
		f := s.meanwhile
		s.meanwhile = nil
		s.mu.Unlock()
		if f != nil {
			f()
		}
	}
	return s.to.Do(r)
}

// writes returns the If-Match of each write of the route table.
func (s *spy) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.matches...)
}

// conformance are the rows: what the client does in a subscription of Azure.
var conformance = []struct {
	name string
	test func(t *testing.T, g *ground)
}{
	{"routes of both families are one write", func(t *testing.T, g *ground) {
		a, b := g.add(1), g.add(2)
		b.Destination, b.Interface = netip.MustParsePrefix("fd00:64::/64"), "fd00::4"
		g.must(g.ChangeRoutes(g.ctx, []cloud.RouteChange{a, b})...)
		s := g.state()
		if len(g.spy.writes()) != 1 || len(s.hops) != 3 || s.hops["10.64.1.0/24"] != a.Interface || s.hops["fd00:64::/64"] != "fd00::4" || s.hops["0.0.0.0/0"] != "Internet" {
			t.Errorf("%q, %v", g.spy.writes(), s)
		}
		if s.names["10.64.1.0/24"] != "node-1____10641024" || s.names["fd00:64::/64"] != "node-2____fd006464" || !s.intact {
			t.Errorf("%v", s)
		}
		tables, err := g.Tables(g.ctx)
		g.must(err)
		kinds := make(map[string]cloud.TargetKind)
		for _, r := range tables[0].Routes {
			kinds[r.To] = r.Kind
		}
		if len(tables) != 1 || len(kinds) != 3 || kinds["0.0.0.0/0"] != cloud.ToGateway || kinds["fd00:64::/64"] != cloud.ToInterface || tables[0].Quota.Most != (subnet.Pair[int]{1000, 1000}) || tables[0].Quota.Assumed != "" {
			t.Errorf("%+v", tables)
		}
	}},
	{"a write of another program is kept", func(t *testing.T, g *ground) {
		g.spy.meanwhile = func() { g.write("other", "10.99.0.0/16", "10.0.9.9") }
		g.must(g.change(g.add(1)))
		if s, m := g.state(), g.spy.writes(); len(m) != 2 || m[0] == m[1] || m[0] == "" || s.hops["10.99.0.0/16"] != "10.0.9.9" || s.hops["10.64.1.0/24"] == "" {
			t.Errorf("%q, %v", m, s)
		}
	}},
	{"a route moves, and goes", func(t *testing.T, g *ground) {
		c := g.add(1)
		g.must(g.change(c))
		c.Verb, c.Was, c.Interface = cloud.Replace, cloud.Route{Target: c.Interface}, "10.0.7.7"
		g.must(g.change(c))
		if s := g.state(); s.hops["10.64.1.0/24"] != "10.0.7.7" || len(s.hops) != 2 {
			t.Errorf("%v", s)
		}
		c.Verb, c.Was, c.Interface, c.For = cloud.Remove, cloud.Route{Target: "10.0.7.7"}, "", ""
		g.must(g.change(c))
		if s := g.state(); len(s.hops) != 1 || !s.intact {
			t.Errorf("%v", s)
		}
	}},
	{"a route that another program has changed stays", func(t *testing.T, g *ground) {
		c := g.add(1)
		g.must(g.change(c))
		g.write("node-1", "10.64.1.0/24", "10.0.9.9")
		c.Verb, c.Was, c.Interface, c.For = cloud.Remove, cloud.Route{Target: c.Interface}, "", ""
		if err := g.change(c); cloud.KindOf(err) != cloud.Changed || g.state().hops["10.64.1.0/24"] != "10.0.9.9" {
			t.Errorf("%v, %v", err, g.state())
		}
	}},
	{"a refusal is told", func(t *testing.T, g *ground) {
		g.refuse(http.StatusBadRequest, "InvalidRequestFormat")
		if err := g.change(g.add(1)); cloud.KindOf(err) != cloud.Refused || !strings.Contains(err.Error(), "InvalidRequestFormat") {
			t.Errorf("%v", err)
		}
		g.refuse(http.StatusForbidden, "AuthorizationFailed")
		if err := g.change(g.add(1)); cloud.KindOf(err) != cloud.Denied || !strings.Contains(err.Error(), writeTable) {
			t.Errorf("%v", err)
		}
		g.must(g.change(g.add(1)))
	}},
	{"a throttled write is repeated", func(t *testing.T, g *ground) {
		g.refuse(http.StatusTooManyRequests, "TooManyRequests")
		g.must(g.change(g.add(1)))
		if n := len(g.spy.writes()); n != 2 {
			t.Errorf("%d writes", n)
		}
	}},
	{"an operation that fails in the end is an error", func(t *testing.T, g *ground) {
		g.fail()
		if err := g.change(g.add(1)); err == nil {
			t.Error("no error")
		}
		g.must(g.change(g.add(1)))
		if s := g.state(); s.hops["10.64.1.0/24"] == "" {
			t.Errorf("%v", s)
		}
	}},
	{"machines are the same however they are read", func(t *testing.T, g *ground) {
		one, err := g.Instances(g.ctx, []string{g.vm, g.inSet})
		g.must(err)
		named, err := g.Named(g.ctx, []string{"vm-1", "pool000003"})
		g.must(err)
		at, err := g.Addressed(g.ctx, []string{"10.0.1.4", "10.0.2.4"})
		g.must(err)
		g.few = 0
		listed, err := g.read(g.ctx, []string{g.vm, g.inSet})
		g.must(err)
		hop := netip.MustParseAddr
		for _, all := range [][2]cloud.Instance{{one[g.vm], one[g.inSet]}, {listed[g.vm], listed[g.inSet]}, {named["vm-1"], named["pool000003"]}, {at["10.0.1.4"], at["10.0.2.4"]}} {
			if v := all[0]; v.ProviderID != g.vm || v.State != cloud.Running || v.Zone != "westeurope-2" || v.Region != "westeurope" || v.Type != "Standard_D4s_v5" || v.Forwards || v.ForwardFix != "" ||
				v.NextHops != (subnet.Pair[netip.Addr]{hop("10.0.1.4"), hop("fd00::4")}) || !strings.HasSuffix(v.Network, "/virtualnetworks/net") {
				t.Errorf("%+v", v)
			}
			if v := all[1]; v.ProviderID != g.inSet || v.State != cloud.Running || v.Type != "Standard_D2s_v5" || v.Forwards || !strings.Contains(v.ForwardFix, "scale set Pool") || v.NextHops[subnet.IPv4] != hop("10.0.2.4") {
				t.Errorf("%+v", v)
			}
		}
	}},
	{"a stopped machine is stopped, and a removed one absent", func(t *testing.T, g *ground) {
		for _, few := range []int{few, 0} {
			g.few = few
			g.deallocate()
			all, err := g.read(g.ctx, []string{g.vm, g.inSet})
			g.must(err)
			if all[g.vm].State != cloud.Stopped || all[g.inSet].State != cloud.Running {
				t.Errorf("%+v", all)
			}
		}
		g.remove()
		for _, few := range []int{few, 0} {
			g.few = few
			all, err := g.read(g.ctx, []string{g.vm, g.inSet})
			g.must(err)
			if all[g.vm].State != cloud.Absent || all[g.vm].Problem == "" || all[g.inSet].State != cloud.Running {
				t.Errorf("%+v", all)
			}
		}
	}},
	{"IP forwarding is switched on at virtual machines", func(t *testing.T, g *ground) {
		all, err := g.Instances(g.ctx, []string{g.vm, g.inSet})
		g.must(err)
		g.must(g.Forward(g.ctx, all[g.vm]))
		if !g.forwards() {
			t.Error("it does not forward")
		}
		if err := g.Forward(g.ctx, all[g.inSet]); cloud.KindOf(err) != cloud.Refused {
			t.Errorf("%v", err)
		}
		again, err := g.read(g.ctx, []string{g.vm})
		g.must(err)
		if v := again[g.vm]; !v.Forwards || v.NextHops != all[g.vm].NextHops {
			t.Errorf("%+v", v)
		}
	}},
}

// testConformance runs the rows, each in a subscription of its own.
func testConformance(t *testing.T, build func(*testing.T) *ground) {
	for _, row := range conformance {
		t.Run(row.name, func(t *testing.T) { row.test(t, build(t)) })
	}
}

// prepare gives a ground its client, whose requests go to a transport.
func (g *ground) prepare(t *testing.T, o Options, to policy.Transporter) {
	t.Helper()
	g.spy = &spy{to: to}
	o.Transport, o.Agent = g.spy, "tulle"
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.poll, c.pace = fast, quick
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	g.lab = lab{Client: c, Server: g.Server, t: t, ctx: ctx}
}

// TestFakeConforms runs the table with package azuretest. TestMicrosoftConforms runs it with
// Microsoft's own fakes.
func TestFakeConforms(t *testing.T) {
	testConformance(t, func(t *testing.T) *ground {
		s := azuretest.New(t)
		s.Setenv(t)
		s.Do(func() { s.Most, s.Page = 1000, 1 })
		s.SetRoute("firewall", "0.0.0.0/0", "Internet")
		vm := s.Add(azuretest.Machine{Name: "VM-1", IPv4: "10.0.1.4", IPv6: "fd00::4", Zone: "2"})
		inSet := s.Add(azuretest.Machine{Name: "pool000003", Set: "Pool", Number: 3, IPv4: "10.0.2.4"})
		config, _, err := ReadConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		g := &ground{
			vm: vm.ProviderID(), inSet: inSet.ProviderID(), write: s.SetRoute,
			state: func() (v tableState) {
				v.hops, v.names = s.Routes()
				o := s.Resource()
				p := o["properties"].(azuretest.Object)
				v.intact = o["tags"].(azuretest.Object)["owner"] == "network" && p["aNewProperty"] == "kept" && p["disableBgpRoutePropagation"] == true
				return v
			},
			forwards: func() bool { return s.Forwards(vm) }, deallocate: func() { s.SetPower(vm, "deallocated") }, remove: func() { s.Remove(vm) },
			refuse: func(status int, code string) {
				s.Inject(azuretest.Fault{Method: http.MethodPut, Part: "/routetables/", Times: 1, Status: status, Code: code})
			},
			fail: func() {
				s.Inject(azuretest.Fault{Method: http.MethodPut, Part: "/routetables/", Times: 1, Late: true})
			},
		}
		g.prepare(t, Options{Config: config}, http.DefaultClient)
		g.Server = s
		return g
	})
}
