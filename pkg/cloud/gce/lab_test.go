package gce

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

// request1 and request2 are IDs of changes.
const (
	request1 = "11111111-2222-4333-8444-555555555555"
	request2 = "11111111-2222-4333-8444-666666666666"
)

// client returns a Client of the server.
func client(t testing.TB, s *gcetest.Server) *Client {
	t.Helper()
	c, err := NewWith(Options{Project: gcetest.Project, Endpoint: s.Endpoint(), Agent: "test"}, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: gcetest.Token}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within returns a context that ends after a time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// one returns what the client reads of an instance.
func one(t testing.TB, c *Client, id string) cloud.Instance {
	t.Helper()
	all, err := c.Instances(within(t, time.Minute), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	return all[id]
}

// untilWaited returns a context that ends when the server was asked for n more waits.
func untilWaited(t testing.TB, s *gcetest.Server, n int) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	n += s.Asked(waitOperation)
	go func() {
		defer cancel()
		for s.Asked(waitOperation) < n && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
	}()
	return ctx
}

// change returns the change that adds a range to an instance as it is now.
func change(t testing.TB, c *Client, id, add, request string) cloud.Change {
	t.Helper()
	return cloud.Change{ID: id, Version: one(t, c, id).Version, Add: cloud.Alias{Range: netip.MustParsePrefix(add), From: "pods"}, Request: request}
}

// fill adds n instances to a zone, and returns their provider IDs.
func fill(s *gcetest.Server, zone string, n int) (ids []string) {
	for i := range n {
		name := fmt.Sprintf("worker-%04d", i)
		s.Add(zone, name, "pods", fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255))
		ids = append(ids, gcetest.ID(zone, name))
	}
	return ids
}

// routing returns a Client of the server that writes routes, in a network of the server.
func routing(t testing.TB, s *gcetest.Server) *Client {
	t.Helper()
	s.AddNetwork("default", "10.128.0.0/16")
	c, err := NewWith(Options{
		Project: gcetest.Project, Endpoint: s.Endpoint(), Cluster: "prod", Config: Config{Network: "default"}, Transport: s.Transport(),
	}, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: gcetest.Token}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fault returns a Refuse that gives these faults in turn to one action.
func fault(action string, all ...*gcetest.Fault) func(string) *gcetest.Fault {
	return func(asked string) *gcetest.Fault {
		if asked != action || len(all) == 0 {
			return nil
		}
		first := all[0]
		all = all[1:]
		return first
	}
}
