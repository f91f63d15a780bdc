package kube

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// bubble returns a lab with a fake API server in a bubble of synctest.
func bubble(t *testing.T) (*lab, *apitest.Server) {
	f := apitest.InProcess(t)
	return newLab(t, f.URL, &http.Client{Transport: f.Transport()}, Options{Server: f.URL}), f
}

// stored marks the requests of a store.
const stored = "X-Store"

// marking sends requests with that mark.
type marking struct{ http.RoundTripper }

func (m marking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(stored, "yes")
	return m.RoundTripper.RoundTrip(r)
}

// TestABreakAtAnyRequestHidesNoLease breaks a store's watches, or loses an answer, at each
// of its requests in turn, while more Nodes have no claim than may be fetched one by one.
// Wherever that is, no Node is fetched, and no lease disappears.
func TestABreakAtAnyRequestHidesNoLease(t *testing.T) {
	const nodes = maxSingleFetches + 4
	for name, fault := range map[string]func(f *apitest.Server, at func(*http.Request) bool){
		"watches end": func(f *apitest.Server, at func(*http.Request) bool) {
			f.Hold = func(r *http.Request) <-chan struct{} {
				if at(r) {
					f.Cut()
				}
				return nil
			}
		},
		"an answer is lost": func(f *apitest.Server, at func(*http.Request) bool) { f.Lose = at },
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %t", name, streams), func(t *testing.T) {
				for k, reached := int64(1), true; reached; k++ {
					bubbletest.Test(t, func(t *testing.T) {
						l, f := bubble(t)
						f.NoWatchList = !streams
						l.SetConfig(network)
						l.flannels(nodes)
						l.create("node-1")
						l.store("node-1").client.Wrap(func(http.RoundTripper) http.RoundTripper { return marking{f.Transport()} })
						var requests atomic.Int64
						fault(f, func(r *http.Request) bool { return r.Header.Get(stored) != "" && requests.Add(1) == k })
						own, _ := l.leased(1)
						s := l.watch("node-1")
						s.await(t, "complete", func() bool { return len(s.leases) == nodes+1 })
						awaitMetadataWatch(t, f, false)
						l.set("flannel-0", "tulle-subnets", formatClaim(own.Subnets))
						for i := range nodes {
							l.joins(fmt.Sprintf("flannel-%d", i), fmt.Sprintf("10.5.%d.0/28", i+1))
						}
						l.set("flannel-1", "public-ip", "192.0.2.97")
						s.await(t, "following", func() bool { return s.leases["10.5.2.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.97") })
						kerneltest.Eventually(t, soon, func() error {
							if !watchesMetadataNow(f) {
								f.Cut()
								return fmt.Errorf("still whole")
							}
							return nil
						})
						l.set("flannel-1", "public-ip", "192.0.2.96")
						s.await(t, "following", func() bool { return s.leases["10.5.2.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.96") })
						s.mu.Lock()
						defer s.mu.Unlock()
						if n := f.Asked("GET /api/v1/nodes/"); n > 0 || s.least != nodes+1 {
							t.Errorf("at request %d: %d fetched, %d leases at the least, %d lists, requests\n%s", k, n, s.least, s.lists, strings.Join(f.Requests(), "\n"))
						}
						if reached = requests.Load() >= k; !reached {
							t.Logf("%d requests in all", k-1)
						}
					})
				}
			})
		}
	}
}
