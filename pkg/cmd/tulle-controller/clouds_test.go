package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/subnet"
)

// leased is a network in etcd of hosts in a cloud.
type leased struct {
	flags     []string
	addresses []string // of the hosts
	// leads reports whether a subnet is routed to a host.
	leads func(k int, to string) bool
}

func leasedOnAzure(t *testing.T, n int) (l leased) {
	s := azuretest.New(t)
	s.Setenv(t)
	l.flags = []string{"--cloud-provider=azure", "--cloud-config=" + s.Config()}
	for k := range n {
		m := s.Add(azuretest.Machine{Name: fmt.Sprint("host-", k), IPv4: fmt.Sprint("10.0.1.", k+4)})
		l.addresses = append(l.addresses, m.IPv4)
	}
	l.leads = func(k int, to string) bool {
		hops, _ := s.Routes()
		return hops[to] == l.addresses[k]
	}
	return l
}

func leasedOnGoogle(t *testing.T, n int) (l leased) {
	g := newProjectOnly(t)
	l.flags = onGCE(t, g)[:3] // with an election
	for k := range n {
		g.Add(zone, fmt.Sprint("host-", k), "")
		l.addresses = append(l.addresses, fmt.Sprint("10.128.0.", k+2))
	}
	l.leads = func(k int, to string) bool {
		got := g.RoutesTo(to)
		return len(got) == 1 && got[0] == fmt.Sprint("host-", k)
	}
	return l
}

// newProjectOnly returns a project of Google with a network, whose metadata server this
// process uses.
func newProjectOnly(t *testing.T) *gcetest.Server {
	t.Helper()
	g := gcetest.New(t)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(g.URL, "http://"))
	g.AddNetwork("default", "10.128.0.0/16")
	return g
}

// TestRoutesFromEtcdOnAzureAndGoogle: without Kubernetes, the leases in etcd are routed, and
// nodes with the backend cloud can read that. A lease that is gone loses its route. This takes
// seconds: each cloud has an etcd server, and a removal waits for its grace and another reading.
func TestRoutesFromEtcdOnAzureAndGoogle(t *testing.T) {
	for name, build := range map[string]func(*testing.T, int) leased{"azure": leasedOnAzure, "gce": leasedOnGoogle} {
		t.Run(name, func(t *testing.T) {
			endpoint := etcdtest.Start(t, etcdtest.Options{}).Endpoints()[0]
			client := etcdtest.Dial(t, endpoint)
			l := build(t, 3)
			const prefix = "/coreos.com/network/"
			key := func(k int) string { return fmt.Sprintf("10.5.%d.0-24", k+1) }
			to := func(k int) string { return fmt.Sprintf("10.5.%d.0/24", k+1) }
			put := func(key, value string) {
				if _, err := client.Put(t.Context(), prefix+key, value); err != nil {
					t.Fatal(err)
				}
			}
			put("config", `{"Network": "10.5.0.0/16", "Backend": {"Type": "alloc"}}`)
			for k, a := range l.addresses {
				put("subnets/"+key(k), fmt.Sprintf(`{"PublicIP": %q, "BackendType": %q}`, a, []string{allocType, nativeType}[k%2]))
			}
			s := settingsOf(t, append([]string{"--etcd-endpoints=" + endpoint, "--healthz-port=0"}, l.flags...)...)
			s.route.period, s.route.grace = time.Second, time.Second // less than the flags allow
			p, err := s.connect()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			r := &running{p, t, cancel, make(chan struct{})}
			go func() {
				defer close(r.ended)
				defer p.close()
				p.run(ctx)
			}()
			t.Cleanup(r.stop)
			await := func(routed ...bool) {
				t.Helper()
				kerneltest.Eventually(t, patience, func() error {
					for k, want := range routed {
						if l.leads(k, to(k)) != want {
							return fmt.Errorf("%s leads to its host: %t", to(k), !want)
						}
					}
					return nil
				})
			}
			await(true, true, true)
			kerneltest.Eventually(t, patience, func() error {
				got, err := client.Get(t.Context(), strings.TrimSuffix(prefix, "/")+subnet.NoticesPrefix, clientv3.WithPrefix())
				if err != nil {
					return err
				}
				for _, kv := range got.Kvs {
					if n, err := subnet.ParseNotice(string(kv.Value)); err == nil && strings.HasSuffix(string(kv.Key), key(1)) && n.Subnets[subnet.IPv4].String() == to(1) {
						return nil
					}
				}
				return fmt.Errorf("no node can read that %s is routed: %v", to(1), got.Kvs)
			})
			if _, err := client.Delete(t.Context(), prefix+"subnets/"+key(2)); err != nil {
				t.Fatal(err)
			}
			await(true, true, false)
		})
	}
}

// hasProblem waits until a check of the program names a problem.
func (r *running) hasProblem(part string) {
	r.t.Helper()
	kerneltest.Eventually(r.t, patience, func() error {
		var all []string
		for _, f := range r.read(context.Background()).state.Feeds {
			all = append(all, f.Problem)
			if strings.Contains(f.Problem, part) {
				return nil
			}
		}
		return fmt.Errorf("the problems are %q", all)
	})
}

// TestCredentialsOfAzureAreRevoked: without credentials nothing is removed and the reason is
// named. Afterwards the program goes on. This takes seconds: the program waits between failed
// readings, and before a removal.
func TestCredentialsOfAzureAreRevoked(t *testing.T) {
	for _, f := range []azuretest.Fault{{Status: http.StatusUnauthorized, Code: "ExpiredAuthenticationToken"}, {Status: http.StatusForbidden, Code: "AuthorizationFailed"}} {
		s := newAzureSite(t) // here, because a parallel test may not set variables
		s.launch(3, nil)
		r := s.start()
		t.Run(f.Code, func(t *testing.T) {
			t.Parallel()
			s.t, r.t = t, t
			s.await(3)
			end := s.azure.Inject(f)
			gone := s.Node(large(1).Name)
			s.Do(func() { s.Change("DELETED", gone) })
			s.launch(1, nil)
			r.hasProblem("Microsoft.Network/routeTables/read")
			if hops, _ := s.azure.Routes(); len(hops) != 3 {
				t.Errorf("%v", hops)
			}
			end()
			kerneltest.Eventually(t, patience, func() error {
				if hops, _ := s.azure.Routes(); hops[s.cidr(1)] != "" {
					return fmt.Errorf("%v", hops)
				}
				return s.routed(3)
			})
		})
	}
}

// TestCredentialsOfGoogleAreRevoked is the same on Google.
func TestCredentialsOfGoogleAreRevoked(t *testing.T) {
	for code, reason := range map[int]string{http.StatusUnauthorized: "authError", http.StatusForbidden: "forbidden"} {
		c, g := newProject(t, 3)
		settings := settingsOf(t, c.flags(onGCE(t, g)...)...)
		settings.route.period, settings.route.grace = time.Second, time.Second
		p, err := settings.connect()
		if err != nil {
			t.Fatal(err)
		}
		r := c.run(p)
		c.awaitOnGCE(g, 0, 1, 2)
		g.Do(func() { g.Refuse = func(string) *gcetest.Fault { return &gcetest.Fault{Code: code, Reason: reason} } })
		cidr := c.Node("node-1").Spec.PodCIDR
		c.Do(func() { c.Change("DELETED", c.Nodes["node-1"]) })
		r.hasProblem("routes.list")
		if got := g.RoutesTo(cidr); len(got) != 1 {
			t.Errorf("%d: %s leads to %q", code, cidr, got)
		}
		g.Do(func() { g.Refuse = nil })
		kerneltest.Eventually(t, patience, func() error {
			if got := g.RoutesTo(cidr); len(got) > 0 {
				return fmt.Errorf("%s leads to %q", cidr, got)
			}
			return nil
		})
		c.awaitOnGCE(g, 0, 2)
		r.stop()
	}
}

// hasGone waits until one Node is deleted, whose machine is gone, and checks that the other
// ones are there. The times of the rules are a sixtieth of the usual ones, so this takes five
// seconds.
func (c cluster) hasGone(start func() *running, gone func()) {
	c.t.Helper()
	was := lifeRules
	lifeRules.Times = lifecycle.Usual.Over(60)
	lifeRules.Times.Hour = time.Second  // a new process deletes nothing in its first hour
	lifeRules.Times.Audit = time.Second // an absent machine counts once a round about all Nodes has seen the others
	c.t.Cleanup(func() { lifeRules = was })
	for _, i := range []int{1, 2} {
		n := c.Node(large(i).Name)
		for k := range n.Status.Conditions {
			if n.Status.Conditions[k].Type == corev1.NodeReady {
				n.Status.Conditions[k].Status = corev1.ConditionUnknown
			}
		}
		c.Do(func() { c.Change("MODIFIED", n) })
	}
	start()
	gone()
	kerneltest.Eventually(c.t, patience, func() (err error) {
		c.Do(func() {
			if c.Nodes[large(1).Name] != nil {
				err = errors.New("the Node is still there")
			}
		})
		return err
	})
	c.Do(func() {
		for _, i := range []int{0, 2, 3} {
			if c.Nodes[large(i).Name] == nil {
				c.t.Errorf("%s is gone, too", large(i).Name)
			}
		}
	})
}

// TestNodesOfAzureWhoseMachinesAreGone: one of two unready Nodes is deleted, whose machine
// Azure no longer has.
func TestNodesOfAzureWhoseMachinesAreGone(t *testing.T) {
	s := newAzureSite(t)
	s.launch(4, nil)
	s.hasGone(func() *running {
		settings := settingsOf(t, "--master="+s.URL, "--healthz-port=0", "--leader-elect=false", "--controllers="+lifecycle.Name, "--cloud-provider=azure", "--cloud-config="+s.config)
		settings.nodes.period = 300 * time.Millisecond // less than the flag allows
		p, err := settings.connect()
		if err != nil {
			t.Fatal(err)
		}
		return s.run(p)
	}, func() { s.azure.Remove(s.machines[1]) })
}

// TestNodesOfGoogleWhoseInstancesAreGone is the same on Google.
func TestNodesOfGoogleWhoseInstancesAreGone(t *testing.T) {
	c, g := newGoogle(t, 4)
	g.AddNetwork("default", "10.128.0.0/16")
	c.hasGone(func() *running {
		settings := settingsOf(t, append([]string{"--master=" + c.URL, "--healthz-port=0", "--controllers=" + lifecycle.Name}, onGCE(t, g)...)...)
		settings.nodes.period = 300 * time.Millisecond // less than the flag allows
		p, err := settings.connect()
		if err != nil {
			t.Fatal(err)
		}
		return c.run(p)
	}, func() { g.Remove(zone, "node-1") })
}
