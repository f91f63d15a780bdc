package cloudipam

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/tulle-net/tulle/pkg/cloud/gce"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/subnet"
)

// TestManyInstancesAtOnceWasteNoRequest: a hundred Nodes at once get ranges from a slow
// Compute Engine API. The client may send ten requests a second. No change runs out of
// time, so none is sent again, and each costs three requests: to read the interface, to
// change it, and to wait for the operation.
func TestManyInstancesAtOnceWasteNoRequest(t *testing.T) {
	const nodes, zone = 100, "europe-west1-b"
	for _, latency := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second} {
		for _, lasts := range []time.Duration{0, 3 * time.Second, 10 * time.Second} {
			t.Run(fmt.Sprintf("%v a request, %v an operation", latency, lasts), func(t *testing.T) {
				var s *gcetest.Server
				inLab(t, FromCluster, func(l *lab) {
					var names []string
					for i := range nodes {
						n := node1(fmt.Sprintf("node-%d", i))
						n.Spec.ProviderID = gcetest.ID(zone, n.Name)
						s.Add(zone, n.Name, "pods")
						l.AddNode(n)
						names = append(names, n.Name)
					}
					began := time.Now()
					l.Begin()
					// 16 changes at a time, each with three requests and its operation.
					most := nodes*3/10*time.Second + (nodes/16+1)*(3*latency+lasts)
					for l.report().Waiting > 0 && time.Since(began) < 2*most {
						l.Pass(100 * time.Millisecond)
					}
					took := time.Since(began)
					t.Logf("all have podCIDRs after %v", took)
					if took > most {
						t.Errorf("it took longer than %v", most)
					}
					for _, name := range names {
						if got, has := s.Aliases(zone, name), l.API.Node(name).Spec.PodCIDRs; len(got) != 1 || !slices.Equal(got, has) {
							t.Errorf("%s has %q, its instance %q", name, has, got)
						}
					}
					waits := nodes
					if lasts == 0 {
						waits = 0
					}
					for action, want := range map[string]int{
						"instances.list": 1, "instances.get": nodes, "instances.updateNetworkInterface": nodes, "zoneOperations.wait": waits,
					} {
						if n := s.Asked(action); n != want {
							t.Errorf("%d requests %s, want %d", n, action, want)
						}
					}
					state, _ := l.Engine.State(l.Context())
					for count, n := range state.Counts {
						if count.Outcome != controller.Written {
							t.Errorf("%d writes %s", n, count.Outcome)
						}
					}
				}, func(o *Options) {
					s = gcetest.InProcess(t)
					s.Latency, s.Lasts = latency, lasts
					c, err := gce.NewWith(gce.Options{Project: gcetest.Project, Endpoint: s.Endpoint(), Transport: s.Transport()},
						oauth2.StaticTokenSource(&oauth2.Token{AccessToken: gcetest.Token}))
					if err != nil {
						t.Fatal(err)
					}
					o.Cloud = c
					o.Pool.Ranges[subnet.IPv4] = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/14")}
				})
			})
		}
	}
}
