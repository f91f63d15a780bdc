package etcdtest

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

func (c *Cluster) put(value string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.Client(c.t).Put(ctx, "x", value); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) wants(value string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := c.Client(c.t).Get(ctx, "x")
	if err != nil {
		c.t.Fatal(err)
	}
	got := ""
	if len(r.Kvs) > 0 {
		got = string(r.Kvs[0].Value)
	}
	if got != value {
		c.t.Errorf("x is %q, want %q", got, value)
	}
}

func TestSingleMemberUnderEachFault(t *testing.T) {
	c := Start(t, Options{})
	c.put("a")
	b := c.Snapshot()
	c.put("b")
	c.Member(0).Kill()
	c.Member(0).Restart()
	c.wants("b")
	for range 2 {
		c.Restore(b)
		c.wants("a")
		c.put("c")
	}
	c.DeleteAll("x")
	c.wants("")
	c.put("d")
	c.Compact()
	c.wants("d")
	c.Wipe()
	c.wants("")

	c.put("e")
	c.Member(0).Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
	defer cancel()
	if _, err := c.Client(t).Get(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen etcd: %v", err)
	}
	c.Member(0).Thaw()
	c.wants("e")
}

func TestOtherMembersElectALeader(t *testing.T) {
	c := Start(t, Options{Members: 3})
	c.put("a")
	lost := c.Leader()
	lost.Kill()
	if next := c.Leader(); next == lost {
		t.Error("a dead etcd leads")
	}
	client, err := c.dial(c.Leader().Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(t.Context(), "x", "b"); err != nil {
		t.Error(err)
	}
	lost.Restart()
	c.wants("b")
	b := c.Snapshot()
	c.put("c")
	c.Restore(b)
	c.wants("b")
}

// TestEtcdRunsInANamespace runs an etcd inside a network namespace.
func TestEtcdRunsInANamespace(t *testing.T) {
	ns := kerneltest.NewNS(t, "etcd")
	ns.IP(t, "addr add 198.18.0.250/24 dev lo")
	c := Start(t, Options{Namespace: ns.Name, Addresses: []netip.Addr{netip.MustParseAddr("198.18.0.250")}})
	if want := "http://198.18.0.250:2379"; c.Endpoints()[0] != want {
		t.Errorf("got %v, want %s", c.Endpoints(), want)
	}
	c.put("a")
	c.Member(0).Freeze()
	c.Member(0).Stop()
	c.Member(0).Restart()
	c.wants("a")
	c.Member(0).Freeze() // as a test may leave it
}
