package cloudnode

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// list reads addresses like "InternalIP=10.0.0.1 Hostname=a".
func list(text string) (all []cloud.Address) {
	for _, part := range strings.Fields(text) {
		kind, value, _ := strings.Cut(part, "=")
		all = append(all, cloud.Address{Type: cloud.AddressType(kind), Value: value})
	}
	return all
}

// TestAddressesFollowTheRulesOfCloudProviders: the rules are those of k8s.io/cloud-provider.
func TestAddressesFollowTheRulesOfCloudProviders(t *testing.T) {
	const two = "InternalIP=10.0.0.1 InternalIP=10.0.0.2 ExternalIP=198.51.100.1 InternalDNS=a.internal Hostname=a.internal"
	none := "-" // no annotation
	for name, c := range map[string]struct{ cloud, node, provided, want string }{
		"as the cloud gives them":                   {two, "Hostname=b", none, two},
		"the host name of the Node without another": {"InternalIP=10.0.0.1", "InternalIP=10.9.9.9 Hostname=b", none, "InternalIP=10.0.0.1 Hostname=b"},
		"nothing from the cloud":                    {"", "Hostname=b", none, ""},
		"the requested one is alone of its type":    {two, "Hostname=b", "10.0.0.2", "InternalIP=10.0.0.2 ExternalIP=198.51.100.1 InternalDNS=a.internal Hostname=a.internal"},
		"a requested external one comes first":      {two, "", "198.51.100.1", "ExternalIP=198.51.100.1 InternalIP=10.0.0.1 InternalIP=10.0.0.2 InternalDNS=a.internal Hostname=a.internal"},
		"one of each family": {
			"InternalIP=10.0.0.1 InternalIP=fd00::1 InternalIP=fd00::2", "Hostname=b", "fd00:0::2,10.0.0.1", "InternalIP=fd00::2 InternalIP=10.0.0.1 Hostname=b",
		},
		"an address of two types":   {"InternalIP=10.0.0.1 ExternalIP=10.0.0.1 ExternalIP=10.0.0.3", "", "10.0.0.1", "InternalIP=10.0.0.1 ExternalIP=10.0.0.1"},
		"a name that is an address": {"InternalIP=10.0.0.1 InternalIP=10.0.0.2", "Hostname=10.0.0.1", "10.0.0.1", "InternalIP=10.0.0.1 Hostname=10.0.0.1"},
	} {
		got, err := addressesFor(list(c.cloud), list(c.node), strings.Trim(c.provided, none), c.provided != none)
		if err != nil || !slices.Equal(got, list(c.want)) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.want)
		}
	}
	for provided, part := range map[string]string{
		"10.0.0.9": "which its instance does not have; the instance has 10.0.0.1, 10.0.0.2, 198.51.100.1", "": "not an IP address", "a": "not an IP address",
		"10.0.0.1, 10.0.0.2": "not an IP address", "10.0.0.1,10.0.0.2": "one family", "10.0.0.1,fd00::1,fd00::2": "more than two",
		"0.0.0.0,fd00::1": "unspecified", "fe80::1%eth0": "not an IP address", "10.0.0.010": "not an IP address",
	} {
		if got, err := addressesFor(list(two), nil, provided, true); err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "--node-ip") {
			t.Errorf("%q: %v, %v, want %q", provided, got, err, part)
		}
	}
	if got, err := addressesFor(nil, list("Hostname=b"), "10.0.0.1", true); err == nil {
		t.Errorf("a requested address without any: %v", got)
	}
}

// FuzzProvidedAddresses: for any annotation, the result has only addresses of the instance, each
// once more at most.
func FuzzProvidedAddresses(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "10.0.0.1,fd00::1", ",", "::", "fd00::1,::ffff:10.0.0.1", "10.0.0.1,10.0.0.1"} {
		f.Add(seed)
	}
	all := list("InternalIP=10.0.0.1 InternalIP=fd00::1 ExternalIP=10.0.0.1 Hostname=a")
	f.Fuzz(func(t *testing.T, provided string) {
		got, err := addressesFor(all, nil, provided, true)
		if err != nil {
			if !strings.Contains(err.Error(), "--node-ip") {
				t.Errorf("%q: %v names no fix", provided, err)
			}
			return
		}
		seen := make(map[string]bool)
		for _, a := range got {
			if key := fmt.Sprint(a); !slices.Contains(all, a) || seen[key] {
				t.Errorf("%q: %v", provided, got)
			} else {
				seen[key] = true
			}
		}
	})
}
