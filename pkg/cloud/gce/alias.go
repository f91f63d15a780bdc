package gce

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// AddAlias adds an alias to the first network interface of an instance, and waits until
// that is done. If ctx ends first, the error is Pending, and the caller may send the
// same Change again: the API makes it once.
func (c *Client) AddAlias(ctx context.Context, change cloud.Change) error {
	n, err := parse(change.ID, c.options.Project)
	if err != nil {
		return &cloud.Error{Kind: cloud.Refused, Action: updateInterface, Text: err.Error()}
	}
	o, err := c.send(ctx, n, change)
	if err != nil || o == nil {
		return err
	}
	return c.await(ctx, n.place(), *o)
}

// send sends a change, and returns its operation, or nil if it was made before.
func (c *Client) send(ctx context.Context, n name, change cloud.Change) (*operation, error) {
	var i instance
	get := request{action: getInstance, method: http.MethodGet, at: n.place(), path: "instances/" + n.instance, query: url.Values{"fields": {fieldsOfInstance}}}
	if err := c.do(ctx, get, &i); err != nil {
		return nil, err
	}
	d := i.first()
	switch {
	case d == nil:
		return nil, &cloud.Error{Kind: cloud.Refused, Action: updateInterface, Text: i.value().Problem}
	case slices.Contains(i.value().Aliases, change.Add):
		return nil, nil
	case d.Fingerprint != change.Version:
		return nil, &cloud.Error{Kind: cloud.Changed, Action: updateInterface, Text: fmt.Sprintf("interface %.20q of %s has changed since it was read; retrying with its new state", d.Name, n.instance)}
	}
	patch := request{
		action: updateInterface, method: http.MethodPatch, at: n.place(), path: "instances/" + n.instance + "/updateNetworkInterface",
		query: url.Values{"networkInterface": {d.Name}, "requestId": {change.Request}},
		body:  netDevice{Fingerprint: d.Fingerprint, Aliases: append(slices.Clone(d.Aliases), alias{change.Add.Range.String(), change.Add.From})},
	}
	var o operation
	if err := c.do(ctx, patch, &o); err != nil {
		return nil, err
	}
	return &o, nil
}

// await waits until an operation has ended. The API holds each request for up to two
// minutes, or less under load.
func (c *Client) await(ctx context.Context, at place, o operation) error {
	pending := func(why string) error {
		return &cloud.Error{Kind: cloud.Pending, Action: updateInterface, Text: fmt.Sprintf("operation %.80q has not ended%s; retrying", o.Name, why)}
	}
	for o.Status != done {
		if o.Name == "" || strings.ContainsAny(o.Name, "/?#%") || ctx.Err() != nil {
			return pending("")
		}
		wait := request{action: waitOperation, method: http.MethodPost, at: at, path: "operations/" + o.Name + "/wait", query: url.Values{"fields": {"name,status,error"}}}
		next := operation{}
		if err := c.do(ctx, wait, &next); err != nil {
			return pending(" as far as is known: " + err.Error())
		}
		o = next
	}
	return o.failure(updateInterface)
}
