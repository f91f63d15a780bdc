package aws

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Addressed returns the instances with these private addresses, keyed by address. Like Named,
// it finds only instances with the cluster's tag.
func (c *Client) Addressed(ctx context.Context, addresses []string) (map[string]cloud.Instance, error) {
	found := make(map[string]cloud.Instance, len(addresses))
	var v4, v6 []string
	for _, text := range slices.Compact(slices.Sorted(slices.Values(addresses))) {
		switch a, err := netip.ParseAddr(text); {
		case err != nil || a.Zone() != "" || a.Is4In6():
			found[text] = cloud.Instance{Problem: fmt.Sprintf("%.80q is not an address; publish the private address of the instance", text)}
		case a.Is4():
			v4 = append(v4, text)
		default:
			v6 = append(v6, text)
		}
	}
	var failed error
	for name, keys := range map[string][]string{"network-interface.addresses.private-ip-address": v4, "network-interface.ipv6-addresses.ipv6-address": v6} {
		some, err := c.parts(ctx, keys, func(ctx context.Context, keys []string) (map[string]cloud.Instance, error) {
			return c.byAddress(ctx, name, keys)
		})
		failed = errors.Join(failed, err)
		for address, i := range some {
			found[address] = i
		}
	}
	return found, failed
}

// byAddress returns the instances of at most mostValues addresses. name is the filter's name.
func (c *Client) byAddress(ctx context.Context, name string, addresses []string) (map[string]cloud.Instance, error) {
	filters := append(c.config.ours(), filter(name, addresses...), filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped"))
	all := make(map[string]cloud.Instance, len(addresses))
	err := c.describe(ctx, filters, func(i cloud.Instance, from types.Instance) {
		for _, address := range addressesOf(from) {
			if !slices.Contains(addresses, address) {
				continue
			}
			found := i
			if other, twice := all[address]; twice && other.ID != i.ID {
				found = cloud.Instance{Problem: fmt.Sprintf("%s and %s both have the address %s; give each an address of its own, or tag only one network's instances", firstIDs(other), i.ID, address)}
			}
			all[address] = found
		}
	})
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if _, ok := all[address]; !ok {
			all[address] = cloud.Instance{State: cloud.Absent, Problem: fmt.Sprintf("no instance with the tag %s has the private address %s; tag it, or publish its private address", c.config.tag(), address)}
		}
	}
	return all, nil
}

// addressesOf returns the private addresses of an instance's interfaces.
func addressesOf(i types.Instance) (all []string) {
	for _, n := range i.NetworkInterfaces {
		for _, a := range n.PrivateIpAddresses {
			all = append(all, value(a.PrivateIpAddress))
		}
		for _, a := range n.Ipv6Addresses {
			all = append(all, canonical(value(a.Ipv6Address)))
		}
	}
	return all
}

// canonical returns an address in its canonical form.
func canonical(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.String()
	}
	return text
}
