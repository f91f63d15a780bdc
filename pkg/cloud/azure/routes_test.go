package azure

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/subnet"
)

// Any number of changes is one write of the table.
func TestManyRoutesAreOneWrite(t *testing.T) {
	l := newLab(t)
	var all []cloud.RouteChange
	for i := range 300 {
		all = append(all, l.add(i))
	}
	l.must(l.ChangeRoutes(l.ctx, all)...)
	if n := len(l.Server.Calls("PUT", "")); n != 1 {
		t.Errorf("%d writes", n)
	}
	tables, err := l.Tables(l.ctx)
	l.must(err)
	v := tables[0]
	if len(tables) != 1 || len(v.Routes) != 300 || v.Quota.Most != (subnet.Pair[int]{400, 400}) || !v.Quota.Shared || v.Quota.Assumed != "" || v.Used(subnet.IPv6) != 300 {
		t.Errorf("%d tables, %d routes, %+v", len(tables), len(v.Routes), v.Quota)
	}
	if r := v.Routes[7]; r.Target != all[7].Interface || r.Kind != cloud.ToInterface || r.Origin != cloud.Created || r.Destination != all[7].Destination {
		t.Errorf("%+v", r)
	}
}

// A change whose route is another one now is refused, and those beside it are made.
func TestForeignRoutesAreNotTouched(t *testing.T) {
	l := newLab(t)
	l.SetRoute("foreign", "10.64.0.0/24", "10.0.9.9")
	l.SetRoute("internet", "10.64.1.0/24", "Internet")
	taken, gateway, good := l.add(0), l.add(1), l.add(2)
	replace, remove := taken, taken
	replace.Verb, replace.Was = cloud.Replace, cloud.Route{Target: "10.0.0.77"}
	remove.Verb, remove.Was = cloud.Remove, cloud.Route{Target: "10.0.0.77"}
	for i, err := range l.ChangeRoutes(l.ctx, []cloud.RouteChange{taken, gateway, replace, remove, good}) {
		if (err == nil) != (i == 4) || err != nil && cloud.KindOf(err) != cloud.Changed {
			t.Errorf("%d: %v", i, err)
		}
	}
	hops, _ := l.Routes()
	if hops["10.64.0.0/24"] != "10.0.9.9" || hops["10.64.1.0/24"] != "Internet" || hops["10.64.2.0/24"] != good.Interface || len(hops) != 3 {
		t.Errorf("%v", hops)
	}
}

// A write that another program was faster than is made from what that one wrote.
func TestConflictsAreReadAgain(t *testing.T) {
	l := newLab(t)
	hold := make(chan struct{})
	l.Inject(azuretest.Fault{Method: "PUT", Part: "/routetables/", Times: 1, Hold: hold})
	done := make(chan error)
	go func() { done <- l.change(l.add(1)) }()
	for len(l.Server.Calls("GET", "/routetables/")) == 0 {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	l.SetRoute("foreign", "10.99.0.0/16", "10.0.9.9")
	close(hold)
	l.must(<-done)
	if hops, _ := l.Routes(); len(hops) != 2 || hops["10.99.0.0/16"] != "10.0.9.9" {
		t.Errorf("%v", hops)
	}
	if puts := l.Server.Calls("PUT", ""); len(puts) != 2 || puts[0].Status != http.StatusPreconditionFailed || puts[0].Match == puts[1].Match {
		t.Errorf("%+v", puts)
	}
}

// What Azure refuses keeps no other route back, and a full table takes what it has room for.
func TestOneRouteKeepsNoOtherBack(t *testing.T) {
	l := newLab(t)
	var all []cloud.RouteChange
	for i := range 8 {
		all = append(all, l.add(i))
	}
	all[5].For = strings.Repeat("long.", 40) + "name"
	l.Do(func() { l.Most = 6 })
	full := 0
	for i, err := range l.ChangeRoutes(l.ctx, all) {
		if err != nil {
			if full++; cloud.KindOf(err) != cloud.Full || !strings.Contains(err.Error(), "higher limit of routes") {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
	hops, names := l.Routes()
	if len(hops) != 6 || full != 2 {
		t.Errorf("%d routes, %d refused", len(hops), full)
	}
	for to, name := range names {
		if len(name) > 80 {
			t.Errorf("%s has the name %s", to, name)
		}
	}
	remove := all[0]
	remove.Verb, remove.Was, remove.Interface, remove.For = cloud.Remove, cloud.Route{Target: all[0].Interface}, "", ""
	l.must(l.ChangeRoutes(l.ctx, []cloud.RouteChange{all[7], remove})...)
	if hops, _ := l.Routes(); hops["10.64.0.0/24"] != "" || hops["10.64.7.0/24"] == "" {
		t.Errorf("%v", hops)
	}
}

// A table that Azure refuses to write costs a few writes, and not two for each route.
func TestATableThatIsRefusedCostsFewWrites(t *testing.T) {
	l := newLab(t)
	end := l.Inject(azuretest.Fault{Method: "PUT", Part: "/routetables/", Status: 400, Code: "InvalidRequestFormat"})
	var all []cloud.RouteChange
	for i := range 300 {
		all = append(all, l.add(i))
	}
	for i, err := range l.ChangeRoutes(l.ctx, all) {
		if err == nil || cloud.KindOf(err) != cloud.Refused {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := len(l.Server.Calls("PUT", "")); n > 30 {
		t.Errorf("%d writes", n)
	}
	end()
	l.must(l.ChangeRoutes(l.ctx, all)...)
}

func TestReplaceKeepsTheNameOfTheNode(t *testing.T) {
	l := newLab(t)
	a, b := l.add(1), l.add(2)
	l.must(l.ChangeRoutes(l.ctx, []cloud.RouteChange{a, b})...)
	moved, passed := a, b
	moved.Verb, moved.Was, moved.Interface = cloud.Replace, cloud.Route{Target: a.Interface}, "10.0.7.7"
	passed.Verb, passed.Was, passed.Interface, passed.For = cloud.Replace, cloud.Route{Target: b.Interface}, "10.0.7.8", "node-9"
	l.must(l.ChangeRoutes(l.ctx, []cloud.RouteChange{moved, passed})...)
	hops, names := l.Routes()
	if hops["10.64.1.0/24"] != "10.0.7.7" || names["10.64.1.0/24"] != "node-1____10641024" || hops["10.64.2.0/24"] != "10.0.7.8" || names["10.64.2.0/24"] != "node-9____10642024" {
		t.Errorf("%v, %v", hops, names)
	}
	// Two destinations of a node with one name.
	x, y := l.add(3), l.add(3)
	x.Destination, y.Destination = netip.MustParsePrefix("10.1.12.0/24"), netip.MustParsePrefix("10.11.2.0/24")
	l.must(l.ChangeRoutes(l.ctx, []cloud.RouteChange{x, y})...)
	if _, names := l.Routes(); names["10.11.2.0/24"] != "node-3____10112024_2" {
		t.Errorf("%v", names)
	}
}

// The nodes of a network in etcd are leases. Azure allows no colon and no & in names.
func TestLeasesOfBothFamiliesAreRouted(t *testing.T) {
	l := newLab(t)
	lease := subnet.FormatKey(subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.5.34.0/24"), netip.MustParsePrefix("fd00:5:0:22::/64")})
	four, six := l.add(1), l.add(2)
	four.For, four.Destination = lease, netip.MustParsePrefix("10.5.34.0/24")
	six.For, six.Destination, six.Interface = lease, netip.MustParsePrefix("fd00:5:0:22::/64"), "fd00::4"
	l.must(l.ChangeRoutes(l.ctx, []cloud.RouteChange{four, six})...)
	moved := six
	moved.Verb, moved.Was, moved.Interface = cloud.Replace, cloud.Route{Target: six.Interface}, "fd00::5"
	l.must(l.change(moved))
	hops, names := l.Routes()
	if hops["10.5.34.0/24"] != four.Interface || hops["fd00:5:0:22::/64"] != "fd00::5" {
		t.Errorf("%v", hops)
	}
	if names["10.5.34.0/24"] != "10.5.34.0-24-fd005022-64____10534024" || names["fd00:5:0:22::/64"] != "10.5.34.0-24-fd005022-64____fd00502264" {
		t.Errorf("%v", names)
	}
}

// An operation that fails in the end fails its changes, and the next try writes the table
// again even if it looks right.
func TestOperationsThatFailLate(t *testing.T) {
	l := newLab(t)
	l.Do(func() { l.Steps = 3 })
	l.Inject(azuretest.Fault{Method: "PUT", Times: 1, Late: true})
	if err := l.change(l.add(1)); cloud.KindOf(err) != cloud.Unavailable || !strings.Contains(err.Error(), "An error occurred") {
		t.Errorf("%v", err)
	}
	l.SetRoute("node-1", "10.64.1.0/24", l.add(1).Interface)
	l.must(l.change(l.add(1)))
	if n := len(l.Server.Calls("PUT", "")); n != 2 {
		t.Errorf("%d writes", n)
	}
	l.must(l.change(l.add(1)))
	if n := len(l.Server.Calls("PUT", "")); n != 2 {
		t.Errorf("a route that was there was written again")
	}
}

// A caller that stops waiting gets Pending, and the change is made.
func TestWritesOutliveTheirCallers(t *testing.T) {
	l := newLab(t)
	hold := make(chan struct{})
	l.Inject(azuretest.Fault{Method: "PUT", Times: 1, Hold: hold})
	ctx, cancel := context.WithCancel(l.ctx)
	cancel()
	if err := l.ChangeRoutes(ctx, []cloud.RouteChange{l.add(1)})[0]; cloud.KindOf(err) != cloud.Pending {
		t.Errorf("%v", err)
	}
	close(hold)
	l.must(l.change(l.add(1))) // the same change is not made twice
	if n := len(l.Server.Calls("PUT", "")); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// Nothing follows from an answer that cannot be of Azure's API.
func TestGarbage(t *testing.T) {
	id := "/subscriptions/" + azuretest.Subscription + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Network/routeTables/" + azuretest.Table
	for name, f := range map[string]azuretest.Fault{
		"no JSON":            {Status: 200, Body: "<html>"},
		"null":               {Status: 200, Body: "null"},
		"another table":      {Status: 200, Body: `{"id":"/x","etag":"1","properties":{}}`},
		"no ETag":            {Status: 200, Body: `{"id":"` + id + `","properties":{"routes":[]}}`},
		"no properties":      {Status: 200, Body: `{"id":"` + id + `","etag":"1"}`},
		"routes are a text":  {Status: 200, Body: `{"id":"` + id + `","etag":"1","properties":{"routes":"x"}}`},
		"a null route":       {Status: 200, Body: `{"id":"` + id + `","etag":"1","properties":{"routes":[null]}}`},
		"a 404 of a proxy":   {Status: 404, Body: `not here`},
		"an unknown success": {Status: 204, Body: ``},
	} {
		l := newLab(t)
		f.Method, f.Part = "GET", "/routetables/"
		l.Inject(f)
		if tables, err := l.Tables(l.ctx); err == nil || cloud.KindOf(err) == cloud.Missing {
			t.Errorf("%s: %v, %v", name, tables, err)
		}
		if err := l.change(l.add(1)); err == nil {
			t.Errorf("%s: written", name)
		}
		if n := len(l.Server.Calls("PUT", "")); n != 0 {
			t.Errorf("%s: %d writes", name, n)
		}
	}
	l := newLab(t)
	l.Inject(azuretest.Fault{Method: "PUT", Header: map[string]string{"Azure-AsyncOperation": "https://elsewhere.example/x"}})
	if err := l.change(l.add(1)); err == nil || !strings.Contains(err.Error(), "elsewhere.example") {
		t.Errorf("%v", err)
	}
}

func TestChangesThatAreNone(t *testing.T) {
	l := newLab(t)
	for name, change := range map[string]func(*cloud.RouteChange){
		"table": func(c *cloud.RouteChange) { c.Table = "other" }, "verb": func(c *cloud.RouteChange) { c.Verb = "" },
		"hop": func(c *cloud.RouteChange) { c.Interface = "x" }, "family": func(c *cloud.RouteChange) { c.Interface = "fd00::1" },
		"node": func(c *cloud.RouteChange) { c.For = "a/b" }, "destination": func(c *cloud.RouteChange) { c.Destination = netip.MustParsePrefix("10.0.0.1/8") },
	} {
		c := l.add(1)
		change(&c)
		if err := l.change(c); cloud.KindOf(err) != cloud.Refused || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(l.Server.Calls("", "")) > 0 {
		t.Error("asked Azure")
	}
}
