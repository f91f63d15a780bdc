package route

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// Cluster is a Source of the Nodes of a Kubernetes cluster.
type Cluster struct{ Client *kube.Client }

// Missing implements Source.
func (Cluster) Missing() string {
	return "the Node has no providerID, so its instance is not known; run cloud-node-controller, or start the kubelet with one"
}

// Follow implements Source.
func (s Cluster) Follow(e *controller.Engine, to Follower) {
	controller.Follow(e, controller.Feed[kube.Node, Node]{
		What: "nodes", Client: s.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: keep, List: to.List, Set: to.Set, Delete: to.Delete,
	})
}

// keep returns the facts of a Node to keep.
func keep(k *kube.Node) (name string, n Node) {
	n = Node{ProviderID: string(k.ProviderID), Condition: string(k.Unavailable.Status), Reason: string(k.Unavailable.Reason), Version: string(k.ResourceVersion)}
	n.Name, n.UID, n.Created = string(k.Name), string(k.UID), k.Created
	for _, cidr := range k.PodCIDRs() {
		n.Ranges = append(n.Ranges, string(cidr))
	}
	var prefix []byte
	for _, a := range k.Annotations {
		switch {
		case string(a.Key) == subnet.NoticeAnnotation:
			n.Notice = short(a.Value)
		case string(a.Value) == native && (bytes.HasSuffix(a.Key, []byte("/"+backendType)) || bytes.HasSuffix(a.Key, []byte("-"+backendType))):
			n.ReadsNotices, prefix = true, bytes.TrimSuffix(a.Key, []byte(backendType))
		}
	}
	if !n.ReadsNotices {
		return n.Name, n
	}
	for _, a := range k.Annotations {
		rest, ok := bytes.CutPrefix(a.Key, prefix)
		for f, name := range publicIP {
			if !ok || string(rest) != name || len(a.Value) > longestAddress {
				continue
			}
			if ip, err := netip.ParseAddr(string(a.Value)); err == nil && !ip.IsUnspecified() && ip.Zone() == "" && subnet.FamilyOf(ip) == subnet.Family(f) && !ip.Is4In6() {
				n.PublicIP[f] = ip
			}
		}
	}
	return n.Name, n
}

// short returns the text of a notice. For one that is too long, and so not ours, it returns a
// short text that is equal to no notice.
func short(text []byte) string {
	if len(text) > subnet.LongestNotice {
		return "too long"
	}
	return string(text)
}

// A daemon publishes the type of its backend in an annotation. The annotation's name begins
// with a prefix that the network's config sets.
const (
	backendType = "backend-type"
	native      = "cloud" // the type whose nodes read notices

	longestAddress = 64 // bytes
)

// publicIP are the names, without the prefix, of the annotations with a daemon's addresses.
var publicIP = subnet.Pair[string]{"public-ip", "public-ipv6"}

// ReadNotices implements Source. It returns nil, because notices are annotations of Nodes.
func (Cluster) ReadNotices() func(context.Context) (map[string]string, error) { return nil }

// SetNotice implements Source.
func (s Cluster) SetNotice(ctx context.Context, n Node, notice string) error {
	value := &notice
	if notice == "" {
		value = nil
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.Version, "annotations": map[string]*string{subnet.NoticeAnnotation: value},
	}})
	if err != nil {
		return err
	}
	return kube.Patch(ctx, s.Client, kube.Path(kube.Nodes, n.Name, "status"), kube.MergePatch, change, kube.NodeMetadata, new(kube.Node))
}

// Ref implements Source.
func (Cluster) Ref(n Node) controller.Ref {
	return controller.Ref{Kind: "Node", Name: n.Name, UID: n.UID}
}

// SetCondition implements Source.
func (s Cluster) SetCondition() func(context.Context, Node, bool) error {
	return func(ctx context.Context, n Node, routed bool) error {
		at := time.Now().UTC().Format(time.RFC3339)
		condition := map[string]string{
			"type": kube.NetworkUnavailable, "status": "False", "reason": routeCreated, "message": "RouteController created a route",
			"lastHeartbeatTime": at, "lastTransitionTime": at,
		}
		if !routed {
			condition["status"], condition["reason"], condition["message"] = "True", noRouteCreated, "RouteController failed to create a route"
		}
		change, err := json.Marshal(map[string]any{
			"metadata": kube.Version{UID: n.UID, ResourceVersion: n.Version},
			"status":   map[string]any{"conditions": []map[string]string{condition}},
		})
		if err != nil {
			return err
		}
		return kube.Patch(ctx, s.Client, kube.Path(kube.Nodes, n.Name, "status"), kube.StrategicMergePatch, change, kube.NodeMetadata, new(kube.Node))
	}
}
