//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

// recorder records the requests to a server.
type recorder struct {
	http.RoundTripper
	mu    sync.Mutex
	asked []string
}

// record records the requests of a store.
func record(s *Store) *recorder {
	r := new(recorder)
	s.client.Wrap(func(to http.RoundTripper) http.RoundTripper {
		r.RoundTripper = to
		return r
	})
	return r
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	kind := "whole "
	if strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata") {
		kind = "metadata-only "
	}
	answer, err := r.RoundTripper.RoundTrip(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && request.Method == http.MethodGet && !strings.Contains(request.URL.RawQuery, "fieldSelector") {
		r.asked = append(r.asked, fmt.Sprint(kind, answer.StatusCode, " ", request.URL))
	}
	return answer, err
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.asked) == 0 {
		return ""
	}
	return r.asked[len(r.asked)-1]
}

func (r *recorder) await(t *testing.T, begin, part string) {
	t.Helper()
	kerneltest.Eventually(t, 10*time.Second, func() error {
		if last := r.last(); !strings.HasPrefix(last, begin) || !strings.Contains(last, part) {
			return fmt.Errorf("asked last: %s", last)
		}
		return nil
	})
}

// TestServerMetadata: a real control plane sends metadata alone, whole Nodes, and
// metadata again. A false claim is found out.
func TestServerMetadata(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming %t", streams), func(t *testing.T) {
			c := kubetest.Start(t, kubetest.Options{
				ClusterCIDRs: []string{"10.5.0.0/16", "fd00:5::/48"}, Flags: []string{fmt.Sprintf("--feature-gates=WatchList=%t", streams)},
			})
			l := newServerLab(t, c, c.ServiceAccount("kube-system", "tulle", rules...))
			l.SetConfig(network)
			l.create("node-1")
			asked := record(l.store("node-1"))
			own, _ := l.leased(1)
			asked.await(t, "metadata-only 200", "watch=1")
			s := l.watch("node-1")
			s.await(t, "leased", func() bool { return len(s.leases) == 1 })
			claimed := l.node("node-1")[prefix+"/tulle-subnets"]
			if parseClaim([]byte(claimed)) == (podCIDRs{}) || parseClaim([]byte(claimed))[subnet.IPv4] != own.Subnets[subnet.IPv4] {
				t.Errorf("%q is claimed", claimed)
			}

			l.create("liar")
			l.joins("liar", claimed)
			s.await(t, "both", func() bool { return len(s.leases) == 2 })
			if last := asked.last(); !strings.HasPrefix(last, "whole 200") || !strings.HasSuffix(last, "/nodes/liar") {
				t.Errorf("asked last: %s", last)
			}

			// Many of flannel's Nodes, while the watch is broken.
			for i := range maxSingleFetches + 2 {
				name := fmt.Sprintf("flannel-%d", i)
				l.create(name)
				l.joins(name, "")
			}
			s.await(t, "all", func() bool { return len(s.leases) == maxSingleFetches+4 })
			l.store("node-1").others.watch.Relist()
			s.await(t, "listed again", func() bool { return s.lists == 2 && len(s.leases) == maxSingleFetches+4 })
			again := l.store("node-2")
			l.create("node-2")
			whole := record(again)
			leases := 0
			ctx, cancel := context.WithCancel(t.Context())
			_ = again.Watch(ctx, func(u subnet.Update) { leases = len(u.Leases); cancel() })
			if leases != maxSingleFetches+4 {
				t.Errorf("%d leases at once", leases)
			}
			whole.await(t, "whole 200", "watch=1")
			for i := range maxSingleFetches + 2 {
				name := fmt.Sprintf("flannel-%d", i)
				l.joins(name, formatClaim(l.entry("node-1", name).subnets))
			}
			ended := 0 // watches that were ended after they had begun
			kerneltest.Eventually(t, 20*time.Second, func() error {
				switch n := whole.count(); {
				case strings.HasPrefix(whole.last(), "metadata-only 200"):
					return nil
				case n > ended:
					ended = n
					again.others.watch.Restart()
				}
				return errors.New("still whole")
			})
			if last := whole.last(); strings.Contains(last, "sendInitialEvents") || strings.Contains(last, "limit") {
				t.Errorf("listed again: %s", last)
			}
			l.set("flannel-0", "public-ip", "192.0.2.77")
			kerneltest.Eventually(t, 10*time.Second, func() error {
				if got := l.entry("node-2", "flannel-0").lease.PublicIP[subnet.IPv4]; got != ip("192.0.2.77") {
					return fmt.Errorf("it is %s", got)
				}
				return nil
			})
		})
	}
}

// entry returns a node's book entry of a Node.
func (l *lab) entry(node, name string) *entry {
	b := l.store(node).book
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[name]
}
