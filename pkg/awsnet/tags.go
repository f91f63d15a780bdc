package awsnet

import (
	"maps"
	"slices"
	"strings"
)

// The tags by which Cluster API's AWS provider and the cloud controllers find objects.
const (
	ownerPrefix  = "sigs.k8s.io/cluster-api-provider-aws/cluster/"
	roleTag      = "sigs.k8s.io/cluster-api-provider-aws/role"
	secondaryTag = "sigs.k8s.io/cluster-api-provider-aws/association"
	clusterTag   = "kubernetes.io/cluster/"
	publicTag    = "kubernetes.io/role/elb"
	internalTag  = "kubernetes.io/role/internal-elb"
	owned        = "owned"
	shared       = "shared"
)

// The tags that only this program writes.
const (
	// UIDTag has the UID of the cluster that created an object, and PartTag has the
	// object's Key.
	UIDTag  = "tulle.net/cluster-uid"
	PartTag = "tulle.net/network-part"
	// KeptTag marks an address that a later network of the same cluster name uses
	// again.
	KeptTag = "tulle.net/kept"
	// sharerPrefix and a cluster's name are the key of a tag on objects that are not
	// ours. Its value is the UID of the cluster that tagged them.
	sharerPrefix = "tulle.net/shared-by/"
)

// Owner is the cluster that objects belong to.
type Owner struct {
	Cluster, UID string
	// Adopt is the ID of a VPC that is this cluster's by its Spec. The cluster adopts
	// the objects in it that have the tag of Tag and no UID.
	Adopt string
}

// Tag returns the key of the tag that all objects of a cluster have, with the value
// owned, whatever UID the cluster has. A reading filters by it.
func (o Owner) Tag() string { return ownerPrefix + o.Cluster }

// Owns reports whether tags say that an object is this cluster's.
func (o Owner) Owns(tags map[string]string) bool {
	return tags[o.Tag()] == owned && o.UID != "" && tags[UIDTag] == o.UID
}

// tags returns the tags with which an object is created.
func (o Owner) tags(k Key, role, name string, more ...map[string]string) map[string]string {
	tags := make(map[string]string)
	for _, m := range more {
		maps.Copy(tags, m)
	}
	if _, named := tags["Name"]; !named {
		tags["Name"] = name
	}
	tags[o.Tag()], tags[UIDTag] = owned, o.UID
	if k.Kind.Tagged() {
		tags[PartTag] = k.String()
	}
	if role != "" {
		tags[roleTag] = role
	}
	return tags
}

// reserved reports whether people may not set a tag with this key.
func reserved(key string) bool {
	return strings.HasPrefix(key, "aws:") || strings.HasPrefix(key, ownerPrefix) || key == roleTag || strings.HasPrefix(key, "tulle.net/")
}

// Pairs is a set of keys and values that can be compared with ==.
type Pairs string

// PairsOf returns a set.
func PairsOf(m map[string]string) Pairs {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, k+"\x00"+m[k])
	}
	return Pairs(strings.Join(words, "\x01"))
}

// Map returns the set as a map.
func (p Pairs) Map() map[string]string {
	m := make(map[string]string)
	if p == "" {
		return m
	}
	for word := range strings.SplitSeq(string(p), "\x01") {
		k, v, _ := strings.Cut(word, "\x00")
		m[k] = v
	}
	return m
}
