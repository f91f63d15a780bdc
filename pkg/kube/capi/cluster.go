package capi

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/kube"
)

// Group is the API group of Cluster API's core.
const Group = "cluster.x-k8s.io"

// Clusters and ClustersBeta1 are the resource of Clusters in its two versions. Before release
// 1.11 there is only the second, and a later release drops it.
const (
	Clusters      = "apis/" + Group + "/v1beta2/clusters"
	ClustersBeta1 = "apis/" + Group + "/v1beta1/clusters"
)

// The annotations and the label of the contract.
const (
	// PausedAnnotation on an object, with any value, stops all controllers of the object.
	PausedAnnotation = Group + "/paused"
	// ManagedByAnnotation on infrastructure, with any value, leaves it to another program.
	ManagedByAnnotation = Group + "/managed-by"
	// NameLabel has the name of the Cluster that an object is part of.
	NameLabel = Group + "/cluster-name"
)

// Format is how Clusters of both versions are read.
var Format = kube.JSON[Cluster]("Cluster")

// Meta is the metadata of an object in a namespace.
type Meta struct {
	Namespace string `json:"namespace,omitempty"`
	kube.Meta
	Generation  int64             `json:"generation,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Owners      []Owner           `json:"ownerReferences,omitempty"`
}

// Key returns what tells an object from others of its kind.
func (m Meta) Key() string { return m.Namespace + "/" + m.Name }

// Has reports whether an object has an annotation, with whatever value.
func (m Meta) Has(annotation string) bool {
	_, has := m.Annotations[annotation]
	return has
}

// Owner is an owner of an object.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller *bool  `json:"controller,omitempty"`
	Blocks     *bool  `json:"blockOwnerDeletion,omitempty"`
}

// ClusterOf returns the Cluster among the owners of an object, and false if it has none yet.
func ClusterOf(owners []Owner) (Owner, bool) {
	i := slices.IndexFunc(owners, func(o Owner) bool {
		group, _, _ := strings.Cut(o.APIVersion, "/")
		return o.Kind == "Cluster" && group == Group && o.Name != "" && o.UID != ""
	})
	if i < 0 {
		return Owner{}, false
	}
	return owners[i], true
}

// Endpoint is where an API server is reached.
type Endpoint struct {
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty"`
}

// Valid reports whether an Endpoint can be reached: it has a port, and a host that is a name or an
// address. The host becomes part of a URL.
func (e Endpoint) Valid() bool {
	if e.Host == "" || len(e.Host) > 512 || e.Port <= 0 || e.Port >= 1<<16 {
		return false
	}
	if strings.Contains(e.Host, ":") {
		a, err := netip.ParseAddr(e.Host)
		return err == nil && a.Zone() == ""
	}
	return strings.IndexFunc(e.Host, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// Reference names another object of the same namespace. Its version is in APIVersion before
// v1beta2, and the object itself names it since.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Group      string `json:"apiGroup,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// In reports whether a Reference is to a kind of an API group.
func (r Reference) In(group, kind string) bool {
	own := r.Group
	if own == "" {
		own, _, _ = strings.Cut(r.APIVersion, "/")
	}
	return own == group && r.Kind == kind && r.Name != ""
}

// Cluster is what controllers of infrastructure read of a Cluster.
type Cluster struct {
	Metadata Meta
	Spec     ClusterSpec
	Status   ClusterStatus
	// Unreadable is why a part could not be read, or "". One strange object must not keep the
	// others from being read.
	Unreadable string
}

// ClusterSpec is the spec of a Cluster.
type ClusterSpec struct {
	Paused         bool      `json:"paused"`
	Endpoint       Endpoint  `json:"controlPlaneEndpoint"`
	Infrastructure Reference `json:"infrastructureRef"`
	ControlPlane   Reference `json:"controlPlaneRef"`
	Network        struct {
		// APIPort is the port of the API servers, or 0 for the usual one.
		APIPort int `json:"apiServerPort"`
	} `json:"clusterNetwork"`
}

// ClusterStatus is the status of a Cluster: the first two fields of v1beta1, and
// Initialization of v1beta2.
type ClusterStatus struct {
	InfrastructureReady bool   `json:"infrastructureReady"`
	ControlPlaneReady   bool   `json:"controlPlaneReady"`
	Phase               string `json:"phase"`
	Initialization      struct {
		Infrastructure bool `json:"infrastructureProvisioned"`
		ControlPlane   bool `json:"controlPlaneInitialized"`
	} `json:"initialization"`
	Conditions     []Condition     `json:"conditions"`
	FailureDomains json.RawMessage `json:"failureDomains"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cluster) UnmarshalJSON(text []byte) error {
	var parts struct {
		Metadata     Meta            `json:"metadata"`
		Spec, Status json.RawMessage `json:",omitempty"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	*c = Cluster{Metadata: parts.Metadata}
	if len(parts.Spec) > 0 {
		if err := json.Unmarshal(parts.Spec, &c.Spec); err != nil {
			c.Unreadable = "spec: " + err.Error()
			// What cannot be read may be a pause.
			c.Spec = ClusterSpec{Paused: true}
		}
	}
	if len(parts.Status) > 0 {
		if err := json.Unmarshal(parts.Status, &c.Status); err != nil {
			c.Unreadable = "status: " + err.Error()
		}
	}
	return nil
}

// Paused reports whether nothing of a Cluster may be changed.
func (c Cluster) Paused() bool { return c.Spec.Paused || c.Metadata.Has(PausedAnnotation) }
