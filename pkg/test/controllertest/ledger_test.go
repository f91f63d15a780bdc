//go:build kube

package controllertest

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/kube"
)

// TestLargeLedger writes the ledger of 5,000 Nodes with both families in two tables to
// a real API server, which stores at most 1 MiB in a ConfigMap. Then every entry grows.
func TestLargeLedger(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	client, err := kube.NewClient(kube.Options{Kubeconfig: l.ServiceAccount("kube-system", "ledger", routeRules...), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	entries := func(targets ...string) (all []cloudroute.Entry) {
		for i := range 5000 {
			v6 := netip.AddrFrom16([16]byte{0xfd, 0, 9: byte(i >> 8), byte(i)})
			for _, p := range []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64 + byte(i>>8), byte(i), 0}), 24), netip.PrefixFrom(v6, 88)} {
				e := cloudroute.Entry{Destination: p}
				for _, table := range []string{"rtb-0a1b2c3d4e5f60718", "rtb-1a1b2c3d4e5f60719"} {
					e.Routes = append(e.Routes, cloudroute.Owned{Table: table, Targets: targets, Node: fmt.Sprintf("ip-10-12-%d-%d.eu-central-1.compute.internal", i>>8, i&255)})
				}
				all = append(all, e)
			}
		}
		return all
	}
	ledger, version := route.NewConfigMaps(client, "kube-system", "tulle-controller-routes"), ""
	if _, err := ledger.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, targets := range [][]string{{"eni-0a1b2c3d4e5f60718"}, {"eni-1a1b2c3d4e5f60719", "eni-0a1b2c3d4e5f60718"}, {"eni-1a1b2c3d4e5f60719"}} {
		want, began := make(map[netip.Prefix]string), time.Now()
		for _, e := range entries(targets...) {
			want[e.Destination] = e.Text()
		}
		if version, err = ledger.Write(t.Context(), version, entries(targets...)); err != nil {
			t.Fatal(err)
		}
		wrote := time.Since(began)
		got, size := make(map[netip.Prefix]string), 0
		c, err := route.NewConfigMaps(client, "kube-system", "tulle-controller-routes").Read(t.Context())
		for _, e := range c.Entries {
			got[e.Destination] = e.Text()
			size += len(e.Key()) + len(e.Text())
		}
		if err != nil || len(c.Problems) > 0 || !maps.Equal(got, want) {
			t.Fatalf("%d of %d entries, %v, %v", len(got), len(want), c.Problems, err)
		}
		t.Logf("%d entries of %d bytes, written in %s and read in %s", len(got), size, wrote, time.Since(began)-wrote)
	}
}
