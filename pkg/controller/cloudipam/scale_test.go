package cloudipam

import (
	"flag"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/tulle-net/tulle/pkg/cloud/gce"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/subnet"
)

var googleNodes = flag.Int("google-nodes", 200, "how many Nodes TestGoogleScale creates at once")

// scaled are the requests that TestGoogleScale counts.
var scaled = []string{"instances.list", "instances.get", "instances.updateNetworkInterface", "zoneOperations.wait"}

// TestGoogleScale creates many Nodes at once, in each mode, with a Compute Engine API that takes
// 100 ms for a request and 3 s for a change. A read costs one list of each zone. A change costs
// three requests, of which the client may send ten a second.
func TestGoogleScale(t *testing.T) {
	const latency, lasts, zone = 100 * time.Millisecond, 3 * time.Second, "europe-west1-b"
	nodes := *googleNodes
	for name, mode := range map[string]Mode{"CloudAllocator": CloudAllocator, "IPAMFromCloud": FromCloud, "IPAMFromCluster": FromCluster} {
		t.Run(name, func(t *testing.T) {
			var s *gcetest.Server
			inLab(t, mode, func(l *lab) {
				l.Settle = 0
				for i := range nodes {
					n := node1(fmt.Sprint("node-", i))
					n.Spec.ProviderID = gcetest.ID(zone, n.Name)
					if mode == FromCluster {
						s.Add(zone, n.Name, "pods")
					} else {
						s.Add(zone, n.Name, "pods", fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255))
					}
					l.AddNode(n)
				}
				most, step := 10*time.Second, 100*time.Millisecond
				if mode == FromCluster {
					step = time.Second
					most += time.Duration(nodes*3/10)*time.Second + lasts
				}
				began := time.Now()
				l.Begin()
				for l.report().Waiting > 0 && time.Since(began) < most {
					l.Pass(step)
				}
				took := time.Since(began)
				if n := l.report().Waiting; n > 0 {
					t.Errorf("%d of %d Nodes have no podCIDRs after %v", n, nodes, took)
				}
				asked := make(map[string]int)
				for _, action := range scaled {
					asked[action] = s.Asked(action)
				}
				t.Logf("%d Nodes have podCIDRs after %v; requests: %v", nodes, took, asked)
				changes := 0
				if mode == FromCluster {
					changes = nodes
				}
				// Instances are compared again from time to time, and then read again. A
				// comparison takes a moment, and only then does the next interval begin.
				rounds, least := 1+int(took/verifyInterval), 1+int(took/(verifyInterval+3*time.Second))
				pages := (nodes + 499) / 500
				if n := asked["instances.list"]; n < pages*least || n > pages*rounds {
					t.Errorf("%d requests instances.list, want %d to %d", n, pages*least, pages*rounds)
				}
				for action, want := range map[string]int{"instances.updateNetworkInterface": changes, "zoneOperations.wait": changes} {
					if asked[action] != want {
						t.Errorf("%d requests %s, want %d", asked[action], action, want)
					}
				}
				if n := asked["instances.get"]; n < changes || n > changes+changes/20*(rounds-1) {
					t.Errorf("%d requests instances.get for %d changes", n, changes)
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
				o.Cloud, o.Secondary = c, "pods"
				if mode == FromCluster {
					o.Pool.Ranges[subnet.IPv4] = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/11")}
				}
			})
		})
	}
}
