package cluster

import (
	"encoding/json"
	"slices"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// infraGroup is the API group of the infrastructure that is served, and infraKind its kind.
const (
	infraGroup   = "infrastructure.cluster.x-k8s.io"
	infraKind    = "AWSCluster"
	infraVersion = infraGroup + "/v1beta2"
	infraPath    = "apis/" + infraVersion + "/awsclusters"
)

// infra is what is read of an AWSCluster.
type infra struct {
	Metadata capi.Meta
	Spec     struct {
		Endpoint capi.Endpoint `json:"controlPlaneEndpoint"`
	}
	Status struct {
		Ready          bool `json:"ready"`
		Initialization struct {
			Provisioned bool `json:"provisioned"`
		} `json:"initialization"`
		Domains    json.RawMessage  `json:"failureDomains"`
		Conditions []capi.Condition `json:"conditions"`
	}
}

// UnmarshalJSON implements json.Unmarshaler. What cannot be read counts as missing.
func (i *infra) UnmarshalJSON(text []byte) error {
	var parts struct {
		Metadata     capi.Meta       `json:"metadata"`
		Spec, Status json.RawMessage `json:",omitempty"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	*i = infra{Metadata: parts.Metadata}
	for part, to := range map[*json.RawMessage]any{&parts.Spec: &i.Spec, &parts.Status: &i.Status} {
		if len(*part) > 0 && json.Unmarshal(*part, to) != nil {
			*i = infra{Metadata: parts.Metadata}
			break
		}
	}
	return nil
}

var infraFormat = kube.JSON[infra](infraKind)

// provisioned reports whether machines may use the infrastructure, by either contract.
func (i infra) provisioned() bool { return i.Status.Ready || i.Status.Initialization.Provisioned }

// ref returns an AWSCluster as an object of writes.
func (i infra) ref() controller.Ref {
	m := i.Metadata
	return controller.Ref{APIVersion: infraVersion, Kind: infraKind, Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// domain is a failure domain of v1beta2.
type domain struct {
	Name         string            `json:"name,omitempty"`
	ControlPlane *bool             `json:"controlPlane,omitempty"`
	Attributes   map[string]string `json:"attributes,omitempty"`
}

// domainsOf reads failure domains in the form of either contract: a list, or a map by name. They
// are sorted, and each is there once, so that they can be compared.
func domainsOf(text json.RawMessage) (list []domain) {
	if json.Unmarshal(text, &list) != nil {
		var m map[string]domain
		if json.Unmarshal(text, &m) != nil {
			return nil
		}
		list = nil
		for name, d := range m {
			d.Name = name
			list = append(list, d)
		}
	}
	list = slices.DeleteFunc(list, func(d domain) bool { return d.Name == "" })
	slices.SortStableFunc(list, func(a, b domain) int { return compare(a.Name, b.Name) })
	list = slices.CompactFunc(list, func(a, b domain) bool { return a.Name == b.Name })
	for i := range list {
		if len(list[i].Attributes) == 0 {
			list[i].Attributes = nil
		}
	}
	return list
}

// formOf returns failure domains in the form of a version of Clusters.
func formOf(list []domain, version int) any {
	if version == beta2 {
		return list
	}
	m := make(map[string]domain)
	for _, d := range list {
		name := d.Name
		d.Name = ""
		m[name] = d
	}
	return m
}

// secret is what is read and written of a Secret. It is never printed.
type secret struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   capi.Meta         `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
}

var secretFormat = kube.JSON[secret]("Secret")

// secretType is the type of Cluster API's Secrets.
const secretType = capi.Group + "/secret"

// secretPath returns the path of a Secret, or of all of a namespace.
func secretPath(namespace string, name ...string) string {
	return kube.Path("api/v1/namespaces", append([]string{namespace, "secrets"}, name...)...)
}
