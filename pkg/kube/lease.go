package kube

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Leases returns the resource of the Leases in a namespace.
func Leases(namespace string) string {
	return Path("apis/coordination.k8s.io/v1/namespaces", namespace, "leases")
}

// LeaseFormat is the format of Leases.
var LeaseFormat = JSON[Lease]("Lease")

// Lease is the object by which the replicas of a program elect their leader. It keeps
// the fields that it was read with, so that an Update changes only those of Spec.
type Lease struct {
	Metadata Meta
	Spec     LeaseSpec

	metadata, spec map[string]json.RawMessage
}

// LeaseSpec names the leader. We write its times as RFC 3339 with microseconds; the
// server checks no time that another program writes.
type LeaseSpec struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int64  `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          string `json:"acquireTime,omitempty"`
	RenewTime            string `json:"renewTime,omitempty"`
	LeaseTransitions     int64  `json:"leaseTransitions"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lease) UnmarshalJSON(text []byte) error {
	var known struct {
		Metadata Meta
		Spec     LeaseSpec
	}
	var all struct{ Metadata, Spec map[string]json.RawMessage }
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*l = Lease{known.Metadata, known.Spec, all.Metadata, all.Spec}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (l *Lease) MarshalJSON() ([]byte, error) {
	metadata, err := onto(l.metadata, l.Metadata)
	if err != nil {
		return nil, err
	}
	spec, err := onto(l.spec, l.Spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
}

// onto returns the fields of an object with those of value, which is a struct, in
// place of what they were.
func onto(object map[string]json.RawMessage, value any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("fields of %T: %w", value, err)
	}
	all := make(map[string]json.RawMessage, len(object)+len(fields))
	maps.Copy(all, object)
	maps.Copy(all, fields)
	return all, nil
}
