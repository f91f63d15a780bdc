package gce

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// everywhere is what a list of all zones of a project had.
type everywhere struct {
	all  []cloud.Instance
	seen map[string]bool // zones that the list has, complete
	// unread says why the list may lack instances of a zone. The zone "" is any zone.
	unread map[string]warning
}

// lacks returns why the list may lack an instance of a zone, or nil.
func (e everywhere) lacks(zone string) error {
	for _, z := range []string{zone, ""} {
		if w, is := e.unread[z]; is {
			return incomplete(listAll, "the zone "+zone, w)
		}
	}
	return nil
}

// list reads the instances of all zones, those of names or all. With an error, nothing is
// known. A zone that does not answer fails no other.
func (c *Client) list(ctx context.Context, names []string) (everywhere, error) {
	e := everywhere{seen: make(map[string]bool), unread: make(map[string]warning)}
	query := url.Values{
		"fields":     {"kind,nextPageToken,unreachables,warning(code,message),items/*/warning(code,message),items/*/instances(" + fieldsOfInstance + ")"},
		"maxResults": {strconv.Itoa(pageSize)}, "returnPartialSuccess": {"true"},
	}
	if len(names) > 0 && len(names) <= mostNamed {
		query.Set("filter", `(name = "`+strings.Join(names, `") OR (name = "`)+`")`)
	}
	for range mostPages {
		var page zones
		if err := c.do(ctx, request{action: listAll, method: http.MethodGet, at: place{project: c.options.Project}, path: "aggregated/instances", query: query}, &page); err != nil {
			return everywhere{}, err
		}
		if err := page.check(listAll, "compute#instanceAggregatedList"); err != nil {
			return everywhere{}, err
		}
		if !page.Warning.isComplete() {
			e.unread[""] = page.Warning
		}
		for _, scope := range page.Unreachable {
			e.unread[zoneOf(scope)] = warning{"UNREACHABLE", scope}
		}
		for scope, part := range page.Items {
			zone := zoneOf(scope)
			if zone == "" {
				continue // of no zone; there are no such instances
			}
			if e.seen[zone] = true; !part.Warning.isComplete() {
				e.unread[zone] = part.Warning
			}
			for n := range part.Instances {
				if i := &part.Instances[n]; instanceName.MatchString(i.Name) {
					e.all = append(e.all, c.machine(place{c.options.Project, zone}, i))
				}
			}
		}
		if page.Next == "" {
			return e, nil
		}
		query.Set("pageToken", page.Next)
	}
	return everywhere{}, &cloud.Error{Kind: cloud.Unavailable, Action: listAll, Text: fmt.Sprintf("the list of all zones does not end after %d pages", mostPages)}
}

// zoneOf returns the zone of a scope, like zones/europe-west1-b or a URL that ends so, or
// "".
func zoneOf(scope string) string {
	parts := strings.Split(scope, "/")
	if n := len(parts); n >= 2 && parts[n-2] == "zones" && zoneName.MatchString(parts[n-1]) {
		return parts[n-1]
	}
	return ""
}

// readAll adds to found the instances of zones, and removes from zones what it has found,
// or has found absent. A zone that the list does not have stays.
func (c *Client) readAll(ctx context.Context, wanted map[place]map[string]string, found map[string]cloud.Instance) error {
	var names []string
	for _, all := range wanted {
		names = append(names, slices.Collect(maps.Keys(all))...)
	}
	e, err := c.list(ctx, slices.Compact(slices.Sorted(slices.Values(names))))
	if err != nil {
		clear(wanted)
		return err
	}
	for _, i := range e.all {
		if id, is := wanted[place{i.Account, i.Zone}][i.Name]; is {
			found[id] = i
		}
	}
	var failed error
	for at, all := range wanted {
		switch err := e.lacks(at.zone); {
		case err != nil:
			failed = err
		case !e.seen[at.zone]:
			continue
		default:
			for name, id := range all {
				if _, is := found[id]; !is {
					found[id] = c.absent(at, name)
				}
			}
		}
		delete(wanted, at)
	}
	return failed
}

// Named returns the instances of Nodes' names, for Nodes that have no provider ID yet: a
// name is that of the instance, or begins with it and a dot. It finds those of the zones
// that the cloud config allows.
func (c *Client) Named(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	asked := make(map[string][]string) // Nodes' names by the name of the instance
	found := make(map[string]cloud.Instance, len(names))
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		short, _, _ := strings.Cut(name, ".")
		if !instanceName.MatchString(short) {
			found[name] = cloud.Instance{Problem: fmt.Sprintf("%.80q is not the name of an instance; name the Node as its instance", name)}
			continue
		}
		asked[short] = append(asked[short], name)
	}
	return c.match(ctx, asked, found, slices.Sorted(maps.Keys(asked)), func(i cloud.Instance) []string { return []string{i.Name} },
		"no instance in project %s has the name %s; name the Node as its instance, or set its providerID (kubelet --provider-id)")
}

// Addressed returns the instances that have internal addresses, by address.
func (c *Client) Addressed(ctx context.Context, addresses []string) (map[string]cloud.Instance, error) {
	asked := make(map[string][]string)
	found := make(map[string]cloud.Instance, len(addresses))
	for _, text := range slices.Compact(slices.Sorted(slices.Values(addresses))) {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			found[text] = cloud.Instance{Problem: fmt.Sprintf("%.80q is no address; publish the internal address of the instance", text)}
			continue
		}
		asked[a.String()] = append(asked[a.String()], text)
	}
	return c.match(ctx, asked, found, nil, func(i cloud.Instance) (all []string) {
		for _, a := range i.Addresses {
			if a.Type == cloud.InternalIP {
				all = append(all, a.Value)
			}
		}
		return all
	}, "no instance in project %s has the internal address %s; publish the instance's internal address")
}

// match adds to found the instances of the keys of asked. Of an instance, keys returns the
// keys that it has.
func (c *Client) match(ctx context.Context, asked map[string][]string, found map[string]cloud.Instance, names []string, keys func(cloud.Instance) []string, absent string) (map[string]cloud.Instance, error) {
	if len(asked) == 0 {
		return found, nil
	}
	e, err := c.list(ctx, names)
	if err != nil {
		return found, err
	}
	of := make(map[string]cloud.Instance, len(asked))
	for _, i := range e.all {
		if !c.options.Config.has(i.Zone) {
			continue
		}
		for _, key := range keys(i) {
			if _, is := asked[key]; !is {
				continue
			}
			other, twice := of[key]
			if twice && other.Problem != "" {
				continue
			}
			if of[key] = i; twice && other.ID != i.ID {
				of[key] = cloud.Instance{Problem: fmt.Sprintf("the instances %s and %s both match %s; set the Node's providerID (kubelet --provider-id), or local-zone in the cloud config", other.ID, i.ID, key)}
			}
		}
	}
	var failed error
	for zone := range e.unread {
		if zone == "" || c.options.Config.has(zone) {
			failed = e.lacks(zone)
		}
	}
	for key, all := range asked {
		i, is := of[key]
		switch {
		case is:
		case failed != nil:
			continue
		default:
			i = cloud.Instance{State: cloud.Absent, Problem: fmt.Sprintf(absent, c.options.Project, key)}
		}
		for _, text := range all {
			found[text] = i
		}
	}
	return found, failed
}

// absent returns what is known of an instance that a complete list does not have.
func (c *Client) absent(at place, name string) cloud.Instance {
	return cloud.Instance{
		State: cloud.Absent, ProviderID: scheme + at.project + "/" + at.zone + "/" + name,
		Problem: fmt.Sprintf("there is no instance %s in the zone %s of the project %s; delete the Node if its machine is gone", name, at.zone, at.project),
	}
}
