package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/subnet"
)

const network = `{"Network": "10.5.0.0/16"}`

func TestAcquireWaitsForPodCIDR(t *testing.T) {
	l, f := newFakeLab(t)
	f.Gives = nil
	l.SetConfig(`{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"}`)
	got := l.acquire(claim(1))
	l.failing("node-1", leasing, "there is no Node node-1", "NODE_NAME")
	l.create("node-1")
	l.failing("node-1", leasing, "no IPv4 podCIDR", "--allocate-node-cidrs", "10.5.0.0/16", "kubectl patch node node-1")
	l.call(http.MethodPatch, "/node-1", "application/merge-patch+json", map[string]any{"spec": map[string]any{"podCIDRs": []string{"10.5.7.0/24"}}})
	l.failing("node-1", leasing, "no IPv6 podCIDR", "fd00:5::/48")
	l.call(http.MethodDelete, "/node-1", "", nil) // podCIDRs never change
	l.create("node-1", "10.5.7.0/24", "fd00:5:0:7::/64")
	if a := receive(t, got); a.err != nil || a.lease.Key() != "10.5.7.0-24&fd00:5:0:7::-64" {
		t.Errorf("%s, %v", a.lease.Key(), a.err)
	}
	l.failing("node-1", leasing)
}

func TestPodCIDROutsideNetworkIsRefused(t *testing.T) {
	l, _ := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1", "10.6.1.0/24")
	a := receive(t, l.acquire(claim(1)))
	if !errors.Is(a.err, subnet.ErrOutsideNetwork) || !strings.Contains(a.err.Error(), "10.6.1.0/24") || !strings.Contains(a.err.Error(), "10.5.0.0/16") {
		t.Errorf("%+v", a)
	}
}

// TestPublishesWithoutUsableConfig: a node publishes changes of its host also while
// the config is invalid or gone.
func TestPublishesWithoutUsableConfig(t *testing.T) {
	l, _ := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1", "10.5.7.0/24")
	c := claim(1)
	if a := receive(t, l.acquire(c)); a.err != nil {
		t.Fatal(a.err)
	}
	for i, spoil := range []func() error{
		func() error { return os.WriteFile(l.config, []byte("{rubbish"), 0o644) },
		func() error { return os.Remove(l.config) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		c.PublicIP[subnet.IPv4] = ip(fmt.Sprintf("192.0.2.10%d", i))
		if a := receive(t, l.acquire(c)); a.err != nil || a.lease.PublicIP != c.PublicIP || a.lease.Key() != "10.5.7.0-24" {
			t.Errorf("%+v", a)
		}
	}
	l.SetConfig(`{"Network": "10.6.0.0/16"}`)
	if a := receive(t, l.acquire(c)); !errors.Is(a.err, subnet.ErrOutsideNetwork) {
		t.Errorf("by what the config says now: %+v", a)
	}
}

// TestGivenUpWriteIsNoTrouble: a failed write that is no longer wanted is not
// reported, once the Node is right.
func TestGivenUpWriteIsNoTrouble(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1")
	f.Do(func() {
		n := f.Nodes["node-1"].DeepCopy()
		n.Status.Conditions = []corev1.NodeCondition{{Type: kube.NetworkUnavailable, Status: "False", Reason: Up.Reason, Message: Up.Message}}
		f.Change("MODIFIED", n)
	})
	if a := receive(t, l.acquire(claim(1))); a.err != nil {
		t.Fatal(a.err)
	}
	f.Do(func() {
		f.Refuse = func(r *http.Request) *metav1.Status {
			if r.Method == http.MethodPatch {
				return apitest.Refusal(http.StatusServiceUnavailable, "away")
			}
			return nil
		}
	})
	s := l.store("node-1")
	for what, write := range map[string]func(ctx context.Context, other bool) error{
		"patching Node node-1": func(ctx context.Context, other bool) error {
			c := claim(1)
			if other {
				c.PublicIP[subnet.IPv4] = ip("192.0.2.100")
			}
			_, err := s.Acquire(ctx, c)
			return err
		},
		"setting the condition of Node node-1": func(ctx context.Context, other bool) error {
			c := Up
			c.Unavailable = other
			return s.SetNetworkUnavailable(ctx, c)
		},
	} {
		end := l.background(func(ctx context.Context) { _ = write(ctx, true) })
		l.failing("node-1", what, "away")
		end()
		if err := write(t.Context(), false); err != nil {
			t.Error(err)
		}
		if why := s.Status().Failing[what]; why != "" {
			t.Errorf("%s is given up, and fails: %s", what, why)
		}
	}
}

// TestRestartWritesNothing: a restart that finds all in place writes nothing, and
// lists nothing twice.
func TestRestartWritesNothing(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1")
	first, _ := l.leased(1)
	if n := f.Asked("PATCH"); n != 1 {
		t.Errorf("%d writes", n)
	}
	l.restart("node-1")
	again, _ := l.leased(1)
	if again != first {
		t.Errorf("%+v became %+v", first, again)
	}
	s := l.watch("node-1")
	s.await(t, "there", func() bool { return s.leases[first.Key()].Attrs == first.Attrs })
	// One watch of its own Node, and one of all others.
	if p, g := f.Asked("PATCH"), f.Asked("GET")+f.Asked("metadata-only GET"); p != 1 || g != 4 {
		t.Errorf("%d writes, %d lists and watches", p, g)
	}
}

func TestOverwriteReplacesPublicIP(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1")
	l.set("node-1", "public-ip-overwrite", "198.51.100.9")
	own, _ := l.leased(1)
	if own.PublicIP[subnet.IPv4] != ip("198.51.100.9") {
		t.Errorf("acquired %+v", own)
	}
	published := func(want string) {
		t.Helper()
		kerneltest.Eventually(t, soon, func() error {
			if got := f.Node("node-1").Annotations[prefix+"/public-ip"]; got != want {
				return fmt.Errorf("%s is published, not %s", got, want)
			}
			return nil
		})
	}
	published("198.51.100.9")
	l.annotate("node-1", map[string]*string{prefix + "/public-ip-overwrite": nil})
	published("192.0.2.1")
	l.set("node-1", "public-ip-overwrite", "198.51.100.10")
	published("198.51.100.10")
	l.set("node-1", "public-ip-overwrite", "rubbish")
	published("192.0.2.1")
}

func TestFactsFollowTheNode(t *testing.T) {
	l, f := newFakeLab(t)
	// Facts waits until there is a Node.
	first := make(chan error, 1)
	l.background(func(ctx context.Context) {
		_, err := l.store("node-1").Facts(ctx, nil)
		first <- err
	})
	l.failing("node-1", finding, "there is no Node node-1", "NODE_NAME")
	l.create("node-1")
	if err := receive(t, first); err != nil {
		t.Error(err)
	}
	l.failing("node-1", finding)
	known := &Facts{} // what the Node says at first
	next := func(want Facts) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, err := l.store("node-1").Facts(ctx, known)
		if got != want || err != nil {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
		known = &got
	}
	l.set("node-1", "node-public-ip", "198.51.100.1")
	want := Facts{Public: subnet.Pair[netip.Addr]{ip("198.51.100.1")}}
	next(want)
	f.Do(func() {
		n := f.Nodes["node-1"].DeepCopy()
		n.Status.Addresses = []corev1.NodeAddress{{Type: "Hostname", Address: "x"}, {Type: "InternalIP", Address: "192.0.2.1"},
			{Type: "InternalIP", Address: "192.0.2.2"}, {Type: "InternalIP", Address: "2001:db8::1"}, {Type: "ExternalIP", Address: "203.0.113.1"}}
		f.Change("MODIFIED", n)
	})
	want.Internal = subnet.Pair[netip.Addr]{ip("192.0.2.1"), ip("2001:db8::1")}
	want.External[subnet.IPv4] = ip("203.0.113.1")
	next(want)
	l.set("node-1", "public-ipv6-overwrite", "2001:db8::9")
	want.Overwrite[subnet.IPv6] = ip("2001:db8::9")
	next(want)
	l.set("node-1", "node-public-ip", "2001:db8::1") // of the other family
	want.Public = subnet.Pair[netip.Addr]{}
	next(want)
}

// TestRecreatedNodeKeepsLeaseWithSamePodCIDR: a Node that is re-created keeps its
// lease if it gets the same podCIDR, and loses it otherwise.
func TestRecreatedNodeKeepsLeaseWithSamePodCIDR(t *testing.T) {
	l, _ := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1", "10.5.7.0/24")
	own, ended := l.leased(1)
	s := l.watch("node-2")
	s.await(t, "leased", func() bool { return len(s.leases) == 1 })
	l.remove("node-1")
	s.await(t, "gone", func() bool { return len(s.leases) == 0 })
	l.failing("node-1", holding, "Node node-1 is gone")
	l.create("node-1", "10.5.7.0/24")
	s.await(t, "leased again", func() bool { return s.leases[own.Key()].Attrs == own.Attrs })
	l.failing("node-1", holding)
	l.remove("node-1")
	l.create("node-1", "10.5.8.0/24")
	if err := receive(t, ended); !errors.Is(err, subnet.ErrTaken) || !strings.Contains(err.Error(), "10.5.8.0-24") {
		t.Errorf("Hold ended with %v", err)
	}
	if a := receive(t, l.acquire(claim(1))); a.err != nil || a.lease.Key() != "10.5.8.0-24" {
		t.Errorf("%+v", a)
	}
}

// TestOnePodCIDRTwiceBelongsToTheElder: of two Nodes with one podCIDR the elder has it.
func TestOnePodCIDRTwiceBelongsToTheElder(t *testing.T) {
	l, _ := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1", "10.5.7.0/24")
	own, _ := l.leased(1)
	l.create("node-2", "10.5.7.0/24")
	got := l.acquire(claim(2))
	l.failing("node-2", leasing, "Node node-1 was given a part of the same podCIDR first")
	s := l.watch("node-1")
	l.set("node-2", "kube-subnet-manager", "true")
	l.set("node-2", "public-ip", "192.0.2.2")
	s.await(t, "the elder's", func() bool { return s.leases[own.Key()].Node.Name == "node-1" })
	l.remove("node-1")
	s.await(t, "the younger's", func() bool { return s.leases[own.Key()].Node.Name == "node-2" })
	if a := receive(t, got); a.err != nil || a.lease.Key() != own.Key() {
		t.Errorf("%+v", a)
	}
}

// TestFaultsLoseNoLease: under any fault of the API server, no lease disappears, and later
// changes are seen.
func TestFaultsLoseNoLease(t *testing.T) {
	refuse := func(s *metav1.Status) func(l *lab, f *apitest.Server) {
		return func(l *lab, f *apitest.Server) {
			f.Do(func() { f.Refuse = func(*http.Request) *metav1.Status { return s } })
			f.Cut()
			l.failing("node-1", "watching the Nodes", fmt.Sprint(s.Code))
			f.Do(func() { f.Refuse = nil })
		}
	}
	garble := func(change func(text []byte) []byte) func(l *lab, f *apitest.Server) {
		return func(l *lab, f *apitest.Server) {
			f.Do(func() { f.Garble = change })
			l.set("node-2", "other", "x")
			l.failing("node-1", "watching the Nodes", " ")
			f.Do(func() { f.Garble = nil })
		}
	}
	for name, c := range map[string]struct {
		fault func(l *lab, f *apitest.Server)
		lists int
	}{
		"cut":       {func(_ *lab, f *apitest.Server) { f.Cut() }, 1},
		"compacted": {func(_ *lab, f *apitest.Server) { f.Compact(); f.Cut() }, 2},
		"lines cut": {func(_ *lab, f *apitest.Server) { f.Disconnect() }, 1},
		"401":       {refuse(apitest.Refusal(http.StatusUnauthorized, "Unauthorized")), 1},
		"403":       {refuse(apitest.Refusal(http.StatusForbidden, "nodes is forbidden")), 1},
		"429":       {refuse(apitest.Refusal(http.StatusTooManyRequests, "too many")), 1},
		"500":       {refuse(apitest.Refusal(http.StatusInternalServerError, "no")), 1},
		"too new": {func(l *lab, f *apitest.Server) {
			s := apitest.Refusal(http.StatusGatewayTimeout, "Timeout: Too large resource version")
			s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ResourceVersionTooLarge"}}}
			f.Do(func() {
				f.Refuse = func(r *http.Request) *metav1.Status {
					if r.URL.Query().Get("resourceVersion") != "" {
						return s
					}
					return nil
				}
			})
			f.Cut()
		}, 2},
		"garbled":         {garble(func(text []byte) []byte { return append(text[:4], bytes.Repeat([]byte{0xff}, len(text)-4)...) }), 1},
		"longer than any": {garble(func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff} }), 1},
		"a Pod among them": {garble(func([]byte) []byte {
			return apitest.Frame(t, "ADDED", "Pod", &corev1.Pod{})
		}), 1},
	} {
		t.Run(name, func(t *testing.T) {
			l, f := newFakeLab(t)
			l.SetConfig(network)
			for i := range 3 {
				l.create(claim(i + 1).Node.Name)
				l.leased(i + 1)
			}
			s := l.watch("node-1")
			s.await(t, "complete", func() bool { return len(s.leases) == 3 })
			key := receive(t, l.acquire(claim(2))).lease.Key()
			s.mu.Lock()
			before := s.leases[key]
			s.least = 3
			s.mu.Unlock()
			c.fault(l, f)
			s.await(t, "listed", func() bool { return s.lists >= c.lists })
			l.create("node-4")
			f.Do(func() { f.Refuse = nil })
			own, _ := l.leased(4)
			s.await(t, "following", func() bool { return s.leases[own.Key()].Attrs == own.Attrs && len(s.leases) == 4 })
			l.failing("node-1", "watching the Nodes")
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.least != 3 || s.lists != c.lists {
				t.Errorf("%d leases at the least, %d complete lists, want 3 and %d", s.least, s.lists, c.lists)
			}
			if after := s.leases[before.Key()]; after != before {
				t.Errorf("nothing happened to %+v, and it is %+v", before, after)
			}
		})
	}
}

// TestFindsNodeOfPod finds the Node through the pod that runs on it.
func TestFindsNodeOfPod(t *testing.T) {
	l, _ := newFakeLab(t)
	l.options.PodName, l.options.PodNamespace = "tulle-x", "kube-system"
	l.SetConfig(network)
	l.create("node-1")
	s := l.store("") // without a name
	lease, err := s.Acquire(t.Context(), claim(1))
	if name, wrong := s.Node(t.Context()); err != nil || name != "node-1" {
		t.Errorf("%+v, %v, %q, %v", lease, err, name, wrong)
	}
}

func TestOpenRefusesWrongOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"the annotation prefix: ": {Server: "http://127.0.0.1:1", NodeName: "x", Prefix: "x"},
		"--prefix: ":              {Server: "http://127.0.0.1:1", NodeName: "x", Prefix: "x", Names: Names{Prefix: "--prefix"}},
		"give a kubeconfig file or the API server's URL": {NodeName: "x", Prefix: prefix},
		"give --file or --url":                           {NodeName: "x", Prefix: prefix, Names: Names{Kubeconfig: "--file", Server: "--url"}},
		"no such file":                                   {NodeName: "x", Prefix: prefix, Kubeconfig: "/nowhere"},
	} {
		s, err := Open(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// TestStreamRefusedFallsBackToPages: if the API server refuses streamed lists, the own Node and the
// metadata of the others come in pages. One request finds that out.
func TestStreamRefusedFallsBackToPages(t *testing.T) {
	l, f := newFakeLab(t)
	f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !apitest.AsksForStream(r) {
			return false
		}
		f.Fail(w, r, apitest.Refusal(http.StatusInternalServerError, "no progress notifications"))
		return true
	}
	l.SetConfig(network)
	l.create("node-1")
	own, _ := l.leased(1)
	s := l.watch("node-1")
	s.await(t, "leased", func() bool { return s.leases[own.Key()].Attrs == own.Attrs })
	awaitMetadataWatch(t, f, true)
	if n := f.StreamedLists(); n != 1 || l.store("node-1").Status().Last.What != "" {
		t.Errorf("%d streamed lists were asked for; last failure: %+v", n, l.store("node-1").Status().Last)
	}
}

// TestTroublesSayWhatToFix: each reported trouble says what to fix.
func TestTroublesSayWhatToFix(t *testing.T) {
	for want, err := range map[string]error{
		"the token or the certificate may have expired": &kube.Error{Code: http.StatusUnauthorized},
		"get, list and watch nodes":                     &kube.Error{Code: http.StatusForbidden},
		"nothing listens at the API server's address":   errors.New("dial tcp: connect: connection refused"),
		"there is no Node node-1":                       reasonf("there is no Node %s", "node-1"),
		"unreadable answer of the API server: a Pod":    fmt.Errorf("%w: a Pod", kube.ErrUnreadable),
	} {
		if _, words := explain(err); !strings.Contains(words, want) {
			t.Errorf("%v is explained as %q", err, words)
		}
	}
}
