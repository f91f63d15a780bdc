package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/subnet"
)

// zone is that of all instances here.
const zone = "europe-west1-b"

// newGoogle returns an API server whose Nodes have instances at the second server.
func newGoogle(t *testing.T, n int, aliases ...string) (cluster, *gcetest.Server) {
	t.Helper()
	c, g := newCluster(t), gcetest.New(t)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(g.URL, "http://"))
	c.Do(func() {
		for i := range n {
			node := large(i)
			node.Spec.ProviderID = gcetest.ID(zone, node.Name)
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "NoRouteCreated"})
			c.Change("ADDED", node)
		}
	})
	for i := range n {
		if i < len(aliases) {
			g.Add(zone, fmt.Sprintf("node-%d", i), "pods", aliases[i])
		} else {
			g.Add(zone, fmt.Sprintf("node-%d", i), "pods")
		}
	}
	return c, g
}

// google returns flags of an allocator that uses the server.
func google(g *gcetest.Server, allocator string, more ...string) []string {
	return append([]string{"--leader-elect=false", "--cidr-allocator-type=" + allocator, "--gce-api-endpoint=" + g.Endpoint(), "--gce-secondary-range=pods"}, more...)
}

// awaitRouted waits until every Node has what its instance has, and pods may come.
func (c cluster) awaitRouted(g *gcetest.Server) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() (err error) {
		nodes := make(map[string]*corev1.Node)
		c.Do(func() {
			for name, n := range c.Nodes {
				nodes[name] = n.DeepCopy()
			}
		})
		for name, n := range nodes {
			last := n.Status.Conditions[len(n.Status.Conditions)-1]
			if got := g.Aliases(zone, name); len(got) == 0 || !slices.Equal(got, n.Spec.PodCIDRs) || last.Type != "NetworkUnavailable" || last.Status != "False" {
				err = fmt.Errorf("%s has %q, its instance %q, NetworkUnavailable=%s", name, n.Spec.PodCIDRs, got, last.Status)
			}
		}
		return err
	})
	c.wantDistinct()
}

func TestGoogleGivesOutRanges(t *testing.T) {
	for _, allocator := range []string{cloudAllocator, fromCloudAllocator} {
		c, g := newGoogle(t, 3, "10.64.7.0/24", "10.64.8.0/24", "10.64.9.0/24")
		r := c.start(google(g, allocator)...)
		c.awaitRouted(g)
		r.await("every Node has its podCIDRs")
		if g.Asked("instances.list") != 1 || g.Asked("") != 1 {
			t.Errorf("%s: %d requests", allocator, g.Asked(""))
		}
		now := r.read(t.Context())
		if n := now.calls[cloud.Call{Action: "instances.list", Outcome: "ok"}]; n != 1 || !now.ready() || !strings.Contains(page.Lines(now.checks(), true), "[+]instances ok: looked up") {
			t.Errorf("%v, %s", now.calls, page.Lines(now.checks(), true))
		}
		answer := httptest.NewRecorder()
		metricsHandler(r.read).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if text := answer.Body.String(); !strings.Contains(text, `tulle_controller_cloud_calls_total{action="instances.list",outcome="ok"} 1`) {
			t.Error(text)
		}
		r.stop()
	}
}

func TestTheClusterGivesOutRangesToGoogle(t *testing.T) {
	c, g := newGoogle(t, 20)
	g.Do(func() { g.Secondary = map[string]netip.Prefix{"pods": netip.MustParsePrefix("10.64.0.0/14")} })
	var out bytes.Buffer
	flags := c.flags(google(g, fromClusterAllocator)...)
	if err := settingsOf(t, append([]string{"plan"}, flags...)...).plan(&out); !errors.Is(err, errPending) {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "patch  Instance node-0   add alias range 10.64.0.0/24 of pods") || !strings.Contains(text, "20 to write") {
		t.Error(text)
	}
	if n := g.Asked("instances.updateNetworkInterface"); n > 0 {
		t.Errorf("the plan made %d changes", n)
	}
	r := c.start(google(g, fromClusterAllocator)...)
	c.awaitRouted(g)
	r.stop()
	if n := g.Asked("instances.updateNetworkInterface"); n != 20 {
		t.Errorf("%d changes", n)
	}
	out.Reset()
	if err := settingsOf(t, append([]string{"plan"}, flags...)...).plan(&out); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

// Without a permission the program goes on, and names the missing one.
func TestGoogleRefusesEverything(t *testing.T) {
	c, g := newGoogle(t, 2, "10.64.7.0/24", "10.64.8.0/24")
	g.Do(func() {
		g.Refuse = func(string) *gcetest.Fault {
			return &gcetest.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.instances.list' permission for 'projects/my-project-1'"}
		}
	})
	if err := settingsOf(t, append([]string{"plan"}, c.flags(google(g, cloudAllocator)...)...)...).plan(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "grant the service account compute.instances.list") {
		t.Errorf("%v", err)
	}
	r := c.start(google(g, cloudAllocator)...)
	kerneltest.Eventually(t, patience, func() error {
		if text := page.Lines(r.read(t.Context()).checks(), true); !strings.Contains(text, "grant the service account compute.instances.list") || strings.Contains(text, gcetest.Token) {
			return errors.New(text)
		}
		return nil
	})
	g.Do(func() { g.Refuse = nil })
	c.awaitRouted(g)
}

func TestWithoutGooglesCredentials(t *testing.T) {
	c, g := newGoogle(t, 0)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
	_, err := settingsOf(t, c.flags(google(g, cloudAllocator)...)...).connect()
	if err == nil || !strings.Contains(err.Error(), "GOOGLE_APPLICATION_CREDENTIALS") || !strings.Contains(err.Error(), "--cidr-allocator-type=CloudAllocator") {
		t.Errorf("%v", err)
	}
}

func TestGoogleFlagsThatDoNotGoTogether(t *testing.T) {
	for args, part := range map[string]string{
		"--cluster-cidr=10.4.0.0/16 --gce-project=my-project-1":                                 "no effect",
		"--cluster-cidr=10.4.0.0/16 --gce-secondary-range=pods":                                 "no effect",
		"--cidr-allocator-type=IPAMFromCluster":                                                 "needs --cluster-cidr",
		"--cidr-allocator-type=IPAMFromCluster --cluster-cidr=fd00::/56":                        "are IPv4",
		"--cidr-allocator-type=IPAMFromCluster --cluster-cidr=10.4.0.0/16,fd00::/56":            "are IPv4",
		"--cidr-allocator-type=CloudAllocator --gce-project=A":                                  "not the ID of a project",
		"--cidr-allocator-type=CloudAllocator --gce-secondary-range=a/b":                        "not the name of a secondary range",
		"--cidr-allocator-type=CloudAllocator --gce-api-endpoint=compute.googleapis.com":        "URL",
		"--cidr-allocator-type=Cloud --cluster-cidr=10.4.0.0/16":                                "unknown allocator",
		"--cidr-allocator-type=CloudAllocator":                                                  "",
		"--cidr-allocator-type=IPAMFromCloud --service-cluster-ip-range=fd00::/112,10.0.0.0/20": "",
	} {
		var s settings
		given, err := s.program().Read(append([]string{"--allocate-node-cidrs"}, strings.Fields(args)...), nil)
		if err == nil {
			err = given.Apply()
		}
		if err == nil {
			err = s.check(given)
		}
		if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestFamiliesOfACloud(t *testing.T) {
	v4, v6 := subnet.IPv4, subnet.IPv6
	for args, want := range map[string][]subnet.Family{
		"": {v4}, "--cluster-cidr=fd00::/56,10.4.0.0/16": {v6, v4}, "--service-cluster-ip-range=fd00::/112": {v6},
		"--service-cluster-ip-range=10.0.0.0/20 --secondary-service-cluster-ip-range=fd00::/112": {v4, v6},
		"--cluster-cidr=10.4.0.0/16 --service-cluster-ip-range=fd00::/112":                       {v4},
	} {
		s := settingsOf(t, append([]string{"--allocate-node-cidrs", "--cidr-allocator-type=CloudAllocator"}, strings.Fields(args)...)...)
		if got := s.families(); !slices.Equal(got, want) {
			t.Errorf("%q: %v", args, got)
		}
	}
}
