package awsnet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// largestFile is the maximum length of a file, in bytes.
const largestFile = 1 << 20

// The annotations that set Options in an AWSCluster.
const (
	natAnnotation       = "tulle.net/nat-gateways"
	endpointsAnnotation = "tulle.net/gateway-endpoints"
	keepAnnotation      = "tulle.net/keep-addresses"
)

// Manifest is an AWSCluster, or a file in its format.
type Manifest struct {
	Name, Namespace string
	UID             string
	Annotations     map[string]string
	Spec            Spec
}

type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec file `json:"spec"`
}

// file is a Spec with the fields of an AWSCluster that are not about its network.
type file struct {
	Spec
	Endpoint    json.RawMessage `json:"controlPlaneEndpoint,omitempty"`
	ImageFormat string          `json:"imageLookupFormat,omitempty"`
	ImageOrg    string          `json:"imageLookupOrg,omitempty"`
	ImageBaseOS string          `json:"imageLookupBaseOS,omitempty"`
	Identity    json.RawMessage `json:"identityRef,omitempty"`
	Bucket      json.RawMessage `json:"s3Bucket,omitempty"`
}

// The kind of a file.
const (
	apiGroup   = "infrastructure.cluster.x-k8s.io/"
	apiVersion = apiGroup + "v1beta2"
	kind       = "AWSCluster"
)

// ParseFile reads a file in YAML or JSON. A field that an AWSCluster does not have is an
// error.
func ParseFile(data []byte) (Manifest, error) {
	if len(data) > largestFile {
		return Manifest{}, fmt.Errorf("the file has %d bytes, and may have %d; leave out what is not the network's", len(data), largestFile)
	}
	if len(documents(data)) > 1 {
		return Manifest{}, errors.New("the file has several documents; give the AWSCluster a file of its own")
	}
	var m manifest
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("not an %s of %s: %.300s", kind, apiVersion, strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "), "while decoding JSON: json: "))
	}
	if m.APIVersion != apiVersion || m.Kind != kind {
		return Manifest{}, fmt.Errorf("apiVersion %.60q, kind %.60q: a file needs apiVersion: %s and kind: %s", m.APIVersion, m.Kind, apiVersion, kind)
	}
	out, err := m.read()
	if e := bytes.TrimSpace(m.Spec.Endpoint); err == nil && len(e) > 0 {
		out.Spec.APIPort, err = portOf(e)
	}
	if out.UID == "" {
		out.UID = nameUID(out.Namespace, out.Name)
		out.Spec.UID = out.UID
	}
	return out, err
}

// portOf returns the port of a controlPlaneEndpoint, or 0.
func portOf(endpoint []byte) (int, error) {
	var e struct {
		Port int `json:"port"`
	}
	if err := json.Unmarshal(endpoint, &e); err != nil {
		return 0, fmt.Errorf("spec.controlPlaneEndpoint: %.200s; use {port: 6443}, or leave it out", strings.TrimPrefix(err.Error(), "json: "))
	}
	return e.Port, nil
}

// nameUID returns a UID, derived from its name, for a cluster that has none from an API
// server.
func nameUID(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "name-" + hex.EncodeToString(sum[:8])
}

// documents returns the documents of a file that are not empty.
func documents(data []byte) (all [][]byte) {
	for doc := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---")) {
		for line := range bytes.Lines(doc) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != '#' {
				all = append(all, doc)
				break
			}
		}
	}
	return all
}

// ParseObject reads an AWSCluster from an API server, in JSON. It ignores unknown
// fields, because the server may be newer.
func ParseObject(data []byte) (Manifest, error) {
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("the API server's AWSCluster cannot be read: %.300s", err.Error())
	}
	return m.read()
}

func (m manifest) read() (Manifest, error) {
	out := Manifest{Name: m.Metadata.Name, Namespace: m.Metadata.Namespace, UID: m.Metadata.UID, Annotations: m.Metadata.Annotations, Spec: m.Spec.Spec}
	if out.Name == "" {
		return Manifest{}, errors.New("metadata.name is empty; it is the cluster's name in AWS's tags")
	}
	if b := bytes.TrimSpace(m.Spec.Bucket); len(b) > 0 && string(b) != "null" {
		return Manifest{}, errors.New("spec.s3Bucket: this program makes no buckets; remove it")
	}
	out.Spec.Cluster, out.Spec.UID = out.Name, out.UID
	return out, out.annotate()
}

// annotate sets the Options that the annotations contain.
func (m *Manifest) annotate() error {
	clash := func(name, field string) error {
		return fmt.Errorf("annotation %s: differs from spec.%s; remove one of them", name, field)
	}
	o := &m.Spec.Options
	if v, has := m.Annotations[natAnnotation]; has {
		if o.NATGateways != "" && o.NATGateways != NATMode(v) {
			return clash(natAnnotation, "natGateways")
		}
		o.NATGateways = NATMode(v)
	}
	if v, has := m.Annotations[endpointsAnnotation]; has {
		if o.GatewayEndpoints != nil {
			return clash(endpointsAnnotation, "gatewayEndpoints")
		}
		names := []string{}
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
		o.GatewayEndpoints = &names
	}
	if v, has := m.Annotations[keepAnnotation]; has {
		keep, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("annotation %s: %.60q is neither true nor false", keepAnnotation, v)
		}
		o.KeepAddresses = o.KeepAddresses || keep
	}
	return nil
}
