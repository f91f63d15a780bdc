package gce

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// ChangeRoutes makes changes, and returns the error of each. They are independent of one
// another. Google has no preconditions, and accepts several routes to one destination, so
// each change begins with a read of what is there; if that is another route now, the error
// is Changed.
func (c *Client) ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) []error {
	return cloud.ChangeEach(changes, func(r cloud.RouteChange) error { return c.changeRoute(ctx, r) })
}

func (c *Client) changeRoute(ctx context.Context, r cloud.RouteChange) error {
	refuse := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Refused, Action: insertRoute, Text: fmt.Sprintf(format, args...)}
	}
	name, err := c.networkName(ctx)
	switch {
	case err != nil:
		return err
	case c.options.Cluster == "":
		return refuse("the cluster has no name, which the names of routes begin with")
	case r.Table != networkID(c.network.project, name):
		return refuse("%.80q is not the network %s", r.Table, networkID(c.network.project, name))
	case !r.Destination.IsValid() || r.Destination != r.Destination.Masked():
		return refuse("%s is no destination", r.Destination)
	case r.Verb != cloud.Remove && !isMachine(r.Instance):
		return refuse("%.80q is no instance", r.Instance)
	}
	same, err := c.routesNow(ctx, r.Destination)
	if err != nil {
		return err
	}
	defer c.spoil(r.Destination)
	switch r.Verb {
	case cloud.Add:
		return c.addRoute(ctx, r, name, same)
	case cloud.Replace:
		return c.replaceRoute(ctx, r, name, same)
	case cloud.Remove:
		return c.removeRoutes(ctx, r, same)
	}
	return refuse("unknown verb %q", r.Verb)
}

// isMachine reports whether text is the ID of an instance.
func isMachine(text string) bool {
	zone, name, ok := strings.Cut(text, "/")
	return ok && zoneName.MatchString(zone) && instanceName.MatchString(name)
}

// changed returns the error of a change that meets another route than expected.
func changed(r cloud.RouteChange, same []*route, c *Client) error {
	now := "nothing"
	if len(same) > 0 {
		v := c.first(slices.Clone(same))
		now = v.String()
	}
	return &cloud.Error{Kind: cloud.Changed, Action: listRoutes, Text: fmt.Sprintf("route %s of %s leads to %s now; reading the routes again", r.Destination, r.Table, now)}
}

// addRoute creates a route where none is.
func (c *Client) addRoute(ctx context.Context, r cloud.RouteChange, network string, same []*route) error {
	for _, other := range same {
		if !c.isMarked(other) || c.hop(other.Instance) != r.Instance {
			return changed(r, same, c)
		}
	}
	if len(same) > 0 {
		return nil // it is there
	}
	return c.insert(ctx, network, r.Destination, r.Instance, usual)
}

// replaceRoute creates the route to the new target, and then deletes those to the old one.
// At each moment, one of them carries the packets.
func (c *Client) replaceRoute(ctx context.Context, r cloud.RouteChange, network string, same []*route) error {
	var old []*route
	there, taken := false, make(map[int]bool)
	for _, other := range same {
		switch target := c.hop(other.Instance); {
		case !c.isMarked(other):
			continue
		case target == r.Instance:
			there = true
		case target == r.Was.Instance || r.Was.Split != "" && target == r.Was.Split:
			old = append(old, other)
		default:
			return changed(r, same, c)
		}
		taken[other.Priority] = true
	}
	if !there && len(old) == 0 {
		return changed(r, same, c)
	}
	if !there {
		priority := usual
		if taken[usual] && !taken[better] {
			priority = better
		} else if taken[usual] {
			// Both are taken. The one that carries no packets goes first.
			i := slices.IndexFunc(old, func(o *route) bool { return o.Priority == usual })
			if err := c.delete(ctx, old[i].Name); err != nil {
				return err
			}
			old = slices.Delete(old, i, i+1)
		}
		if err := c.insert(ctx, network, r.Destination, r.Instance, priority); err != nil {
			return err
		}
	}
	for _, o := range old {
		if err := c.delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// removeRoutes deletes the routes of ours to a destination.
func (c *Client) removeRoutes(ctx context.Context, r cloud.RouteChange, same []*route) error {
	var old []*route
	for _, other := range same {
		target := c.hop(other.Instance)
		switch {
		case !c.isMarked(other):
		case target == r.Was.Instance || r.Was.Split != "" && target == r.Was.Split:
			old = append(old, other)
		default:
			return changed(r, same, c)
		}
	}
	for _, o := range old {
		if err := c.delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// insert creates a route, and waits until it is there.
func (c *Client) insert(ctx context.Context, network string, to netip.Prefix, instance string, priority int) error {
	zone, machine, _ := strings.Cut(instance, "/")
	r := route{
		Name: c.routeName(network, to, instance, priority), Description: mark, To: to.String(), Priority: priority,
		Network:  c.options.Endpoint + "projects/" + c.network.project + "/global/networks/" + network,
		Instance: c.options.Endpoint + place{c.options.Project, zone}.path() + "instances/" + machine,
	}
	err := c.operate(ctx, r.Name, request{action: insertRoute, method: http.MethodPost, at: place{project: c.network.project}, path: "global/routes", body: r})
	if cloud.KindOf(err) != cloud.Changed {
		return err
	}
	// There is a route of this name: an earlier request may have made it.
	var now route
	if failed := c.do(ctx, request{action: getRoute, method: http.MethodGet, at: place{project: c.network.project}, path: "global/routes/" + r.Name, query: url.Values{"fields": {fieldsOfRoute}}}, &now); failed != nil {
		return err
	}
	v := c.route(&now)
	if !c.isMarked(&now) || v.Destination != to || v.Instance != instance || now.Priority != priority || networkOf(now.Network) != networkID(c.network.project, network) {
		return err
	}
	return nil
}

// delete deletes a route, and waits until it is gone.
func (c *Client) delete(ctx context.Context, name string) error {
	err := c.operate(ctx, name, request{action: deleteRoute, method: http.MethodDelete, at: place{project: c.network.project}, path: "global/routes/" + name})
	if cloud.KindOf(err) == cloud.Missing {
		return nil
	}
	return err
}

// Forwarding is Google's setting of instances.
var Forwarding = cloud.Forwarding{Setting: "canIpForward", On: true}

// forwardFix is what people must do so that an instance forwards packets. Google decides that
// when it creates or restarts the instance, and this program restarts none.
const forwardFix = "re-create the instance with --can-ip-forward, or switch canIpForward on with gcloud compute instances update-from-file, which restarts it"

// Forward returns why an instance does not forward packets, with the fix.
func (c *Client) Forward(_ context.Context, i cloud.Instance) error {
	return &cloud.Error{Kind: cloud.Refused, Action: "instances.update", Text: fmt.Sprintf("%s at %s; %s", Forwarding.Is(false), i.ID, forwardFix)}
}
