package azure

import (
	"context"
	"errors"
	"fmt"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Forwarding is Azure's setting of network interfaces.
var Forwarding = cloud.Forwarding{Setting: "IP forwarding", On: true}

// forwardFix returns what people must do so that an interface forwards packets, if they must.
// Azure keeps the interfaces of a scale set as the scale set says.
func forwardFix(id interfaceID) string {
	if id.set == "" {
		return ""
	}
	return fmt.Sprintf("set enableIPForwarding in the network profile of the scale set %s, and upgrade its instances", id.set)
}

// Forward lets the primary interface of a machine send and receive packets whose addresses
// are not its own. Interfaces of a scale set are not changed.
func (c *Client) Forward(ctx context.Context, i cloud.Instance) error {
	id, ok := parseInterface(i.Interface)
	switch {
	case !ok:
		return &cloud.Error{Kind: cloud.Refused, Action: writeInterface, Text: fmt.Sprintf("machine %.200q has no primary interface", i.ID)}
	case id.set != "":
		return &cloud.Error{Kind: cloud.Refused, Action: writeInterface, Text: "the interface is one of a scale set; " + forwardFix(id)}
	}
	at := inGroup(id.subscription, id.group, "Microsoft.Network", "networkInterfaces", id.name)
	for conflicts := 1; ; conflicts++ {
		whole, err := get[document](ctx, c, readInterface, at, networkVersion)
		if err != nil {
			return err
		}
		p := whole.object("properties")
		if p == nil || whole.text("etag") == "" || whole.text("name") == "" {
			return strange(readInterface, "interface", i.Interface)
		}
		if string(p["enableIPForwarding"]) == "true" {
			return nil
		}
		p.set("enableIPForwarding", true)
		etag := whole.text("etag")
		whole.set("properties", p)
		err = c.put(ctx, writeInterface, at, networkVersion, etag, whole.bytes())
		if cloud.KindOf(err) != cloud.Changed || conflicts == mostConflicts || !c.wait(ctx, err, conflicts) {
			return err
		}
	}
}

// wait waits after a conflict, and reports whether to go on.
func (c *Client) wait(ctx context.Context, err error, conflicts int) bool {
	pause := c.pace.After(conflicts)
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		pause = max(pause, e.After)
	}
	return retry.Sleep(ctx, pause) == nil
}
