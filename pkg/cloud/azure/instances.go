package azure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Instances returns the machines of provider IDs. One that is not in the map is unknown, for
// the reason that the error gives. Requests of several callers at a time become one.
func (c *Client) Instances(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error) {
	return c.batch.Instances(ctx, providerIDs)
}

// read reads the machines of provider IDs.
func (c *Client) read(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error) {
	all := make(map[string]cloud.Instance, len(providerIDs))
	asked := make(map[string][]string) // provider IDs by key
	wants := make(map[place]want)
	for _, text := range providerIDs {
		id, err := parseID(text)
		if err == nil && id.subscription != strings.ToLower(c.config.Subscription) {
			err = fmt.Errorf("machine %s is in subscription %s, and the cloud config has %s; run this program for the subscription of the Nodes", id.text(), id.subscription, c.config.Subscription)
		}
		if err != nil {
			all[text] = cloud.Instance{ProviderID: text, Problem: err.Error()}
			continue
		}
		at := place{id.subscription, id.group, strings.ToLower(id.set)}
		w, has := wants[at]
		if !has {
			w = want{place{id.subscription, id.group, id.set}, make(map[string]machineID)}
			wants[at] = w
		}
		w.ids[id.key()] = id
		asked[id.key()] = append(asked[id.key()], text)
	}
	var list []want
	for _, w := range wants {
		list = append(list, w)
	}
	f, err := c.readPlaces(ctx, list)
	for key, v := range f.all {
		i, bad := c.instance(v)
		if err = errors.Join(err, bad); bad != nil {
			continue
		}
		for _, text := range asked[key] {
			all[text] = i
		}
	}
	for key := range f.gone {
		for _, text := range asked[key] {
			id, _ := parseID(text)
			all[text] = cloud.Instance{ID: key, State: cloud.Absent, Problem: fmt.Sprintf("resource group %s has no machine %s; delete the Node if its machine is gone", id.group, id.text())}
		}
	}
	return all, err
}

// readPlaces reads machines of several places. A place that fails keeps no other back.
func (c *Client) readPlaces(ctx context.Context, wants []want) (f found, err error) {
	f = found{all: make(map[string]facts), gone: make(map[string]bool)}
	var mu sync.Mutex
	var running sync.WaitGroup
	for _, w := range wants {
		running.Go(func() {
			some, failed := c.readPlace(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			for k, v := range some.all {
				f.all[k] = v
			}
			for k := range some.gone {
				f.gone[k] = true
			}
		})
	}
	running.Wait()
	return f, err
}

// everything reads all machines of the cloud config's resource group: the virtual ones, and
// the instances of its scale sets.
func (c *Client) everything(ctx context.Context) ([]facts, error) {
	here := place{strings.ToLower(c.config.Subscription), strings.ToLower(c.config.Group), ""}
	wants := []want{{place: here}}
	sets, err := list[scaleSet](ctx, c, readSet, inGroup(here.subscription, here.group, "Microsoft.Compute", setType), computeVersion)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if !resourceName.MatchString(s.Name) {
			return nil, strange(readSet, "scale set", s.Name)
		}
		if s.isUniform() {
			wants = append(wants, want{place: place{here.subscription, here.group, s.Name}})
		}
	}
	f, err := c.readPlaces(ctx, wants)
	var all []facts
	for _, v := range f.all {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b facts) int { return strings.Compare(a.id.key(), b.id.key()) })
	return all, err
}

// search reads everything, and returns the machines that keys lead to. keysOf returns the
// keys of a machine. Only a complete read shows that a key leads to none, or to one alone.
func (c *Client) search(ctx context.Context, keys []string, keysOf func(facts) []string, what, fix string) (map[string]cloud.Instance, error) {
	wanted := make(map[string]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	everything, err := c.everything(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]cloud.Instance, len(keys))
	names := make(map[string]string)
	for _, f := range everything {
		for _, k := range keysOf(f) {
			if !wanted[k] {
				continue
			}
			if other, twice := names[k]; twice {
				all[k] = cloud.Instance{Problem: fmt.Sprintf("%s and %s both have the %s %s; %s", other, f.id.text(), what, k, fix)}
				continue
			}
			names[k] = f.id.text()
			i, err := c.instance(f)
			if err != nil {
				return nil, err
			}
			all[k] = i
		}
	}
	for k := range wanted {
		if _, ok := all[k]; !ok {
			all[k] = cloud.Instance{State: cloud.Absent, Problem: fmt.Sprintf("no machine in resource group %s has the %s %s; %s", c.config.Group, what, k, fix)}
		}
	}
	return all, nil
}

// Named returns the machines of Nodes' names, for Nodes that have no provider ID yet: a name
// is the host name of a machine, or its own name. Only machines of the cloud config's
// resource group are found.
func (c *Client) Named(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	all, err := c.search(ctx, names, func(f facts) []string {
		name := nodeName(f.machine, f.id)
		if other := strings.ToLower(f.id.name); f.id.set == "" && other != name {
			return []string{name, other}
		}
		return []string{name}
	}, "name", "set the Node's providerID (kubelet --provider-id)")
	byID := make(map[string]cloud.Instance, len(all))
	for _, i := range all {
		byID[i.ProviderID] = i
	}
	c.batch.Offer(byID)
	return all, err
}

// Addressed returns the machines that have private addresses, by address. Like Named, it
// finds those of the cloud config's resource group.
func (c *Client) Addressed(ctx context.Context, addresses []string) (map[string]cloud.Instance, error) {
	bad := make(map[string]cloud.Instance)
	var good []string
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
			bad[text] = cloud.Instance{Problem: fmt.Sprintf("%.80q is no address; publish the private address of the machine", text)}
		} else {
			good = append(good, text)
		}
	}
	all, err := c.search(ctx, good, func(f facts) (keys []string) {
		if f.nic != nil {
			for _, config := range f.nic.Properties.Configs {
				if a, err := netip.ParseAddr(config.Properties.Address); err == nil {
					keys = append(keys, a.String())
				}
			}
		}
		return keys
	}, "private address", "publish the private address of the machine")
	for text, i := range bad {
		if all == nil {
			all = make(map[string]cloud.Instance)
		}
		all[text] = i
	}
	return all, err
}
