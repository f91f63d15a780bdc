package awscluster

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

const (
	// Group is the API group of AWSClusters, and Kind their kind.
	Group   = "infrastructure.cluster.x-k8s.io"
	Kind    = "AWSCluster"
	version = "v1beta2"

	apiVersion = Group + "/" + version
	// AWSClusters is the resource of AWSClusters.
	AWSClusters = "apis/" + apiVersion + "/awsclusters"
	// definition is the CustomResourceDefinition, whose labels name the contract.
	definition = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/awsclusters." + Group
)

// Finalizer keeps an AWSCluster until its network is gone.
const Finalizer = "tulle.net/awscluster"

// The annotations of an AWSCluster that this controller writes or reads.
const (
	// NetworkAnnotation has the identity of the network: REGION/CLUSTER/UID.
	NetworkAnnotation = "tulle.net/network"
	// LeftoversAnnotation, if it is true, makes a deletion also remove the load balancers that
	// the cluster's own controllers left.
	LeftoversAnnotation = "tulle.net/delete-leftovers"
)

// object is an AWSCluster as it comes.
type object struct {
	Metadata capi.Meta
	status   status
	manifest awsnet.Manifest
	rest     restOfSpec
	err      error // why the spec cannot be read
}

// restOfSpec is what of a spec is not the network's.
type restOfSpec struct {
	Endpoint capi.Endpoint `json:"controlPlaneEndpoint"`
	Identity *struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"identityRef"`
}

var objectFormat = kube.JSON[object](Kind)

// UnmarshalJSON implements json.Unmarshaler. What cannot be read of one object is its own
// error.
func (o *object) UnmarshalJSON(text []byte) error {
	var parts struct {
		Metadata     capi.Meta       `json:"metadata"`
		Spec, Status json.RawMessage `json:",omitempty"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	*o = object{Metadata: parts.Metadata}
	o.status = readStatus(parts.Status)
	if o.manifest, o.err = awsnet.ParseObject(text); o.err == nil && len(bytes.TrimSpace(parts.Spec)) > 0 {
		o.err = json.Unmarshal(parts.Spec, &o.rest)
	}
	return nil
}

// state is what is kept of an AWSCluster.
type state struct {
	capi.Meta
	revision int64
	deleting bool
	manifest awsnet.Manifest
	endpoint capi.Endpoint
	identity string // that is not the controller's own, for people
	err      error
	status   status
}

// keep returns what to keep of an AWSCluster.
func keep(o *object) (key string, s state) {
	s = state{
		Meta: o.Metadata, revision: kube.Revision(o.Metadata.ResourceVersion), deleting: o.Metadata.DeletionTimestamp != "",
		manifest: o.manifest, endpoint: o.rest.Endpoint, err: o.err, status: o.status,
	}
	if i := o.rest.Identity; i != nil && (i.Kind != ownIdentity || i.Name != "" && i.Name != "default") {
		s.identity = i.Kind + " " + i.Name
	}
	return s.Key(), s
}

// ownIdentity is the kind of identityRef that means the controller's own credentials.
const ownIdentity = "AWSClusterControllerIdentity"

func (s state) finalized() bool { return slices.Contains(s.Finalizers, Finalizer) }

// isOlder reports whether s is an earlier state of the same AWSCluster than another one.
func (s state) isOlder(than state) bool {
	return s.UID == than.UID && s.revision != 0 && s.revision < than.revision
}

// ref returns the AWSCluster as an object of events and writes.
func (s state) ref() controller.Ref {
	return controller.Ref{APIVersion: apiVersion, Kind: Kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

// path returns the path of an AWSCluster, or of a part of it.
func (s state) path(part ...string) string {
	return kube.Path("apis/"+apiVersion+"/namespaces", append([]string{s.Namespace, "awsclusters", s.Name}, part...)...)
}
