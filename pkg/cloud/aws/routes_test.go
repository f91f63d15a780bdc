package aws

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/subnet"
)

// newRoutes returns an account with a tagged table and two instances, which the client
// describes.
func newRoutes(t *testing.T) (f *awstest.Server, c *Client, table string, a, b cloud.Instance) {
	t.Helper()
	f, c = newAccount(t)
	n := f.AddNetwork("10.0.0.0/16", 24, true)
	table = f.AddTable(n.VPC, map[string]string{tag: "owned", "Name": "nodes"}, n.Subnets[0])
	all := f.Launch(awstest.Launch{Count: 2, Subnet: n.Subnets[0], Tags: tagged})
	got, err := c.Instances(t.Context(), idsOf(all))
	if err != nil {
		t.Fatal(err)
	}
	f.Forget()
	return f, c, table, got[idOf(all[0])], got[idOf(all[1])]
}

// add returns the change that adds a route to an instance.
func add(table, to string, i cloud.Instance) cloud.RouteChange {
	return cloud.RouteChange{Table: table, Verb: cloud.Add, Destination: netip.MustParsePrefix(to), Instance: i.ID, Interface: i.Interface}
}

// make1 makes one change.
func make1(t testing.TB, c *Client, r cloud.RouteChange) error {
	t.Helper()
	return c.ChangeRoutes(within(t, 20*time.Second), []cloud.RouteChange{r})[0]
}

// routesOf returns the routes of the one table that is ours, by destination.
func routesOf(t testing.TB, c *Client) map[string]cloud.Route {
	t.Helper()
	all, err := c.Tables(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d tables, %v", len(all), err)
	}
	routes := make(map[string]cloud.Route)
	for _, r := range all[0].Routes {
		routes[r.To] = r
	}
	return routes
}

func TestReadsEveryTableThatIsOurs(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	n := f.AddNetwork("10.1.0.0/16", 24, false)
	second := f.AddTable(n.VPC, tagged)
	f.AddTable(n.VPC, map[string]string{"kubernetes.io/cluster/other": "owned"})
	f.SetRoute(table, "10.4.0.0/24", a.ID)
	f.SetRoute(table, "fd00:10:4::/64", a.ID)
	all, err := c.Tables(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	at := slices.IndexFunc(all, func(v cloud.Table) bool { return v.ID == table })
	if at < 0 || all[1-at].ID != second || all[at].Name != "nodes" || all[at].Ours != "tag "+tag || all[at].Network == n.VPC {
		t.Fatalf("%+v", all)
	}
	routes := routesOf(t, newClient(t, "[Global]\nRouteTableID = "+table+"\n"))
	for to, want := range map[string]cloud.Route{
		"10.4.0.0/24":    {Kind: cloud.ToInterface, Target: a.Interface, Instance: a.ID, State: cloud.Active, Origin: cloud.Created},
		"fd00:10:4::/64": {Kind: cloud.ToInterface, Target: a.Interface, Instance: a.ID, State: cloud.Active, Origin: cloud.Created},
		"10.0.0.0/16":    {Kind: cloud.ToLocal, Target: "local", State: cloud.Active, Origin: cloud.WithTable},
	} {
		want.Destination, want.To = netip.MustParsePrefix(to), to
		if routes[to] != want {
			t.Errorf("%+v, want %+v", routes[to], want)
		}
	}
	f.Terminate(a.ID)
	if r := routesOf(t, newClient(t, "[Global]\nRouteTableID = "+table+"\n"))["10.4.0.0/24"]; r.State != cloud.Blackhole || r.Kind != cloud.ToInterface {
		t.Errorf("%+v", r)
	}
	for _, call := range f.Calls() {
		if call.Action == describeTables && (call.Value("Filter.1.Name") == "" || call.Value("MaxResults") == "") {
			t.Errorf("%s is not filtered, or not in pages", call)
		}
	}
}

func TestFailedReadReturnsNoTables(t *testing.T) {
	f, c, table, _, _ := newRoutes(t)
	n := f.AddNetwork("10.1.0.0/16", 24, false)
	for range 5 {
		f.AddTable(n.VPC, tagged)
	}
	f.Set(func(s *awstest.Settings) { s.Page = 2 })
	if all, err := c.Tables(t.Context()); err != nil || len(all) != 6 || f.Count(describeTables) != 3 {
		t.Errorf("%d tables in %d calls, %v", len(all), f.Count(describeTables), err)
	}
	f.Inject(awstest.Fault{Action: describeTables, Pass: 2, Answer: awstest.Unauthorized})
	all, err := c.Tables(t.Context())
	if wantKind(t, err, cloud.Denied); len(all) > 0 {
		t.Errorf("%d tables of an answer that lacks a page", len(all))
	}
	_, err = newClient(t, "[Global]\nRouteTableID = "+table+", rtb-0123456789abcdef0\n").Tables(t.Context())
	wantKind(t, err, cloud.Denied)
}

func TestMissingTablesAreReported(t *testing.T) {
	f, _, table, _, _ := newRoutes(t)
	_, err := newClient(t, "[Global]\nRouteTableID = "+table+", rtb-0123456789abcdef0\n").Tables(t.Context())
	if wantKind(t, err, cloud.Missing); !strings.Contains(fmt.Sprint(err), "no route table rtb-0123456789abcdef0") {
		t.Error(err)
	}
	_, err = newClient(t, "[Global]\nKubernetesClusterID = other\n").Tables(t.Context())
	if wantKind(t, err, cloud.Missing); !strings.Contains(fmt.Sprint(err), "tag kubernetes.io/cluster/other") {
		t.Error(err)
	}
	f.Forget()
}

// TestAddsRoutesOfBothFamilies: a new route costs one call, in either family.
func TestAddsRoutesOfBothFamilies(t *testing.T) {
	f, c, table, a, b := newRoutes(t)
	for _, err := range c.ChangeRoutes(t.Context(), []cloud.RouteChange{add(table, "10.4.0.0/24", a), add(table, "10.4.1.0/24", b), add(table, "fd00:10:4::/64", a)}) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := len(f.Calls()); n != 3 || f.Count(createRoute) != 3 {
		t.Errorf("%d calls: %v", n, f.Calls())
	}
	routes := routesOf(t, c)
	if !routes["10.4.0.0/24"].LeadsTo(a) || !routes["10.4.1.0/24"].LeadsTo(b) || !routes["fd00:10:4::/64"].LeadsTo(a) {
		t.Errorf("%+v", routes)
	}
	// Adding an existing route does not change it.
	wantKind(t, make1(t, c, add(table, "10.4.0.0/24", b)), cloud.Changed)
	if !routesOf(t, c)["10.4.0.0/24"].LeadsTo(a) {
		t.Error("adding replaced a route")
	}
}

// TestReplacesAndRemovesOnlyWhatWasRead: a route that another program has changed since the
// read stays.
func TestReplacesAndRemovesOnlyWhatWasRead(t *testing.T) {
	f, c, table, a, b := newRoutes(t)
	f.SetRoute(table, "10.4.0.0/24", a.ID)
	f.SetRoute(table, "10.4.1.0/24", a.ID)
	was := routesOf(t, c)
	change := func(verb cloud.Verb, to string) cloud.RouteChange {
		r := add(table, to, b)
		r.Verb, r.Was = verb, was[to]
		return r
	}
	if err := make1(t, c, change(cloud.Replace, "10.4.0.0/24")); err != nil || !routesOf(t, c)["10.4.0.0/24"].LeadsTo(b) {
		t.Error(err)
	}
	if f.Count(deleteRoute) > 0 || f.Count(createRoute) > 0 {
		t.Errorf("a replaced route was away for a moment: %v", f.Counts())
	}
	fresh := newClient(t, "") // has no cached reads
	wantKind(t, make1(t, fresh, change(cloud.Remove, "10.4.0.0/24")), cloud.Changed)
	wantKind(t, make1(t, fresh, change(cloud.Replace, "10.4.0.0/24")), cloud.Changed)
	if f.Count(deleteRoute) > 0 || f.Count(replaceRoute) != 1 {
		t.Errorf("%v", f.Counts())
	}
	if err := make1(t, fresh, change(cloud.Remove, "10.4.1.0/24")); err != nil {
		t.Error(err)
	}
	if _, there := routesOf(t, c)["10.4.1.0/24"]; there {
		t.Error("the route is still there")
	}
	// Removing an absent route succeeds.
	again := newClient(t, "")
	if err := make1(t, again, change(cloud.Remove, "10.4.1.0/24")); err != nil || f.Count(deleteRoute) != 1 {
		t.Errorf("%v, %d calls", err, f.Count(deleteRoute))
	}
	wantKind(t, make1(t, again, change(cloud.Replace, "10.4.1.0/24")), cloud.Changed)
}

// TestSimultaneousChangesShareOneRead: one read checks many changes of a table.
func TestSimultaneousChangesShareOneRead(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	for i := range 20 {
		f.SetRoute(table, fmt.Sprintf("10.4.%d.0/24", i), a.ID)
	}
	was := routesOf(t, c)
	f.Forget()
	var all []cloud.RouteChange
	for i := range 20 {
		to := fmt.Sprintf("10.4.%d.0/24", i)
		all = append(all, cloud.RouteChange{Table: table, Verb: cloud.Remove, Destination: netip.MustParsePrefix(to), Was: was[to]})
	}
	for _, err := range c.ChangeRoutes(within(t, 20*time.Second), all) {
		if err != nil {
			t.Error(err)
		}
	}
	if f.Count(describeTables) != 1 || f.Count(deleteRoute) != 20 {
		t.Errorf("%v", f.Counts())
	}
	f.Inject(awstest.Fault{Action: describeTables, Answer: awstest.Internal})
	fresh := newClient(t, "")
	err := fresh.ChangeRoutes(within(t, 500*time.Millisecond), all[:1])[0]
	if wantKind(t, err, cloud.Unavailable); f.Count(deleteRoute) != 20 {
		t.Error("a route was removed that could not be read")
	}
}

// TestChangeIsRetriedOnlyIfItWasNotMade: the client retries a change only if AWS has certainly
// not made it.
func TestChangeIsRetriedOnlyIfItWasNotMade(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	f.Inject(awstest.Fault{Action: createRoute, Times: 2, Answer: awstest.Throttled})
	if err := make1(t, c, add(table, "10.4.0.0/24", a)); err != nil || f.Count(createRoute) != 3 {
		t.Errorf("%v, %d calls", err, f.Count(createRoute))
	}
	for i, fault := range []awstest.Fault{{Lose: true}, {Reset: true}, {Half: true}, {Answer: awstest.Internal}} {
		f.Forget()
		fault.Action, fault.Times = createRoute, 1
		f.Inject(fault)
		err := make1(t, c, add(table, fmt.Sprintf("10.5.%d.0/24", i), a))
		if wantKind(t, err, cloud.Unavailable); f.Count(createRoute) != 1 {
			t.Errorf("%+v: %d calls", fault, f.Count(createRoute))
		}
	}
}

func TestFullTableIsReported(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 3 })
	var err error
	for i := range 4 {
		if err = make1(t, c, add(table, fmt.Sprintf("10.4.%d.0/24", i), a)); err != nil {
			break
		}
	}
	if wantKind(t, err, cloud.Full); !strings.Contains(fmt.Sprint(err), "L-93826ACB") {
		t.Error(err)
	}
	if err := make1(t, c, add(table, "fd00:10:4::/64", a)); err != nil {
		t.Errorf("the other family has a quota of its own: %v", err)
	}
}

func TestRefusesInvalidChanges(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	for _, r := range []cloud.RouteChange{
		{}, {Table: table}, add("rtb-*", "10.4.0.0/24", a), add(table, "10.4.0.1/24", a), add(table, "10.4.0.0/24", cloud.Instance{ID: "x"}),
		add(table, "10.4.0.0/24", cloud.Instance{ID: a.ID, Interface: "eni"}), {Table: table, Verb: "drop", Destination: netip.MustParsePrefix("10.4.0.0/24")},
	} {
		wantKind(t, make1(t, c, r), cloud.Refused)
	}
	wantKind(t, c.Forward(t.Context(), cloud.Instance{ID: a.ID}), cloud.Refused)
	if n := len(f.Calls()); n > 0 {
		t.Errorf("%d calls", n)
	}
}

func TestForwardTurnsTheCheckOff(t *testing.T) {
	f, c, _, a, b := newRoutes(t)
	if err := c.Forward(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if !f.Instance(a.ID).Forwards || f.Instance(b.ID).Forwards {
		t.Error("it was turned off elsewhere")
	}
	got, err := newClient(t, "").Instances(t.Context(), []string{a.ProviderID, b.ProviderID})
	if err != nil || !got[a.ProviderID].Forwards || got[b.ProviderID].Forwards {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestQuotaIsReadOnce: the client reads the quota once an hour. Without the permission, it
// assumes the default one.
func TestQuotaIsReadOnce(t *testing.T) {
	f, c, _, _, _ := newRoutes(t)
	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 750 })
	for range 3 {
		all, err := c.Tables(t.Context())
		if err != nil || all[0].Quota != (cloud.Quota{Most: subnet.Pair[int]{750, 750}}) {
			t.Errorf("%+v, %v", all, err)
		}
	}
	if n := f.Count(getQuota); n != 1 {
		t.Errorf("%d calls", n)
	}
	f.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{getQuota: true} })
	all, err := newClient(t, "").Tables(t.Context())
	if err != nil || all[0].Quota.Most != (subnet.Pair[int]{usualRoutes, usualRoutes}) || !strings.Contains(all[0].Quota.Assumed, "allow servicequotas:GetServiceQuota") {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestQuotaIsReadAgainWhileATableIsFull: a quota that is raised counts after a minute if a
// table is full, because Nodes wait for it. While no table is full, it is read less often.
func TestQuotaIsReadAgainWhileATableIsFull(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 10 })
	most := func() int {
		t.Helper()
		all, err := c.Tables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Quota.Most[subnet.IPv4]
	}
	aged := func(d time.Duration) {
		c.most.mu.Lock()
		defer c.most.mu.Unlock()
		c.most.read = c.most.read.Add(-d)
	}
	if most() != 10 {
		t.Error("the quota is not read")
	}
	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 20 })
	if aged(2 * quotaFull); most() != 10 {
		t.Error("the quota is read again, and no table is full")
	}
	for i := range 9 { // and the network's own
		f.SetRoute(table, fmt.Sprintf("10.4.%d.0/24", i), a.ID)
	}
	if most() != 20 {
		t.Error("the quota was raised, and the table still counts as full")
	}
	if n := f.Count(getQuota); n != 2 {
		t.Errorf("%d reads of the quota, want 2", n)
	}
}

// TestBurstStaysBelowTheLimitsOfAWS: the limiter paces a burst of changes, so that AWS, with
// the published buckets, refuses none of them.
func TestBurstStaysBelowTheLimitsOfAWS(t *testing.T) {
	f, c, table, a, _ := newRoutes(t)
	f.Set(func(s *awstest.Settings) { s.Buckets = awstest.Published() })
	var all []cloud.RouteChange
	for i := range 55 {
		all = append(all, add(table, fmt.Sprintf("10.4.%d.0/24", i), a))
	}
	for _, err := range c.ChangeRoutes(within(t, time.Minute), all) {
		if err != nil {
			t.Error(err)
		}
	}
	for call, n := range c.Calls() {
		if call.Outcome == cloud.Throttled.String() {
			t.Errorf("%d calls of %s were refused", n, call.Action)
		}
	}
	if n := f.Count(createRoute); n != 55 {
		t.Errorf("%d calls", n)
	}
}

// TestClientsOfAnAccountShareItsBudgets: two Clients have one limiter, unless they are in
// different regions or have different roles.
func TestClientsOfAnAccountShareItsBudgets(t *testing.T) {
	_, c := newAccount(t)
	for name, other := range map[string]struct {
		config Config
		shares bool
	}{
		"same":           {Config{Region: c.Region()}, true},
		"another region": {Config{Region: "ap-south-1"}, false},
		"another role":   {Config{Region: c.Region(), RoleARN: "arn:aws:iam::123456789012:role/other"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			beside, err := New(t.Context(), Options{Networks: true, Config: other.config, Share: 1, Agent: "test", Beside: c})
			if err != nil {
				t.Fatal(err)
			}
			if shares := beside.limiter == c.limiter; shares != other.shares {
				t.Errorf("shares: %t", shares)
			}
		})
	}
}
