package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// site is a cluster on AWS: Nodes with podCIDRs, their instances, and tagged tables.
type site struct {
	cluster
	aws       *awstest.Server
	tables    []string
	instances []awstest.Instance
}

const siteName = "prod"

// newSite returns a cluster of n Nodes, and a table in each zone. Programs in this process find
// the account.
func newSite(t *testing.T, n, tables int) *site {
	s := newSiteOfProcesses(t, n, tables)
	s.aws.Setenv(t)
	return s
}

// newSiteOfProcesses is newSite for processes of the program.
func newSiteOfProcesses(t *testing.T, n, tables int) *site {
	s := &site{cluster: newCluster(t), aws: awstest.New(t)}
	s.Do(func() { s.Serves["api/v1/configmaps"] = "ConfigMap" })
	tag := map[string]string{"kubernetes.io/cluster/" + siteName: "owned"}
	for range tables {
		s.tables = append(s.tables, s.aws.AddTable(s.aws.Default().VPC, tag))
	}
	if n > 0 {
		s.launch(n)
	}
	return s
}

// launch adds n Nodes with their instances.
func (s *site) launch(n int) {
	s.t.Helper()
	client := s.Client()
	defer client.CloseIdleConnections()
	for _, i := range s.aws.Launch(awstest.Launch{Count: n, Tags: map[string]string{"kubernetes.io/cluster/" + siteName: "owned"}}) {
		node := large(len(s.instances))
		node.Spec.ProviderID = fmt.Sprintf("aws:///%s/%s", i.Zone, i.ID)
		node.Spec.PodCIDR = s.cidr(len(s.instances))
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "NoRouteCreated"})
		s.instances = append(s.instances, i)
		s.post(client, node)
	}
}

func (s *site) cidr(i int) string { return fmt.Sprintf("10.64.%d.0/24", i) }

// routing are flags with which the program keeps routes alone.
func (s *site) routing(more ...string) []string {
	return append([]string{"--controllers=" + route.Name, "--cloud-provider=aws", "--cluster-name=" + siteName}, more...)
}

// startQuick runs the program for routes alone, with times that are too short for a flag.
func (s *site) startQuick() *running {
	s.t.Helper()
	settings := settingsOf(s.t, s.flags(s.routing()...)...)
	settings.route.period, settings.route.grace = time.Second, time.Second
	p, err := settings.connect()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.run(p)
}

// routed returns why a Node is not routed in every table, or does not know it.
func (s *site) routed(i int) error {
	for _, id := range s.tables {
		ok := false
		for _, r := range s.aws.Routes(id) {
			ok = ok || r.Destination == s.cidr(i) && r.Target == s.instances[i].Interface && r.State == "active"
		}
		if !ok {
			return fmt.Errorf("%s has no route of %s", id, s.cidr(i))
		}
	}
	for _, c := range s.Node(large(i).Name).Status.Conditions {
		if c.Type == "NetworkUnavailable" && c.Status == "False" && c.Reason == "RouteCreated" {
			return nil
		}
	}
	return fmt.Errorf("%s does not know its route", large(i).Name)
}

// await waits until these Nodes are routed.
func (s *site) await(nodes ...int) {
	s.t.Helper()
	kerneltest.Eventually(s.t, patience, func() error {
		for _, i := range nodes {
			if err := s.routed(i); err != nil {
				return err
			}
		}
		return nil
	})
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Fifty Nodes on AWS's real client cost a reading of each kind, a write of each route and
// one of each instance whose addresses are checked; not the 258 calls of the AWS cloud
// controller manager.
func TestFiftyNodesOnAWS(t *testing.T) {
	s := newSite(t, 50, 1)
	r := s.start(s.routing()...)
	s.await(upTo(50)...)
	t.Logf("calls: %v", s.aws.Counts())
	if n := s.aws.Count(""); n > 110 || s.aws.Count("CreateRoute") != 50 || s.aws.Count("DescribeRouteTables") != 1 {
		t.Errorf("%d calls: %v", n, s.aws.Counts())
	}
	for _, i := range s.instances {
		if !s.aws.Instance(i.ID).Forwards {
			t.Errorf("%s checks source and destination", i.ID)
		}
	}
	r.await("every Node is routed")
	// Another Node: no list, one write.
	lists := s.aws.Count("DescribeRouteTables")
	s.launch(1)
	s.await(50)
	if n := s.aws.Count("CreateRoute"); n != 51 || s.aws.Count("DescribeRouteTables") > lists+1 {
		t.Errorf("calls: %v", s.aws.Counts())
	}
	// What the program says of it.
	status := r.get(t, "/statusz")
	for _, part := range []string{"51 of 51", "Routes in the cloud", s.tables[0]} {
		if !strings.Contains(status, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	metrics := r.get(t, "/metrics")
	for _, part := range []string{
		`tulle_controller_route_nodes{code="routed"} 51`, `tulle_controller_routes_owned 51`, `tulle_controller_routes_quota{family="IPv4",table="` + s.tables[0] + `"} 500`,
		`tulle_controller_cloud_calls_total{action="CreateRoute",outcome="ok"} 51`,
	} {
		if !strings.Contains(metrics, part) {
			t.Errorf("the metrics lack %q", part)
		}
	}
}

// get returns what the program serves.
func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	w := newAnswer()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mux().ServeHTTP(w, request)
	return w.text.String()
}

// recorded is the answer to a request.
type recorded struct {
	text   strings.Builder
	header http.Header
}

func newAnswer() *recorded { return &recorded{header: make(http.Header)} }

func (w *recorded) Header() http.Header            { return w.header }
func (w *recorded) WriteHeader(int)                {}
func (w *recorded) Write(text []byte) (int, error) { return w.text.Write(text) }

// Faults 7 to 11 on AWS's real client: nothing of others is lost, and every Node that can
// be routed is.
func TestFaultsOnAWS(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"throttled":  {Action: "CreateRoute", Times: 5, Answer: awstest.Throttled},
		"500":        {Action: "CreateRoute", Times: 5, Answer: &awstest.Error{Status: 500, Code: "InternalError", Message: "an internal error"}},
		"lost":       {Action: "CreateRoute", Times: 5, Lose: true},
		"reset":      {Action: "CreateRoute", Times: 5, Reset: true},
		"half lists": {Action: "DescribeRouteTables", Times: 2, Half: true},
		"half":       {Action: "DescribeInstances", Times: 2, Half: true},
		"half write": {Action: "CreateRoute", Times: 5, Half: true},
	} {
		s := newSite(t, 8, 2) // here, because a parallel test may not set variables
		s.aws.SetRoute(s.tables[0], "10.64.200.0/24", s.aws.Default().Main)
		s.aws.SetRoute(s.tables[1], s.cidr(3), s.aws.Launch(awstest.Launch{})[0].ID) // taken by hand
		s.aws.Inject(fault)
		s.startQuick()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.t = t
			s.await(0, 1, 2, 4, 5, 6, 7)
			if err := s.routed(3); err == nil {
				t.Error("the route taken by hand was replaced")
			}
		})
	}
}

// Credentials that were revoked remove nothing, and work again when they are back.
func TestRevokedCredentialsOnAWS(t *testing.T) {
	s := newSite(t, 4, 2)
	r := s.startQuick()
	s.await(upTo(4)...)
	s.aws.ChangeKey(func(k *awstest.Key) { k.Refused = awstest.AuthFailure })
	s.Do(func() { s.Change("DELETED", s.stored(3)) })
	s.launch(1)
	kerneltest.Eventually(t, patience, func() error {
		for _, f := range r.read(t.Context()).state.Feeds {
			if f.What == "route tables" && f.Problem != "" {
				return nil
			}
		}
		return errors.New("the tables can be read")
	})
	for _, id := range s.tables {
		if n := len(s.aws.Routes(id)); n < 5 {
			t.Errorf("%s has %d routes", id, n)
		}
	}
	s.aws.ChangeKey(func(k *awstest.Key) { k.Refused = nil })
	s.await(0, 1, 2, 4)
	kerneltest.Eventually(t, patience, func() error {
		for _, id := range s.tables {
			for _, v := range s.aws.Routes(id) {
				if v.Destination == s.cidr(3) {
					return fmt.Errorf("%s still has %+v", id, v)
				}
			}
		}
		return nil
	})
}

// stored returns a Node. Call it inside Do.
func (s *site) stored(i int) *corev1.Node {
	n := large(i)
	n.UID = ""
	return n
}

func TestRoutesPlanAndExplain(t *testing.T) {
	s := newSite(t, 2, 1)
	run := func(code int, args ...string) string {
		t.Helper()
		var out strings.Builder
		err := run(append(args, s.flags(s.routing()...)...), nil, &out)
		if got := exit(err, &out); got != code {
			t.Errorf("%q ended with %d:\n%s", args, got, out.String())
		}
		return out.String()
	}
	text := run(exitPending, "plan")
	for _, part := range []string{"create  Route " + s.tables[0], "before: none; after: " + s.instances[0].ID, "ledger: " + s.tables[0] + " " + s.instances[0].Interface, "of 500 routes, 49", "ConfigMap tulle-controller-routes"} {
		if !strings.Contains(text, part) {
			t.Errorf("the plan lacks %q:\n%s", part, text)
		}
	}
	text = run(exitFine, "explain", large(0).Name)
	for _, part := range []string{route.Name, "NOT", "route 10.64.0.0/24 in " + s.tables[0], "is about to be written"} {
		if !strings.Contains(text, part) {
			t.Errorf("explain lacks %q:\n%s", part, text)
		}
	}
	var a struct{ Routes []routeAnswer }
	if err := json.Unmarshal([]byte(run(exitFine, "routes", "--output=json")), &a); err != nil || len(a.Routes) < 3 {
		t.Errorf("%v, %+v", err, a)
	}
	if s.aws.Count("CreateRoute") > 0 {
		t.Error("a plan wrote")
	}
	if text := run(exitFailing, "explain", "worker-of-others"); !strings.Contains(text, "knows a Node") {
		t.Error(text)
	}
}
