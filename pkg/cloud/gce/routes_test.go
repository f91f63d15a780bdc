package gce

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// inNetwork calls f in a bubble with a server that has some instances, worker-0000 and so
// on, and a client that writes routes.
func inNetwork(t *testing.T, f func(t *testing.T, s *gcetest.Server, c *Client)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		s := gcetest.InProcess(t)
		fill(s, zone, 3)
		f(t, s, routing(t, s))
		<-time.After(time.Minute) // of the bubble: the polls end
	})
}

const defaultNetwork = gcetest.Project + "/default"

func instanceID(i int) string { return machineID(zone, fmt.Sprintf("worker-%04d", i)) }

// add is the change that adds a route to an instance.
func add(to string, i int) cloud.RouteChange {
	return cloud.RouteChange{Table: defaultNetwork, Verb: cloud.Add, Destination: netip.MustParsePrefix(to), Instance: instanceID(i)}
}

// later returns a change of a route that leads to an instance.
func later(verb cloud.Verb, to string, from, i int) cloud.RouteChange {
	c := add(to, i)
	if c.Verb = verb; verb == cloud.Remove {
		c.Instance = ""
	}
	c.Was = cloud.Route{Instance: instanceID(from), Kind: cloud.ToInterface, Origin: cloud.Created}
	return c
}

// make makes a change.
func (c *Client) make(t *testing.T, change cloud.RouteChange) error {
	t.Helper()
	return c.ChangeRoutes(within(t, time.Minute), []cloud.RouteChange{change})[0]
}

// must fails unless changes are made.
func (c *Client) must(t *testing.T, changes ...cloud.RouteChange) {
	t.Helper()
	for _, change := range changes {
		if err := c.make(t, change); err != nil {
			t.Fatalf("%s: %v", change, err)
		}
	}
}

// theTable reads the table.
func theTable(t *testing.T, c *Client) (cloud.Table, map[string]cloud.Route) {
	t.Helper()
	all, err := c.Tables(within(t, time.Minute))
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	routes := make(map[string]cloud.Route)
	for _, r := range all[0].Routes {
		if r.Destination.IsValid() {
			routes[r.Destination.String()] = r
		}
	}
	return all[0], routes
}

func wantRoutes(t *testing.T, s *gcetest.Server, to string, instances ...string) {
	t.Helper()
	if got := s.RoutesTo(to); !slices.Equal(got, instances) {
		t.Errorf("%s leads to %q, want %q", to, got, instances)
	}
}

func TestRoutesAreObjectsThatTheGoogleControllerKnows(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		c.must(t, add("10.4.0.0/24", 0), add("fd00:4::/64", 0), add("10.4.1.0/24", 1))
		for name, r := range s.Routes() {
			if r.NextHopInstance == "" {
				continue
			}
			if r.Description != "k8s-node-route" || r.Priority != 1000 || !strings.HasPrefix(name, "prod-") || len(name) > 63 || r.Network != s.NetworkURL("default") || len(r.Tags) > 0 {
				t.Errorf("%+v", r)
			}
		}
		table, routes := theTable(t, c)
		want := cloud.Route{Destination: netip.MustParsePrefix("10.4.0.0/24"), To: "10.4.0.0/24", Kind: cloud.ToInterface, Instance: instanceID(0), State: cloud.Active, Origin: cloud.Created}
		if routes["10.4.0.0/24"] != want || routes["fd00:4::/64"].Instance != instanceID(0) || table.ID != defaultNetwork || table.Network != defaultNetwork {
			t.Errorf("%+v", table)
		}
		if r := routes["10.128.0.0/16"]; r.Kind != cloud.ToLocal {
			t.Errorf("%+v", r)
		}
		if r := routes["0.0.0.0/0"]; r.Kind != cloud.ToGateway || r.Origin != cloud.Unmarked {
			t.Errorf("%+v", r)
		}
		// The API shows no quota. 4 static routes are here.
		c.options.Names.RouteLimit = "--gce-route-limit"
		table, _ = theTable(t, c)
		if n, known := table.Free(subnet.IPv4); known || !strings.Contains(table.Quota.Assumed, "--gce-route-limit") {
			t.Errorf("%d free, %+v", n, table.Quota)
		}
		c.options.RouteLimit = 200
		table, _ = theTable(t, c)
		if n, known := table.Free(subnet.IPv6); !known || n != 196 || table.Quota.Assumed != "" {
			t.Errorf("%d free, %+v", n, table.Quota)
		}
	})
}

// A change sees the last one of the same destination, however soon it follows.
func TestChangesInARowSeeEachOther(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		const to = "10.4.0.0/24"
		c.must(t, add(to, 0))
		c.must(t, later(cloud.Remove, to, 0, 0))
		wantRoutes(t, s, to)
		c.must(t, add(to, 0))
		wantRoutes(t, s, to, "worker-0000")
		c.must(t, later(cloud.Replace, to, 0, 1), later(cloud.Replace, to, 1, 2))
		wantRoutes(t, s, to, "worker-0002")
	})
}

// While a route is replaced, one of the two always carries the packets.
func TestAReplacementLeavesNoGap(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		const to = "10.4.0.0/24"
		c.must(t, add(to, 0))
		<-time.After(2 * fresh)
		s.Do(func() { s.Lasts = 3 * time.Second })
		for n, step := range [][2]int{{0, 1}, {1, 2}, {2, 0}, {0, 1}} {
			ended := make(chan error)
			go func() { ended <- c.make(t, later(cloud.Replace, to, step[0], step[1])) }()
			for running := true; running; {
				select {
				case err := <-ended:
					if running = false; err != nil {
						t.Fatalf("step %d: %v", n, err)
					}
				case <-time.After(100 * time.Millisecond):
				}
				if len(s.RoutesTo(to)) == 0 {
					t.Fatalf("step %d: no route", n)
				}
			}
			wantRoutes(t, s, to, fmt.Sprintf("worker-%04d", step[1]))
			<-time.After(2 * fresh)
		}
	})
}

// A replacement that was interrupted is seen, and the next one ends it.
func TestAnInterruptedReplacementIsEnded(t *testing.T) {
	const to = "10.4.0.0/24"
	for want := range 3 {
		inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
			c.must(t, add(to, 0))
			<-time.After(2 * fresh)
			s.Do(func() {
				s.Refuse = fault(deleteRoute, slices.Repeat([]*gcetest.Fault{{Code: 403, Reason: "forbidden"}}, 5)...)
			})
			if err := c.make(t, later(cloud.Replace, to, 0, 1)); cloud.KindOf(err) != cloud.Denied || !strings.Contains(err.Error(), "compute.routes.delete") {
				t.Fatal(err)
			}
			wantRoutes(t, s, to, "worker-0001", "worker-0000")
			s.Do(func() { s.Refuse = nil })
			_, routes := theTable(t, c)
			now := routes[to]
			if now.Instance != instanceID(1) || now.Split != instanceID(0) || now.Rival != "" {
				t.Errorf("%+v", now)
			}
			<-time.After(2 * fresh)
			again := later(cloud.Replace, to, 0, want)
			again.Was = now
			c.must(t, again)
			wantRoutes(t, s, to, fmt.Sprintf("worker-%04d", want))
		})
	}
}

// Routes of Google's own controller have its names and the same mark, so our controller
// continues with them. A route without the mark is foreign: it is shown, and never changed.
func TestForeignRoutesAreShownAndNeverTouched(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		put := func(name, to, description string, priority, instance int, tags ...string) {
			s.Put(gcetest.Route{
				Name: name, Description: description, DestRange: to, Priority: priority, Network: s.NetworkURL("default"), Tags: tags,
				NextHopInstance: s.InstanceURL(zone, fmt.Sprintf("worker-%04d", instance)),
			})
		}
		put("prod-0c5a1b2e-uid", "10.4.0.0/24", mark, 1000, 0)
		put("by-hand", "10.4.1.0/24", "", 1000, 1)
		put("prod-tagged", "10.4.2.0/24", mark, 1000, 1, "some")
		put("prod-mine", "10.4.3.0/24", mark, 1000, 1)
		put("better-by-hand", "10.4.3.0/24", "", 900, 2)
		put("worse-by-hand", "10.4.0.0/24", "", 1100, 2)
		_, routes := theTable(t, c)
		for to, want := range map[string]cloud.Route{
			"10.4.0.0/24": {Kind: cloud.ToInterface, Instance: instanceID(0), Origin: cloud.Created},
			"10.4.1.0/24": {Kind: cloud.ToInterface, Instance: instanceID(1), Origin: cloud.Unmarked},
			"10.4.2.0/24": {Kind: cloud.ToGateway, Target: instanceID(1) + " for the tags some", Origin: cloud.Unmarked},
			"10.4.3.0/24": {Kind: cloud.ToInterface, Instance: instanceID(1), Origin: cloud.Created, Rival: instanceID(2) + " (route better-by-hand)"},
		} {
			want.Destination, want.To, want.State = netip.MustParsePrefix(to), to, cloud.Active
			if routes[to] != want {
				t.Errorf("%+v, want %+v", routes[to], want)
			}
		}
		before := len(s.Routes())
		for _, change := range []cloud.RouteChange{
			add("10.4.1.0/24", 2), later(cloud.Replace, "10.4.1.0/24", 1, 2), add("10.4.2.0/24", 1), later(cloud.Replace, "10.4.0.0/24", 1, 2), later(cloud.Remove, "10.4.0.0/24", 1, 0),
		} {
			if err := c.make(t, change); cloud.KindOf(err) != cloud.Changed {
				t.Errorf("%s: %v", change, err)
			}
		}
		c.must(t, later(cloud.Remove, "10.4.1.0/24", 1, 0))
		if n := len(s.Routes()); n != before {
			t.Errorf("%d routes, and %d before", n, before)
		}
		c.must(t, later(cloud.Remove, "10.4.0.0/24", 0, 0))
		wantRoutes(t, s, "10.4.0.0/24", "worker-0002")
	})
}

func TestDeadNextHopsAreBlackholes(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		c.must(t, add("10.4.0.0/24", 0), add("10.4.1.0/24", 1), add("10.4.2.0/24", 2))
		s.Remove(zone, "worker-0000")
		s.Change(zone, "worker-0001", func(i *gcetest.Instance) { i.Status = "TERMINATED" })
		s.Change(zone, "worker-0002", func(i *gcetest.Instance) { i.CanIPForward = false })
		_, routes := theTable(t, c)
		for to, want := range map[string]cloud.RouteState{"10.4.0.0/24": cloud.Blackhole, "10.4.1.0/24": cloud.Blackhole, "10.4.2.0/24": cloud.Active} {
			if routes[to].State != want {
				t.Errorf("%+v", routes[to])
			}
		}
	})
}

// A list that cannot be all of the network's routes is no table.
func TestNoTableFromAnIncompleteList(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(s *gcetest.Server)
		says  string
	}{
		"another network": {func(s *gcetest.Server) {
			s.Drop("default-route-r-default")
		}, "correct network-name"},
		"partial":   {func(s *gcetest.Server) { s.Partial = "PARTIAL_SUCCESS" }, "incomplete"},
		"another":   {func(s *gcetest.Server) { s.Garble = func(string) string { return `{}` } }, "kind"},
		"no JSON":   {func(s *gcetest.Server) { s.Garble = func(string) string { return "<html>" } }, "cannot be read"},
		"bad name":  {func(s *gcetest.Server) { s.Put(gcetest.Route{Name: "A B", Network: s.NetworkURL("default")}) }, "named"},
		"forbidden": {func(s *gcetest.Server) { s.Refuse = func(string) *gcetest.Fault { return &gcetest.Fault{Code: 403} } }, "compute.routes.list"},
		"loop": {func(s *gcetest.Server) {
			s.Garble = func(string) string { return `{"kind":"compute#routeList","nextPageToken":"x"}` }
		}, "does not end"},
	} {
		inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
			s.AddNetwork("other", "10.130.0.0/16")
			test.spoil(s)
			all, err := c.Tables(within(t, time.Hour))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v, %v", name, all, err)
			}
		})
	}
}

func TestRoutesOfManyPages(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		for i := range 1200 {
			s.Put(gcetest.Route{Name: fmt.Sprintf("route-%04d", i), Network: s.NetworkURL("default"), DestRange: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), NextHopIP: "10.128.0.9"})
		}
		if table, routes := theTable(t, c); len(routes) != 1202 || len(table.Routes) != 1202 || s.Asked(listRoutes) != 3 {
			t.Errorf("%d routes in %d requests", len(routes), s.Asked(listRoutes))
		}
	})
}

// Changes that begin together are polled together.
func TestOperationsArePolledInBatches(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		fill(s, zone, 100)
		s.Do(func() { s.Lasts = 4 * time.Second })
		var changes []cloud.RouteChange
		for i := range 40 {
			changes = append(changes, add(fmt.Sprintf("10.4.%d.0/24", i), i))
		}
		for i, err := range c.ChangeRoutes(within(t, 5*time.Minute), changes) {
			if err != nil {
				t.Errorf("%s: %v", changes[i], err)
			}
		}
		if polls := s.Asked(listOperations); s.Asked(insertRoute) != 40 || polls == 0 || polls > 25 {
			t.Errorf("%d inserts, %d polls", s.Asked(insertRoute), polls)
		}
	})
}

// An operation that outlasts its caller is waited for again, and not begun again.
func TestALateOperationIsNotBegunTwice(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		s.Do(func() { s.Late = true })
		for range 3 {
			if err := c.ChangeRoutes(within(t, 5*time.Second), []cloud.RouteChange{add("10.4.0.0/24", 0)})[0]; cloud.KindOf(err) != cloud.Pending || cloud.KindOf(err).IsFinal() {
				t.Fatal(err)
			}
		}
		ended := make(chan error)
		go func() { ended <- c.make(t, add("10.4.0.0/24", 0)) }()
		<-time.After(2 * time.Second)
		s.Release()
		if err := <-ended; err != nil || s.Asked(insertRoute) != 1 {
			t.Errorf("%d inserts, %v", s.Asked(insertRoute), err)
		}
		wantRoutes(t, s, "10.4.0.0/24", "worker-0000")
	})
}

// The connection ends after the API has taken the change. The next request finds the route.
func TestALostAnswerIsFoundAgain(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		lost := map[string]bool{}
		s.Do(func() {
			s.Lose = func(action string) bool {
				first := !lost[action]
				lost[action] = true
				return first && (action == insertRoute || action == deleteRoute)
			}
		})
		c.must(t, add("10.4.0.0/24", 0))
		wantRoutes(t, s, "10.4.0.0/24", "worker-0000")
		<-time.After(2 * fresh)
		c.must(t, later(cloud.Remove, "10.4.0.0/24", 0, 0))
		wantRoutes(t, s, "10.4.0.0/24")
	})
}

func TestFailuresOfChanges(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(s *gcetest.Server)
		kind  cloud.Kind
		says  string
	}{
		"full":      {func(s *gcetest.Server) { s.MostRoutes = 1 }, cloud.Full, "raise the quota STATIC_ROUTES_PER_NETWORK"},
		"forbidden": {func(s *gcetest.Server) { s.Refuse = fault(insertRoute, &gcetest.Fault{Code: 403, Reason: "forbidden"}) }, cloud.Denied, "compute.routes.create"},
		"quota of routes": {func(s *gcetest.Server) {
			s.Refuse = fault(insertRoute, &gcetest.Fault{Code: 403, Reason: "quotaExceeded"})
		}, cloud.Full, "remove nodes"},
		"rate": {func(s *gcetest.Server) {
			s.Refuse = fault(insertRoute, slices.Repeat([]*gcetest.Fault{{Code: 403, Reason: "rateLimitExceeded"}}, mostTries)...)
		}, cloud.Throttled, "quota"},
		"server": {func(s *gcetest.Server) {
			s.Refuse = fault(insertRoute, slices.Repeat([]*gcetest.Fault{{Code: 503}}, mostTries)...)
		}, cloud.Unavailable, "503"},
		"operation fails": {func(s *gcetest.Server) { s.Fails = "INTERNAL_ERROR" }, cloud.Unavailable, "INTERNAL_ERROR"},
		"not ready":       {func(s *gcetest.Server) { s.Fails = "RESOURCE_NOT_READY" }, cloud.Changed, "NOT_READY"},
		"forgotten":       {func(s *gcetest.Server) { s.Late, s.Forgets = true, true }, cloud.Unavailable, "not known any more"},
		"end not shown": {func(s *gcetest.Server) {
			s.Late, s.Refuse = true, func(action string) *gcetest.Fault {
				if action == listOperations {
					return &gcetest.Fault{Code: 403, Reason: "forbidden"}
				}
				return nil
			}
		}, cloud.Unavailable, "compute.globalOperations.list"},
		"no operation": {func(s *gcetest.Server) {
			s.Garble = func(a string) string { return map[string]string{insertRoute: `{"name":"a/b"}`}[a] }
		}, cloud.Unavailable, "a/b"},
		"instance gone": {func(s *gcetest.Server) { s.Refuse = fault(insertRoute, &gcetest.Fault{Code: 404, Reason: "notFound"}) }, cloud.Missing, "404"},
	} {
		inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
			test.spoil(s)
			if err := c.make(t, add("10.4.0.0/24", 0)); cloud.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v is %s", name, err, cloud.KindOf(err))
			}
			if name != "no operation" { // which the server has carried out
				wantRoutes(t, s, "10.4.0.0/24")
			}
		})
	}
}

func TestChangesThatAreNotSent(t *testing.T) {
	inNetwork(t, func(t *testing.T, s *gcetest.Server, c *Client) {
		bad := []cloud.RouteChange{
			{Table: "x", Verb: cloud.Add, Destination: netip.MustParsePrefix("10.4.0.0/24"), Instance: instanceID(0)},
			{Table: defaultNetwork, Verb: "x", Destination: netip.MustParsePrefix("10.4.0.0/24"), Instance: instanceID(0)},
			{Table: defaultNetwork, Verb: cloud.Add, Instance: instanceID(0)},
			{Table: defaultNetwork, Verb: cloud.Add, Destination: netip.MustParsePrefix("10.4.0.0/24"), Instance: "../x"},
		}
		for i, err := range c.ChangeRoutes(within(t, time.Minute), bad) {
			if cloud.KindOf(err) != cloud.Refused || err == nil {
				t.Errorf("%v: %v", bad[i], err)
			}
		}
		if err := c.Forward(context.Background(), cloud.Instance{ID: instanceID(0)}); cloud.KindOf(err) != cloud.Refused || !strings.Contains(err.Error(), "--can-ip-forward") {
			t.Error(err)
		}
		if s.Asked(insertRoute)+s.Asked(deleteRoute) > 0 {
			t.Error("a request was sent")
		}
	})
}
