package cloudnode

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Taint keeps pods off a Node that is not initialised.
const Taint = "node.cloudprovider.kubernetes.io/uninitialized"

// The labels that hold the cloud's facts of a Node. Each fact has an old label and a stable
// one.
const (
	oldType      = "beta.kubernetes.io/instance-type"
	stableType   = "node.kubernetes.io/instance-type"
	oldZone      = "failure-domain.beta.kubernetes.io/zone"
	stableZone   = "topology.kubernetes.io/zone"
	oldRegion    = "failure-domain.beta.kubernetes.io/region"
	stableRegion = "topology.kubernetes.io/region"
)

// pairs are the labels, the old one of each fact first.
var pairs = [...][2]string{{oldType, stableType}, {oldZone, stableZone}, {oldRegion, stableRegion}}

// change is a change of a Node.
type change struct {
	providerID string            // "" is none
	labels     map[string]string // to set
	untaint    bool
	taints     []kube.TaintSpec // the taints that stay, if untaint is set
	addresses  []cloud.Address  // nil is none
}

// isEmpty reports whether there is nothing to write.
func (c change) isEmpty() bool {
	return c.providerID == "" && len(c.labels) == 0 && !c.untaint && c.addresses == nil
}

// String describes the change in one line, for plans and events.
func (c change) String() string {
	var parts []string
	if c.providerID != "" {
		parts = append(parts, "set providerID "+c.providerID)
	}
	if c.addresses != nil {
		var all []string
		for _, a := range c.addresses {
			all = append(all, fmt.Sprintf("%s=%s", a.Type, a.Value))
		}
		parts = append(parts, "set addresses "+strings.Join(all, ","))
	}
	if len(c.labels) > 0 {
		parts = append(parts, "set labels "+labelText(c.labels))
	}
	if c.untaint {
		parts = append(parts, "remove the taint "+Taint)
	}
	return strings.Join(parts, "; ")
}

// labelText returns labels in one line. If the old and the stable label of a fact get the same
// value, it shows them once, with a short name.
func labelText(labels map[string]string) string {
	short := maps.Clone(labels)
	for _, pair := range pairs {
		old, isOld := labels[pair[0]]
		stable, isStable := labels[pair[1]]
		if isOld && isStable && old == stable {
			delete(short, pair[0])
			delete(short, pair[1])
			_, name, _ := strings.Cut(pair[1], "/")
			short[name] = stable
		}
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(short)) {
		all = append(all, key+"="+short[key])
	}
	return strings.Join(all, ",")
}

// initial returns the change that initialises a Node, with all facts of its instance.
func initial(n *node, i *cloud.Instance, zoneID string) (c change, err error) {
	c = change{untaint: true, taints: n.taints, labels: make(map[string]string)}
	if n.id == "" {
		c.providerID = i.ProviderID
	}
	for k, value := range map[int]string{0: i.Type, 1: i.Zone, 2: i.Region} {
		for _, key := range pairs[k] {
			if value != "" && n.labels[key] != value {
				c.labels[key] = value
			}
		}
	}
	// A label that only this cloud has is not changed if the Node already has it.
	if _, has := n.labels[zoneID]; zoneID != "" && i.ZoneID != "" && !has {
		c.labels[zoneID] = i.ZoneID
	}
	c.addresses, err = newAddresses(n, i)
	return c, err
}

// later returns the change that an initialised Node needs. Without a fresh instance, the change
// follows from the Node's old labels only.
func later(n *node, i *cloud.Instance) (c change, err error) {
	c = change{labels: make(map[string]string)}
	for k, pair := range pairs {
		value, has := n.labels[pair[0]]
		if k == 0 && i != nil && i.Type != "" {
			// The type of an instance can be changed while it is stopped.
			if has && value != i.Type {
				c.labels[pair[0]] = i.Type
			}
			_, stable := n.labels[pair[1]]
			value, has = i.Type, has || stable
		}
		if has && n.labels[pair[1]] != value {
			c.labels[pair[1]] = value
		}
	}
	if i != nil {
		c.addresses, err = newAddresses(n, i)
	}
	return c, err
}

// newAddresses returns a Node's addresses if they must change, or nil.
func newAddresses(n *node, i *cloud.Instance) ([]cloud.Address, error) {
	all, err := addressesFor(i.Addresses, n.addresses, n.provided, n.isProvided)
	if err != nil || slices.Equal(all, n.addresses) {
		return nil, err
	}
	return all, nil
}
