package cloudnode

import (
	"context"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// nodeAddress is an address in a Node's status.
type nodeAddress struct {
	Type    cloud.AddressType `json:"type"`
	Address string            `json:"address"`
}

// write returns the write of a change, unless the change is empty. The patch of the addresses
// comes first, so that a Node without the taint has them. A patch replaces all taints, so it
// requires the last known resourceVersion.
func (c *Controller) write(n *node, l change) (w controller.Write, ok bool) {
	if l.isEmpty() {
		return w, false
	}
	f := &flight{uid: n.uid}
	c.inFlight[n.name] = f
	client, path, status := c.options.Client, kube.Path(kube.Nodes, n.name), kube.Path(kube.Nodes, n.name, "status")
	required := kube.Version{UID: n.uid}
	if l.untaint {
		required.ResourceVersion = n.version
	}
	do := func(ctx context.Context) (err error) {
		if l.addresses != nil {
			m := kube.Merge{Kind: kube.StrategicMergePatch, If: required, Status: l.status()} // costs the server less
			if f.answer, err = client.Merge(ctx, status, m); err != nil {
				return err
			}
		}
		if m, needed := l.merge(); needed {
			if m.If = required; l.untaint && l.addresses != nil {
				m.If = f.answer
			}
			f.answer, err = client.Merge(ctx, path, m)
		}
		return err
	}
	return controller.Write{Controller: Name, Object: n.ref(), Verb: controller.Patch, Summary: l.String(), Do: do}, true
}

// status returns the patch of the status. A strategic merge patch would merge addresses by type.
// A Node may have several addresses of a type, so the patch replaces them all.
func (c change) status() any {
	all := []any{map[string]string{"$patch": "replace"}}
	for _, a := range c.addresses {
		all = append(all, nodeAddress{a.Type, a.Value})
	}
	return map[string]any{"addresses": all}
}

// merge returns the patch of metadata and spec. needed is false if there is none.
func (c change) merge() (m kube.Merge, needed bool) {
	m.Kind = kube.StrategicMergePatch // costs the server less
	if len(c.labels) > 0 {
		m.Metadata = map[string]any{"labels": c.labels}
	}
	spec := make(map[string]any)
	if c.providerID != "" {
		spec["providerID"] = c.providerID
	}
	if c.untaint {
		spec["taints"] = slices.Concat([]kube.TaintSpec{}, c.taints) // never null
	}
	if len(spec) > 0 {
		m.Spec = spec
	}
	return m, m.Metadata != nil || m.Spec != nil
}
