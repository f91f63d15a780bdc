package cloudbalancer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// ServiceTag is the tag with the name of the Service that an object is for, like
	// default/web.
	ServiceTag = "kubernetes.io/service-name"
	// UIDTag is the tag with the UID of the Service.
	UIDTag = "tulle.net/service-uid"
	// clusterTag is the start of the tag with the name of the cluster.
	clusterTag = "kubernetes.io/cluster/"
	// owned is the value of the cluster's tag on what goes with the cluster.
	owned = "owned"
)

// The descriptions of rules in the security groups of Nodes. The balancer's name follows.
const (
	clientRule = "kubernetes.io/rule/nlb/client="
	healthRule = "kubernetes.io/rule/nlb/health="
	mtuRule    = "kubernetes.io/rule/nlb/mtu="
)

// mostName is the length of a balancer's name.
const mostName = 32

// BalancerName returns the name of the balancer of a Service, the one that all cloud
// controller managers give it.
func BalancerName(uid string) string {
	name := "a" + strings.ReplaceAll(uid, "-", "")
	return name[:min(len(name), mostName)]
}

// securityName returns the name of the security group of a balancer.
func securityName(balancer string) string { return "k8s-elb-" + balancer }

var notAlphanumeric = regexp.MustCompile(`[^a-zA-Z0-9]`)

// nameWith returns a name that people recognize, with a hash of what makes it unique.
func nameWith(namespace, name string, unique ...string) string {
	hash := sha256.New()
	for _, text := range unique {
		hash.Write([]byte(text))
	}
	plain := func(text string) string { return notAlphanumeric.ReplaceAllString(text, "") }
	return fmt.Sprintf("k8s-%.8s-%.8s-%.10s", plain(namespace), plain(name), hex.EncodeToString(hash.Sum(nil)))
}

// groupName returns the name of a target group. It has all that cannot be changed later.
func (w Want) groupName(f Front) string {
	return nameWith(w.Namespace, w.Name, w.cluster, "\x00", w.UID, "\x00", strconv.Itoa(f.Port), "\x00", strconv.Itoa(f.NodePort), "\x00", string(f.Backend), "\x00", w.GroupFamily, "\x00", string(f.Health.Protocol))
}

// adoptedSecurityName returns the name of the security group that the AWS cloud
// controller manager makes for the balancer of a Service.
func adoptedSecurityName(cluster string, s Ref) string {
	return nameWith(s.Namespace, s.Name, cluster, s.Name, s.Namespace, s.UID)
}

// Ref names a Service.
type Ref struct{ Namespace, Name, UID string }

// Key returns the name with the namespace, as ServiceTag has it.
func (r Ref) Key() string { return r.Namespace + "/" + r.Name }

// isOurs reports whether tags say that an object was made for this very Service.
func (r Ref) isOurs(cluster string, tags map[string]string) bool {
	uid, marked := tags[UIDTag]
	return tags[clusterTag+cluster] == owned && tags[ServiceTag] == r.Key() && (!marked || uid == r.UID)
}

// tags returns the tags of everything that is made for a Service.
func (r Ref) tags(cluster string, more map[string]string) map[string]string {
	all := maps.Clone(more)
	if all == nil {
		all = make(map[string]string)
	}
	all[clusterTag+cluster], all[ServiceTag], all[UIDTag] = owned, r.Key(), r.UID
	return all
}

// lacking returns those of want that has does not have.
func lacking(has, want map[string]string) map[string]string {
	var all map[string]string
	for k, v := range want {
		if now, is := has[k]; !is || now != v {
			if all == nil {
				all = make(map[string]string)
			}
			all[k] = v
		}
	}
	return all
}

// protocols returns the names of a listener's protocol in rules.
func protocols(p cloud.Protocol) []string {
	switch p {
	case cloud.UDP:
		return []string{"udp"}
	case cloud.TCPUDP:
		return []string{"tcp", "udp"}
	}
	return []string{"tcp"}
}

// IsOfCluster reports whether a security group has the tag of a cluster.
func IsOfCluster(cluster string, s cloud.SecurityGroup) bool {
	_, is := s.Tags[clusterTag+cluster]
	return is
}
