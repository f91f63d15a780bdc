package kube

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/subnet"
)

// flannels creates Nodes of flannel: they take part and claim nothing.
func (l *lab) flannels(n int) {
	l.t.Helper()
	for i := range n {
		name := fmt.Sprintf("flannel-%d", i)
		l.create(name, fmt.Sprintf("10.5.%d.0/28", i+1))
		l.joins(name, "")
	}
}

// joins makes a Node take part with a claim.
func (l *lab) joins(name, claim string) {
	l.t.Helper()
	yes, public := "true", "192.0.2.99"
	all := map[string]*string{prefix + "/kube-subnet-manager": &yes, prefix + "/public-ip": &public}
	if claim != "" {
		all[prefix+"/tulle-subnets"] = &claim
	}
	l.annotate(name, all)
}

// watchesMetadataNow reports whether a node's store watches the metadata of the others.
func watchesMetadataNow(f *apitest.Server) bool {
	for _, asked := range slices.Backward(f.Requests()) {
		if strings.Contains(asked, "watch=1") && !strings.Contains(asked, "fieldSelector") {
			return strings.HasPrefix(asked, "metadata-only ")
		}
	}
	return false
}

// awaitMetadataWatch waits until a node's store watches the others metadata-only, or whole.
// The watch begins after the list.
func awaitMetadataWatch(t testing.TB, f *apitest.Server, want bool) {
	t.Helper()
	kerneltest.Eventually(t, soon, func() error {
		if is := watchesMetadataNow(f); is != want {
			return fmt.Errorf("by their metadata: %t", is)
		}
		return nil
	})
}

// cutUntilMetadata ends each watch of others' whole Nodes until a node's store watches them
// metadata-only. It leaves the watch of the node's own Node alone: many cuts in a row
// would make that back off.
func cutUntilMetadata(t testing.TB, f *apitest.Server) {
	t.Helper()
	kerneltest.Eventually(t, soon, func() error {
		if watchesMetadataNow(f) {
			return nil
		}
		f.CutSome(func(asked string) bool {
			return !strings.Contains(asked, "fieldSelector") && !strings.HasPrefix(asked, "metadata-only ")
		})
		return fmt.Errorf("still whole")
	})
}

// lists counts the lists of the others in a format.
func lists(f *apitest.Server, form string) int {
	return f.Asked(form + "GET /api/v1/nodes?allowWatchBookmarks=true&resourceVersion=&")
}

// TestMetadataOnlyWatchFetchesNoNode: peers are watched by their metadata, and a Node
// with an uncontested claim is not fetched.
func TestMetadataOnlyWatchFetchesNoNode(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	for i := range 3 {
		l.create(claim(i + 1).Node.Name)
		l.leased(i + 1)
	}
	s := l.watch("node-1")
	s.await(t, "complete", func() bool { return len(s.leases) == 3 })
	awaitMetadataWatch(t, f, true)
	if f.Asked("GET /api/v1/nodes/") != 0 || lists(f, "") != 0 {
		t.Errorf("%v", f.Requests())
	}
	// Re-created with another podCIDR, its former one is free.
	l.remove("node-3")
	l.create("node-3", "10.5.99.0/28")
	l.joins("node-3", "10.5.99.0/28")
	s.await(t, "the re-created Node", func() bool { _, ok := s.leases["10.5.99.0-28"]; return ok && len(s.leases) == 3 })
	if n := f.Asked("GET /api/v1/nodes/"); n != 0 {
		t.Errorf("%d Nodes were fetched", n)
	}
}

// forbid makes the server refuse single Nodes.
func forbid(f *apitest.Server, status *metav1.Status) {
	f.Do(func() {
		f.Refuse = func(r *http.Request) *metav1.Status {
			if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") {
				return status
			}
			return nil
		}
	})
}

// TestFalseClaimCostsOneRequest: a false claim costs one request and takes nothing.
// While the API server does not answer it, readers do not see the liar.
func TestFalseClaimCostsOneRequest(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("elder", "10.5.50.0/28")
	var leases []subnet.Lease
	for i := range 3 {
		l.create(claim(i + 1).Node.Name)
		own, _ := l.leased(i + 1)
		leases = append(leases, own)
	}
	s := l.watch("node-1")
	s.await(t, "complete", func() bool { return len(s.leases) == 3 })
	s.mu.Lock()
	s.least = 3
	s.mu.Unlock()
	stand := func() {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, own := range leases {
			if s.leases[own.Key()].Attrs != own.Attrs || s.least != 3 {
				t.Errorf("%d leases at the least, now %v", s.least, s.leases)
			}
		}
	}
	forbid(f, apitest.Refusal(http.StatusInternalServerError, "no"))
	l.joins("elder", formatClaim(leases[1].Subnets))
	l.failing("node-1", checking, "500")
	own := leases[2]
	own.PublicIP[subnet.IPv4] = ip("192.0.2.77")
	l.set("node-3", "public-ip-overwrite", "192.0.2.77") // everything else goes on
	leases[2] = own
	s.await(t, "the others", func() bool { return s.leases[own.Key()].Attrs == own.Attrs && len(s.leases) == 3 })
	stand()
	f.Do(func() { f.Refuse = nil })
	s.await(t, "what the liar has", func() bool { _, ok := s.leases["10.5.50.0-28"]; return ok && len(s.leases) == 4 })
	l.failing("node-1", checking)
	l.set("elder", "tulle-subnets", formatClaim(leases[0].Subnets))
	l.set("elder", "public-ip", "192.0.2.98")
	s.await(t, "its news", func() bool { return s.leases["10.5.50.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.98") })
	if name, _, _ := l.store("node-1").book.nextDoubtful(); name != "" {
		t.Errorf("%s is asked for again", name)
	}
	stand()
}

// TestMayNotGetWatchesWholeNodes: a node that may list but not get Nodes watches
// whole Nodes once there is a suspect. It reports that until its role changes.
func TestMayNotGetWatchesWholeNodes(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1")
	own, _ := l.leased(1)
	s := l.watch("node-1")
	s.await(t, "complete", func() bool { return len(s.leases) == 1 })
	forbid(f, apitest.Refusal(http.StatusForbidden, "nodes is forbidden"))
	l.create("liar", "10.5.50.0/28")
	l.joins("liar", formatClaim(own.Subnets))
	s.await(t, "what the liar has", func() bool { _, ok := s.leases["10.5.50.0-28"]; return ok && len(s.leases) == 2 })
	l.failing("node-1", checking, "does not allow it", "get, list and watch nodes")
	l.create("node-2") // its first list is that one
	other, _ := l.leased(2)
	s.await(t, "both", func() bool { return s.leases[other.Key()].Attrs == other.Attrs && s.least == 1 })
	f.Do(func() { f.Refuse = nil })
	f.Cut()
	l.failing("node-1", checking)
	l.create("second", "10.5.51.0/28")
	l.joins("second", formatClaim(own.Subnets))
	s.await(t, "what the second has", func() bool { _, ok := s.leases["10.5.51.0-28"]; return ok && len(s.leases) == 4 })
	if n := f.Asked("GET /api/v1/nodes/second"); n == 0 || s.lists != 2 {
		t.Errorf("fetched %d times, %d lists", n, s.lists)
	}
}

// TestManyNodesWithoutClaimAreWatchedWhole: a few Nodes without a claim are fetched one by one. With many,
// the watch asks for whole Nodes until they have claims.
func TestManyNodesWithoutClaimAreWatchedWhole(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("few, streaming %t", streams), func(t *testing.T) {
			l, f := newFakeLab(t)
			f.NoWatchList = !streams
			l.SetConfig(network)
			l.flannels(maxSingleFetches)
			l.create("node-1")
			s := l.watch("node-1")
			s.await(t, "complete", func() bool { return len(s.leases) == maxSingleFetches })
			awaitMetadataWatch(t, f, true)
			s.cost(t, f, maxSingleFetches, maxSingleFetches, 1)
		})
		t.Run(fmt.Sprintf("many, streaming %t", streams), func(t *testing.T) {
			l, f := newFakeLab(t)
			f.NoWatchList = !streams
			l.SetConfig(network)
			l.flannels(maxSingleFetches + 4)
			l.create("node-1")
			own, _ := l.leased(1)
			s := l.watch("node-1")
			s.await(t, "complete", func() bool { return len(s.leases) == maxSingleFetches+5 })
			awaitMetadataWatch(t, f, false)
			s.cost(t, f, 0, maxSingleFetches+5, 1)
			// A false claim becomes a true one.
			l.set("flannel-0", "tulle-subnets", formatClaim(own.Subnets))
			for i := range maxSingleFetches + 4 {
				l.joins(fmt.Sprintf("flannel-%d", i), fmt.Sprintf("10.5.%d.0/28", i+1))
			}
			l.set("flannel-1", "public-ip", "192.0.2.97")
			s.await(t, "following", func() bool { return s.leases["10.5.2.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.97") })
			cutUntilMetadata(t, f)
			l.set("flannel-1", "public-ip", "192.0.2.96")
			s.await(t, "following", func() bool { return s.leases["10.5.2.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.96") })
			s.cost(t, f, 0, maxSingleFetches+5, 1)
			// All are re-created, by flannel, while the watch is broken.
			f.Do(func() {
				f.Forget()
				f.End()
				for i := range maxSingleFetches + 4 {
					n := f.Nodes[fmt.Sprintf("flannel-%d", i)].DeepCopy()
					n.UID += "-new"
					delete(n.Annotations, prefix+"/tulle-subnets")
					f.Change("MODIFIED", n)
				}
			})
			s.await(t, "all again", func() bool { return s.lists == 2 && len(s.leases) == maxSingleFetches+5 })
			awaitMetadataWatch(t, f, false)
			s.cost(t, f, 0, maxSingleFetches+5, 2)
		})
	}
}

// cost checks how many Nodes were fetched one by one, the fewest leases since the first
// list, and the number of lists. If one is wrong, it prints all that the store asked for.
func (s *seen) cost(t testing.TB, f *apitest.Server, fetched, least, lists int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := f.Asked("GET /api/v1/nodes/"); n != fetched || s.least != least || s.lists != lists {
		t.Errorf("%d fetched, %d leases at the least, %d lists, want %d, %d and %d; leases %v, bad %v, requests\n%s",
			n, s.least, s.lists, fetched, least, lists, s.leases, s.bad, strings.Join(f.Requests(), "\n"))
	}
}

// TestServerWithoutMetadataFormat: with a server that does not know metadata alone,
// the watch asks for whole Nodes.
func TestServerWithoutMetadataFormat(t *testing.T) {
	for name, answer := range map[string]func(f *apitest.Server) func(w http.ResponseWriter, r *http.Request) bool{
		"not acceptable": func(f *apitest.Server) func(w http.ResponseWriter, r *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				f.Fail(w, r, apitest.Refusal(http.StatusNotAcceptable, "only the following media types are accepted"))
				return true
			}
		},
		"whole Nodes": func(*apitest.Server) func(w http.ResponseWriter, r *http.Request) bool {
			return func(_ http.ResponseWriter, r *http.Request) bool {
				r.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
				return false
			}
		},
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %t", name, streams), func(t *testing.T) {
				l, f := newFakeLab(t)
				f.NoWatchList, f.NoMetadata = !streams, answer(f)
				l.SetConfig(network)
				l.create("node-1")
				l.leased(1)
				l.create("node-2", "10.5.9.0/28")
				l.joins("node-2", "10.5.9.0/28")
				s := l.watch("node-1")
				s.await(t, "complete", func() bool { return len(s.leases) == 2 })
				s.mu.Lock()
				s.least = 2
				s.mu.Unlock()
				l.failing("node-1", "watching the Nodes")
				f.Cut()
				l.set("node-2", "public-ip", "192.0.2.97")
				s.await(t, "following", func() bool { return s.leases["10.5.9.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.97") })
				// The server is upgraded.
				f.Do(func() { f.NoMetadata = nil })
				cutUntilMetadata(t, f)
				l.set("node-2", "public-ip", "192.0.2.96")
				s.await(t, "following", func() bool { return s.leases["10.5.9.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.96") })
				if s.lists != 1 || s.least != 2 {
					t.Errorf("%d lists, %d leases at the least", s.lists, s.least)
				}
			})
		}
	}
}

// TestOddlySpelledPodCIDRIsLeased: a podCIDR that is spelled differently from a claim is leased but
// not claimed, and peers still learn of it.
func TestOddlySpelledPodCIDRIsLeased(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(`{"EnableIPv4": false, "EnableIPv6": true, "IPv6Network": "fd00:5::/48"}`)
	l.create("node-1", "FD00:5:0:0007::/64")
	l.create("node-2", "fd00:5:0:8::/64")
	for i := range 2 {
		c := claim(i + 1)
		c.PublicIP, c.BackendData = subnet.Pair[netip.Addr]{subnet.IPv6: ip(fmt.Sprintf("2001:db8::%d", i+1))}, subnet.Pair[string]{}
		if a := receive(t, l.acquire(c)); a.err != nil {
			t.Fatal(a.err)
		}
	}
	for name, want := range map[string]string{"node-1": "", "node-2": "fd00:5:0:8::/64"} {
		if got := f.Node(name).Annotations[prefix+"/tulle-subnets"]; got != want {
			t.Errorf("%s claims %q, want %q", name, got, want)
		}
	}
	s := l.watch("node-2")
	s.await(t, "known", func() bool { _, has := s.leases["fd00:5:0:7::-64"]; return has })
}

// TestRemovedClaimIsRestored: a removed claim is written again. The lease stands
// meanwhile, also if its node does not restore the claim.
func TestRemovedClaimIsRestored(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1")
	own, _ := l.leased(1)
	l.create("node-2", "10.5.9.0/28")
	l.joins("node-2", "10.5.9.0/28")
	l.create("node-3")
	s := l.watch("node-3")
	s.await(t, "complete", func() bool { return len(s.leases) == 2 })
	for _, name := range []string{"node-1", "node-2"} {
		l.annotate(name, map[string]*string{prefix + "/tulle-subnets": nil})
	}
	l.set("node-2", "public-ip", "192.0.2.97")
	kerneltest.Eventually(t, soon, func() error {
		if got := f.Node("node-1").Annotations[prefix+"/tulle-subnets"]; got != formatClaim(own.Subnets) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	s.await(t, "its news", func() bool { return s.leases["10.5.9.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.97") })
	if s.least != 2 {
		t.Errorf("%d leases at the least", s.least)
	}
}

// TestReadOnlyStoreSeesAllNodes: a store without a Node of its own sees all Nodes.
func TestReadOnlyStoreSeesAllNodes(t *testing.T) {
	l, f := newFakeLab(t)
	l.SetConfig(network)
	l.create("node-1")
	l.leased(1)
	l.flannels(1)
	s := l.watch("") // without a name
	s.await(t, "complete", func() bool { return len(s.leases) == 2 })
	awaitMetadataWatch(t, f, false)
}
