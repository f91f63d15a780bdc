package aws

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

const (
	createRoute     = "CreateRoute"
	replaceRoute    = "ReplaceRoute"
	deleteRoute     = "DeleteRoute"
	modifyInterface = "ModifyNetworkInterfaceAttribute"
	// fresh is the maximum age of a read that confirms the route to replace or remove.
	fresh = time.Second
)

var actions = map[cloud.Verb]string{cloud.Add: createRoute, cloud.Replace: replaceRoute, cloud.Remove: deleteRoute}

// ChangeRoutes makes changes, and returns the error of each. The changes are independent. AWS
// has no preconditions, so ChangeRoutes reads a route again right before it replaces or
// removes it. If the route has changed, the error is Changed.
func (c *Client) ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) []error {
	return cloud.ChangeEach(changes, func(r cloud.RouteChange) error { return c.changeRoute(ctx, r) })
}

func (c *Client) changeRoute(ctx context.Context, r cloud.RouteChange) error {
	action := actions[r.Verb]
	refuse := func(k cloud.Kind, format string, args ...any) error {
		return &cloud.Error{Kind: k, Action: action, Text: fmt.Sprintf(format, args...)}
	}
	switch target := r.Verb != cloud.Remove; {
	case action == "":
		return refuse(cloud.Refused, "unknown verb %q", r.Verb)
	case !resourceID.MatchString(r.Table):
		return refuse(cloud.Refused, "%.80q is not a route table", r.Table)
	case !r.Destination.IsValid() || r.Destination != r.Destination.Masked():
		return refuse(cloud.Refused, "%s is not a destination", r.Destination)
	case target && r.Interface == "" && !instanceID.MatchString(r.Instance), target && r.Interface != "" && !resourceID.MatchString(r.Interface):
		return refuse(cloud.Refused, "instance %.80q with the interface %.80q is not a target", r.Instance, r.Interface)
	}
	if r.Verb != cloud.Add {
		now, there, err := c.routeNow(ctx, r.Table, r.Destination)
		switch {
		case err != nil:
			return err
		case !there && r.Verb == cloud.Remove:
			return nil
		case !there:
			return refuse(cloud.Changed, "route %s was removed from %s since it was read; reading the table again", r.Destination, r.Table)
		case now.Kind != r.Was.Kind || now.Target != r.Was.Target || now.Instance != r.Was.Instance || now.Origin != r.Was.Origin:
			return refuse(cloud.Changed, "route %s of %s leads to %s now, and not to %s; reading the table again", r.Destination, r.Table, now, r.Was)
		}
	}
	err := c.sendRoute(ctx, r)
	if r.Verb == cloud.Remove && cloud.KindOf(err) == cloud.Missing {
		return nil
	}
	return err
}

// sendRoute sends one change.
func (c *Client) sendRoute(ctx context.Context, r cloud.RouteChange) error {
	var to4, to6, instance, nic *string
	if text := aws.String(r.Destination.String()); subnet.FamilyOf(r.Destination.Addr()) == subnet.IPv4 {
		to4 = text
	} else {
		to6 = text
	}
	// AWS refuses an instance with several interfaces as a target, so prefer the interface.
	if r.Interface != "" {
		nic = &r.Interface
	} else {
		instance = &r.Instance
	}
	switch r.Verb {
	case cloud.Add:
		return change(ctx, c, createRoute, func(ctx context.Context) (*ec2.CreateRouteOutput, error) {
			return c.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &r.Table, DestinationCidrBlock: to4, DestinationIpv6CidrBlock: to6, InstanceId: instance, NetworkInterfaceId: nic})
		})
	case cloud.Replace:
		return change(ctx, c, replaceRoute, func(ctx context.Context) (*ec2.ReplaceRouteOutput, error) {
			return c.ec2.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{RouteTableId: &r.Table, DestinationCidrBlock: to4, DestinationIpv6CidrBlock: to6, InstanceId: instance, NetworkInterfaceId: nic})
		})
	}
	return change(ctx, c, deleteRoute, func(ctx context.Context) (*ec2.DeleteRouteOutput, error) {
		return c.ec2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &r.Table, DestinationCidrBlock: to4, DestinationIpv6CidrBlock: to6})
	})
}

// Forwarding is AWS's setting of network interfaces.
var Forwarding = cloud.Forwarding{Setting: "the source/destination check"}

// Forward lets an instance's primary interface send and receive packets whose addresses
// are not its own.
func (c *Client) Forward(ctx context.Context, i cloud.Instance) error {
	if !resourceID.MatchString(i.Interface) {
		return &cloud.Error{Kind: cloud.Refused, Action: modifyInterface, Text: fmt.Sprintf("instance %.80q has no primary interface", i.ID)}
	}
	return change(ctx, c, modifyInterface, func(ctx context.Context) (*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
		return c.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: &i.Interface, SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)},
		})
	})
}

// recent caches the last reads of tables, so that simultaneous changes share them.
type recent struct {
	mu    sync.Mutex
	reads map[string]*tableRead // by ID
}

// tableRead is one read of a table.
type tableRead struct {
	began  time.Time
	done   chan struct{} // closed when the fields below are set
	routes map[netip.Prefix]cloud.Route
	err    error
}

// routeNow reads a route of a table, and reports whether it exists. Simultaneous calls share
// reads, which are at most fresh old.
func (c *Client) routeNow(ctx context.Context, id string, to netip.Prefix) (r cloud.Route, there bool, err error) {
	read := c.tableNow(ctx, id)
	select {
	case <-read.done:
	case <-ctx.Done():
		return r, false, explain(describeTables, ctx.Err())
	}
	r, there = read.routes[to]
	return r, there, read.err
}

// tableNow returns a read of a table that is at most fresh old. It starts one if necessary.
func (c *Client) tableNow(ctx context.Context, id string) *tableRead {
	c.tables.mu.Lock()
	defer c.tables.mu.Unlock()
	now := time.Now()
	for other, r := range c.tables.reads {
		if now.Sub(r.began) > fresh {
			delete(c.tables.reads, other)
		}
	}
	if r := c.tables.reads[id]; r != nil {
		return r
	}
	if c.tables.reads == nil {
		c.tables.reads = make(map[string]*tableRead)
	}
	r := &tableRead{began: now, done: make(chan struct{}), routes: make(map[netip.Prefix]cloud.Route)}
	c.tables.reads[id] = r
	go func() {
		defer close(r.done)
		// Other changes may wait for this read, so it outlives ctx.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryLimit)
		defer cancel()
		all, err := c.describeTables(within, []types.Filter{filter("route-table-id", id)})
		if err == nil && len(all) == 0 {
			err = &cloud.Error{Kind: cloud.Missing, Action: describeTables, Text: fmt.Sprintf("region %s has no route table %s", c.region, id)}
		}
		for _, t := range all {
			for _, route := range t.Routes {
				r.routes[route.Destination] = route
			}
		}
		r.err = err
	}()
	return r
}
