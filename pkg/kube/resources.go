package kube

import (
	"cmp"
	"encoding/json"
)

// The resources of cluster-scoped objects. A server may lack ServiceCIDRs, which came
// with Kubernetes 1.33, and ClusterCIDRs, which are custom resources. A Watch of
// an absent resource reports an Error of the code 404 until the server has it.
const (
	ServiceCIDRs = "apis/networking.k8s.io/v1/servicecidrs"
	ClusterCIDRs = "apis/networking.x-k8s.io/v1/clustercidrs"
)

// Formats of objects that come and go as JSON.
var (
	EventFormat       = JSON[Event]("Event")
	ServiceCIDRFormat = JSON[ServiceCIDR]("ServiceCIDR")
	ClusterCIDRFormat = JSON[ClusterCIDR]("ClusterCIDR")
)

// Meta holds the fields of an object's metadata that we use.
type Meta struct {
	Name         string `json:"name,omitempty"`
	GenerateName string `json:"generateName,omitempty"`
	Version
	CreationTimestamp string   `json:"creationTimestamp,omitempty"`
	DeletionTimestamp string   `json:"deletionTimestamp,omitempty"`
	Finalizers        []string `json:"finalizers,omitempty"`
}

// Events returns the resource of the events of objects in a namespace. Those of
// cluster-scoped objects, whose namespace is "", are in the namespace default.
func Events(namespace string) string {
	return Path("api/v1/namespaces", cmp.Or(namespace, "default"), "events")
}

// The types of events.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Event is an event about an object, as controller managers and kubelets write it.
type Event struct {
	Metadata       Meta        `json:"metadata"`
	InvolvedObject Reference   `json:"involvedObject"`
	Reason         string      `json:"reason"`
	Message        string      `json:"message"`
	Type           string      `json:"type"`
	Count          int         `json:"count"`
	FirstTimestamp string      `json:"firstTimestamp"`
	LastTimestamp  string      `json:"lastTimestamp"`
	Source         EventSource `json:"source"`
}

// Reference names an object.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// EventSource is what reports an event.
type EventSource struct {
	Component string `json:"component"`
	Host      string `json:"host,omitempty"`
}

// ServiceCIDR is a range that Services get their addresses from. One that is being
// deleted is in use until it is gone.
type ServiceCIDR struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		CIDRs []string `json:"cidrs"`
	} `json:"spec"`
}

// ClusterCIDR is a pool of podCIDRs, as kubernetes-sigs/node-ipam-controller defines
// it.
type ClusterCIDR struct {
	Metadata Meta            `json:"metadata"`
	Spec     ClusterCIDRSpec `json:"spec"`
	// Unreadable is why Spec could not be read, or "". The definition of a custom
	// resource can be changed, and must not keep the other objects from being read.
	Unreadable string `json:"-"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *ClusterCIDR) UnmarshalJSON(text []byte) error {
	var parts struct {
		Metadata Meta            `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	*c = ClusterCIDR{Metadata: parts.Metadata}
	if len(parts.Spec) == 0 {
		return nil
	}
	if err := json.Unmarshal(parts.Spec, &c.Spec); err != nil {
		c.Spec, c.Unreadable = ClusterCIDRSpec{}, err.Error()
	}
	return nil
}

// ClusterCIDRSpec is the spec of a ClusterCIDR. It never changes.
type ClusterCIDRSpec struct {
	// NodeSelector selects the Nodes; nil selects all.
	NodeSelector *NodeSelector `json:"nodeSelector,omitempty"`
	// PerNodeHostBits is how many bits of an address are left to each Node.
	PerNodeHostBits int    `json:"perNodeHostBits"`
	IPv4            string `json:"ipv4,omitempty"`
	IPv6            string `json:"ipv6,omitempty"`
}

// NodeSelector selects Nodes to which any of its terms applies.
type NodeSelector struct {
	Terms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm applies to a Node that meets all its requirements, of labels and of
// fields. Without a requirement it applies to none.
type NodeSelectorTerm struct {
	Labels []Requirement `json:"matchExpressions,omitempty"`
	Fields []Requirement `json:"matchFields,omitempty"`
}

// Requirement is met if the operator and the values allow the value of a label or a
// field.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}
