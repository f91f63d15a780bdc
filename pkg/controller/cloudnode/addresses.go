package cloudnode

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// ProvidedIP is the annotation with which a kubelet requests the address of its flag
// --node-ip.
const ProvidedIP = "alpha.kubernetes.io/provided-node-ip"

// mostProvided is the maximum number of addresses in --node-ip: one of each family.
const mostProvided = 2

// addressesFor returns the addresses that a Node's status should have, by the rules of
// k8s.io/cloud-provider. These are the addresses of its instance. If the cloud gives no host
// name, they include the Node's own one. An address that the kubelet requests comes first, and
// is the only one of its type. addressesFor returns nil if the cloud gives no address.
func addressesFor(of []cloud.Address, had []cloud.Address, provided string, isProvided bool) ([]cloud.Address, error) {
	if len(of) == 0 && !isProvided {
		return nil, nil
	}
	isHostname := func(a cloud.Address) bool { return a.Type == cloud.Hostname }
	all := slices.Clone(of)
	if !slices.ContainsFunc(of, isHostname) {
		for _, a := range had {
			if isHostname(a) {
				all = append(all, a)
			}
		}
	}
	if !isProvided {
		return all, nil
	}
	return prefer(all, provided)
}

// prefer puts the addresses that a kubelet requests first, and drops others of their types.
func prefer(all []cloud.Address, provided string) (chosen []cloud.Address, err error) {
	wanted, err := readProvided(provided)
	if err != nil {
		return nil, err
	}
	types := make(map[cloud.AddressType]bool)
	for _, ip := range wanted {
		found := false
		for _, a := range all {
			if parsed, err := netip.ParseAddr(a.Value); err == nil && parsed == ip {
				chosen = append(chosen, a)
				types[a.Type], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("the kubelet requests the address %s, which its instance does not have; the instance has %s: start the kubelet with one of these in --node-ip", ip, cmp.Or(join(all), "none"))
		}
	}
	for _, a := range all {
		if !types[a.Type] {
			chosen = append(chosen, a)
		}
	}
	return chosen, nil
}

// readProvided parses the annotation ProvidedIP: one address, or one of each family.
func readProvided(text string) (all []netip.Addr, err error) {
	refuse := func(why string) error {
		return fmt.Errorf("annotation %s has %.100q: %s; start the kubelet with one address in --node-ip, or with one of each family", ProvidedIP, text, why)
	}
	for part := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(part)
		if err != nil || ip.Zone() != "" {
			return nil, refuse("not an IP address")
		}
		if all = append(all, ip.Unmap()); len(all) > mostProvided {
			return nil, refuse("more than two addresses")
		}
	}
	if len(all) == mostProvided {
		switch {
		case all[0].Is4() == all[1].Is4():
			return nil, refuse("two addresses of one family")
		case all[0].IsUnspecified(), all[1].IsUnspecified():
			return nil, refuse("an unspecified address beside another")
		}
	}
	return all, nil
}

// join returns the IP addresses among all, separated by commas.
func join(all []cloud.Address) string {
	var texts []string
	for _, a := range all {
		if _, err := netip.ParseAddr(a.Value); err == nil && !slices.Contains(texts, a.Value) {
			texts = append(texts, a.Value)
		}
	}
	return strings.Join(texts, ", ")
}
