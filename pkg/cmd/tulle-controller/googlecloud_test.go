package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// newProject returns an API server with n Nodes that wait for their instances in the
// project of the second server.
func newProject(t *testing.T, n int) (cluster, *gcetest.Server) {
	t.Helper()
	c, g := newGoogle(t, n)
	g.AddNetwork("default", "10.128.0.0/16")
	c.Do(func() {
		c.Serves["api/v1/configmaps"] = "ConfigMap"
		for _, node := range c.Nodes {
			node = node.DeepCopy()
			node.Spec.ProviderID = ""
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"})
			c.Change("MODIFIED", node)
		}
	})
	return c, g
}

// onGCE are flags for the project of the server.
func onGCE(t *testing.T, g *gcetest.Server, more ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gce.conf")
	text := "[global]\nproject-id = " + gcetest.Project + "\nnetwork-name = default\nnode-tags = nodes\napi-endpoint = " + g.Endpoint() + "\ntoken-url = nil\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"--cloud-provider=gce", "--cluster-name=prod", "--cloud-config=" + file, "--leader-elect=false"}, more...)
}

// routedOnGCE returns why a Node is not initialised, or not routed to its instance.
func (c cluster) routedOnGCE(g *gcetest.Server, i int) error {
	node := c.Node(large(i).Name)
	if waits(node) || node.Spec.ProviderID != gcetest.ID(zone, node.Name) || node.Labels["topology.kubernetes.io/zone"] != zone || node.Labels["node.kubernetes.io/instance-type"] != "e2-standard-4" {
		return fmt.Errorf("%s has the provider ID %q, the taints %v and the labels %v", node.Name, node.Spec.ProviderID, node.Spec.Taints, node.Labels)
	}
	if got := g.RoutesTo(node.Spec.PodCIDR); !slices.Equal(got, []string{node.Name}) {
		return fmt.Errorf("%s of %s leads to %q", node.Spec.PodCIDR, node.Name, got)
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == "NetworkUnavailable" && cond.Status == "False" && cond.Reason == "RouteCreated" {
			return nil
		}
	}
	return fmt.Errorf("%s does not know its route", node.Name)
}

func (c cluster) awaitOnGCE(g *gcetest.Server, nodes ...int) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		for _, i := range nodes {
			if err := c.routedOnGCE(g, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// The three controllers and node IPAM serve Nodes on Google: they are initialised, get
// podCIDRs and routes, and what is changed by hand is changed back.
func TestNodesOnGoogle(t *testing.T) {
	c, g := newProject(t, 12)
	g.Put(gcetest.Route{Name: "by-hand", Network: g.NetworkURL("default"), DestRange: "10.99.0.0/24", Priority: 1000, NextHopInstance: g.InstanceURL(zone, "node-0")})
	settings := settingsOf(t, c.flags(onGCE(t, g)...)...)
	settings.route.period, settings.route.grace = time.Second, time.Second
	p, err := settings.connect()
	if err != nil {
		t.Fatal(err)
	}
	r := c.run(p)
	c.awaitOnGCE(g, upTo(12)...)
	r.await("every Node is routed")
	if n := g.Asked("routes.insert"); n != 12 {
		t.Errorf("%d inserts", n)
	}
	if n := g.Asked("instances.aggregatedList") + g.Asked("instances.list") + g.Asked("instances.get"); n > 12 {
		t.Errorf("%d reads of instances", n)
	}
	// A route of ours is removed by hand: it comes back.
	for name, route := range g.Routes() {
		if strings.HasPrefix(name, "prod-") && strings.HasSuffix(route.NextHopInstance, "/node-3") {
			g.Drop(name)
		}
	}
	c.awaitOnGCE(g, upTo(12)...)
	// A Node that is gone loses its route, and the foreign one stays.
	gone := c.Node("node-5").Spec.PodCIDR
	c.Do(func() { c.Change("DELETED", c.Nodes["node-5"]) })
	kerneltest.Eventually(t, patience, func() error {
		if got := g.RoutesTo(gone); len(got) > 0 {
			return fmt.Errorf("%s leads to %q", gone, got)
		}
		return nil
	})
	if _, there := g.Routes()["by-hand"]; !there {
		t.Error("the foreign route is gone")
	}
}

// A restart finds its routes, and those of Google's own controller, and makes no change.
func TestARestartOnGoogleChangesNothing(t *testing.T) {
	c, g := newProject(t, 3)
	r := c.start(onGCE(t, g)...)
	c.awaitOnGCE(g, upTo(3)...)
	r.stop()
	for name, route := range g.Routes() { // as Google's own controller names it
		if strings.HasPrefix(name, "prod-") && strings.HasSuffix(route.NextHopInstance, "/node-1") {
			g.Drop(name)
			route.Name = "prod-0b1c5b0e-7c1f-4c2e-9a53-0d6a8ff6f1a1"
			g.Put(route)
		}
	}
	changes := g.Asked("routes.insert") + g.Asked("routes.delete")
	var out bytes.Buffer
	if err := settingsOf(t, append([]string{"plan"}, c.flags(onGCE(t, g)...)...)...).plan(&out); err != nil || strings.Contains(out.String(), "delete") {
		t.Errorf("%v: %s", err, out.String())
	}
	r = c.start(onGCE(t, g)...)
	r.await("every Node is routed")
	if n := g.Asked("routes.insert") + g.Asked("routes.delete"); n != changes {
		t.Errorf("%d changes", n-changes)
	}
}

// An instance that may not forward keeps its Node unrouted, and the reason is named.
func TestAnInstanceOnGoogleThatCannotForward(t *testing.T) {
	c, g := newProject(t, 2)
	g.Change(zone, "node-1", func(i *gcetest.Instance) { i.CanIPForward = false })
	r := c.start(onGCE(t, g)...)
	c.awaitOnGCE(g, 0)
	kerneltest.Eventually(t, patience, func() error {
		for _, f := range r.read(t.Context()).routes.Findings {
			if f.Node == "node-1" && f.Code == "no-forwarding" && strings.Contains(f.Text, "--can-ip-forward") {
				return nil
			}
		}
		return errors.New("no finding names it")
	})
}

// Google takes long, and fails now and then. Every Node is routed in the end, with one
// insert a route that was not refused.
func TestGoogleIsSlowAndFails(t *testing.T) {
	c, g := newProject(t, 6)
	n := 0
	g.Do(func() {
		g.Lasts = 300 * time.Millisecond
		g.Refuse = func(action string) *gcetest.Fault {
			if n++; n%5 > 0 {
				return nil
			}
			return []*gcetest.Fault{{Code: 429, Reason: "rateLimitExceeded"}, {Code: 503}, {Code: 403, Reason: "rateLimitExceeded"}}[n/5%3]
		}
		g.Lose = func(action string) bool { return n%7 == 0 }
	})
	c.start(onGCE(t, g)...)
	c.awaitOnGCE(g, upTo(6)...)
}

func TestSettingsOnGoogle(t *testing.T) {
	for args, part := range map[string]string{
		"--cloud-provider=gce": "needs the cluster's name", "--cloud-provider=google --cluster-name=prod": "", "--cloud-provider=gce --cluster-name=Prod": "not the beginning of a route's name",
		"--cloud-provider=gce --cluster-name=prod --controllers=service": "does not run on this cloud", "--cloud-provider=gce --cluster-name=prod --aws-api-share=10": "has no effect",
		"--cloud-provider=gce --cluster-name=prod --gce-project=my-project-1": "", "--cloud-provider=gce --cluster-name=prod --gce-secondary-range=pods": "has no effect",
		"--cloud-provider=gce --cluster-name=prod --allocate-node-cidrs --cidr-allocator-type=CloudAllocator":                              "",
		"--cloud-provider=gce --cluster-name=prod --allocate-node-cidrs --cidr-allocator-type=CloudAllocator --controllers=route,nodeipam": "Google itself routes",
		"--cloud-provider=aws --cluster-name=prod --allocate-node-cidrs --cidr-allocator-type=CloudAllocator":                              "is Google's",
		"--cloud-provider=gce --cluster-name=prod --gce-route-limit=200 --gce-api-share=10":                                                "", "--cloud-provider=gce --cluster-name=prod --gce-route-limit=-1": "--gce-route-limit",
		"--cloud-provider=gce --cluster-name=prod --cloud-config=/nonexistent": "no such file",
	} {
		var s settings
		given, err := s.program().Read(strings.Fields(args), nil)
		if err == nil {
			err = given.Apply()
		}
		if err == nil {
			err = s.check(given)
		}
		if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%s: %v", args, err)
		}
		if refused, is := errors.AsType[*flags.Error](err); is && refused.Fix == "" {
			t.Errorf("%s: %v has no fix", args, err)
		}
	}
}
