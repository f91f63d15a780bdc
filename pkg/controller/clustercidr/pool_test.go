package clustercidr

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// decode reads a ClusterCIDR of the name "a" with a spec as JSON.
func decode(t testing.TB, spec string) *kube.ClusterCIDR {
	t.Helper()
	c := new(kube.ClusterCIDR)
	text := fmt.Sprintf(`{"kind":"ClusterCIDR","metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":%s}`, spec)
	if err := kube.ClusterCIDRFormat.Decode([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClusterCIDRIsAPool(t *testing.T) {
	c := decode(t, `{"perNodeHostBits":8,"ipv4":"10.1.2.3/16","ipv6":"fd00:1::/112","nodeSelector":{"nodeSelectorTerms":[
		{"matchExpressions":[{"key":"zone","operator":"In","values":["x","y"]},{"key":"gpu","operator":"Exists"}]},
		{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}`)
	want := ipam.Pool{
		Name:   "clustercidr/a",
		Ranges: subnet.Pair[[]netip.Prefix]{{netip.MustParsePrefix("10.1.0.0/16")}, {netip.MustParsePrefix("fd00:1::/112")}},
		Bits:   subnet.Pair[int]{24, 120},
		Selector: &ipam.Selector{Terms: []ipam.Term{
			{Labels: []ipam.Requirement{{Key: "zone", Operator: "In", Values: []string{"x", "y"}}, {Key: "gpu", Operator: "Exists"}}},
			{Fields: []ipam.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}},
		}},
		Grow: "create another ClusterCIDR that selects the Node",
	}
	if got, err := poolOf(c); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
	c.Metadata.DeletionTimestamp = "2026-01-02T03:04:05Z"
	want.Draining = []netip.Prefix{want.Ranges[subnet.IPv4][0], want.Ranges[subnet.IPv6][0]}
	if got, err := poolOf(c); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("while it is deleted: %+v, want %+v: %v", got, want, err)
	}
}

// The documentation of ClusterCIDR says that an empty selector selects all Nodes, and
// that an empty term selects none.
func TestEmptySelectorSelectsAll(t *testing.T) {
	for spec, all := range map[string]bool{
		`{"perNodeHostBits":8,"ipv4":"10.1.0.0/16"}`:                                           true,
		`{"perNodeHostBits":8,"ipv4":"10.1.0.0/16","nodeSelector":null}`:                       true,
		`{"perNodeHostBits":8,"ipv4":"10.1.0.0/16","nodeSelector":{"nodeSelectorTerms":[]}}`:   true,
		`{"perNodeHostBits":8,"ipv4":"10.1.0.0/16","nodeSelector":{"nodeSelectorTerms":[{}]}}`: false,
	} {
		if p, err := poolOf(decode(t, spec)); err != nil || (p.Selector == nil) != all {
			t.Errorf("%s: %+v, %v", spec, p.Selector, err)
		}
	}
}

func TestClusterCIDRsThatCannotWorkAreRefused(t *testing.T) {
	for spec, want := range map[string]string{
		`{"perNodeHostBits":8}`:                                           `pool "clustercidr/a": no range; add one like 10.244.0.0/16`,
		`{"perNodeHostBits":8,"ipv4":"10.0.0.0"}`:                         `"10.0.0.0": not an IPv4 range in CIDR notation`,
		`{"perNodeHostBits":8,"ipv4":"fd00::/64"}`:                        `"fd00::/64": not an IPv4 range in CIDR notation`,
		`{"perNodeHostBits":8,"ipv6":"10.0.0.0/8"}`:                       `"10.0.0.0/8": not an IPv6 range in CIDR notation`,
		`{"perNodeHostBits":8,"ipv6":"::ffff:10.0.0.0/112"}`:              `"::ffff:10.0.0.0/112": not an IPv6 range in CIDR notation`,
		`{"perNodeHostBits":8,"ipv4":"010.0.0.0/8"}`:                      `"010.0.0.0/8": not an IPv4 range in CIDR notation`,
		`{"perNodeHostBits":9,"ipv4":"10.0.0.0/24"}`:                      `perNodeHostBits 9: out of the bounds for 10.0.0.0/24; use 4 to 8`,
		`{"perNodeHostBits":-1,"ipv4":"10.0.0.0/24"}`:                     `perNodeHostBits -1: out of the bounds for 10.0.0.0/24; use 4 to 8`,
		`{"perNodeHostBits":12,"ipv4":"10.0.0.0/16","ipv6":"fd00::/120"}`: `perNodeHostBits 12: out of the bounds for fd00::/120; use 4 to 8`,
		`{"perNodeHostBits":3,"ipv4":"10.0.0.0/24"}`:                      `perNodeHostBits 3: out of the bounds for 10.0.0.0/24; use 4 to 8`,
		`{"ipv4":"10.0.0.0/24"}`:                                          `perNodeHostBits 0: out of the bounds for 10.0.0.0/24; use 4 to 8`,
		`{"perNodeHostBits":4,"ipv4":"10.0.0.0/30"}`:                      `range 10.0.0.0/30: too small for a Node; use /28 or larger`,
		`{"perNodeHostBits":8,"ipv6":"fd00::/64"}`:                        `has 2^56 blocks of /120, the limit is 2^48`,
		`{"perNodeHostBits":8,"ipv4":"0.0.0.0/0"}`:                        `holds every address`,
		`{"perNodeHostBits":"8","ipv4":"10.0.0.0/16"}`:                    `spec cannot be read: `,
		`{"perNodeHostBits":8,"ipv4":7}`:                                  `spec cannot be read: `,
		`[]`:                                                              `spec cannot be read: `,
		`{"perNodeHostBits":8,"ipv4":"10.0.0.0/16","nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Is"}]}]}}`:                                                                     `unknown operator "Is"`,
		`{"perNodeHostBits":8,"ipv4":"10.0.0.0/16","nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"spec.x","operator":"In"}]}]}}`:                                                                     `a field must be metadata.name`,
		`{"perNodeHostBits":8,"ipv4":"10.0.0.0/16","nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[` + strings.Repeat(`{"key":"k","operator":"Exists"},`, 1000) + `{"key":"k","operator":"Exists"}]}]}}`: `has 1001 requirements, the limit is 1000`,
	} {
		if p, err := poolOf(decode(t, spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %+v, %v, want %s", spec, p, err, want)
		}
	}
}

// FuzzClusterCIDR checks that every object is a pool that a Book accepts, or that there is
// a reason why not.
func FuzzClusterCIDR(f *testing.F) {
	f.Add(`{"perNodeHostBits":8,"ipv4":"10.1.0.0/16","ipv6":"fd00::/112"}`)
	f.Add(`{"perNodeHostBits":8,"ipv4":"10.1.0.0/16","nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}]}}`)
	f.Add(`{"perNodeHostBits":-9223372036854775808,"ipv4":"0.0.0.0/32"}`)
	f.Fuzz(func(t *testing.T, spec string) {
		c := new(kube.ClusterCIDR)
		text := `{"kind":"ClusterCIDR","metadata":{"name":"a"},"spec":` + spec + `}`
		if err := kube.ClusterCIDRFormat.Decode([]byte(text), c); err != nil {
			return
		}
		p, err := poolOf(c)
		if err != nil {
			return
		}
		if _, err := ipam.New([]ipam.Pool{p}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	})
}
