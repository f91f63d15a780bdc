package awscluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// identity is whose a network is, and where. It is recorded before the first call, because
// everything else of an object may change: a move to another management cluster gives it
// another uid, and a person may edit its region.
type identity struct{ region, cluster, uid string }

func (i identity) String() string { return i.region + "/" + i.cluster + "/" + i.uid }

// readIdentity reads what an annotation recorded.
func readIdentity(text string) (i identity, err error) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return i, fmt.Errorf("%.200q is not REGION/CLUSTER/UID, as this program writes it; restore it", text)
	}
	return identity{parts[0], parts[1], parts[2]}, nil
}

// recorded returns the identity that the object has, and false if it has none.
func (s state) recorded() (i identity, has bool, err error) {
	text, has := s.Annotations[NetworkAnnotation]
	if !has {
		return i, false, nil
	}
	i, err = readIdentity(text)
	return i, err == nil, err
}

// job is a network as it is to be: a value that a reading works on while the objects change.
type job struct {
	identity
	spec awsnet.Spec
	// end is set if the network is to be deleted, and sweep if what the cluster's own
	// controllers left goes with it.
	end, sweep bool
}

// jobOf returns the network that an AWSCluster wants, or what is wrong with the object.
// cluster is the name of the Cluster that owns it, and port that of its API servers. What needs the zones of the region is
// checked when they are read.
func jobOf(s state, cluster string, port int) (job, []awsnet.Problem) {
	var problems []awsnet.Problem
	refuse := func(field, text string, args ...any) {
		problems = append(problems, awsnet.Problem{Field: field, Text: fmt.Sprintf(text, args...)})
	}
	j := job{spec: s.manifest.Spec, end: s.deleting, identity: identity{s.manifest.Spec.Region, cluster, s.UID}}
	i, has, err := s.recorded()
	switch {
	case err != nil:
		refuse(field(NetworkAnnotation), "%s", err)
	case has:
		if cluster != "" && i.cluster != cluster {
			refuse(field(NetworkAnnotation), "it names the network of Cluster %.80q, and Cluster %.80q owns this object; restore it, or remove it from a copy", i.cluster, cluster)
		}
		if is := s.manifest.Spec.Region; s.err == nil && i.region != is && !j.end {
			refuse("spec.region", "%.60q: the network was begun in %.60q, and cannot move; restore that, or delete the cluster and create it again", is, i.region)
		}
		j.identity = i
	case j.end && cluster == "":
		refuse(field(NetworkAnnotation), "it is missing, and no Cluster owns this object, so its network is not known; restore it, or remove the finalizer %s from a copy", Finalizer)
	}
	j.spec.Cluster, j.spec.UID, j.spec.APIPort = j.cluster, j.uid, port
	if s.err != nil {
		refuse("spec", "%.400s; correct it", s.err)
		return j, problems
	}
	if s.identity != "" {
		refuse("spec.identityRef", "%.120q: this program uses its own credentials alone; remove it, or run this program with credentials of that account", s.identity)
	}
	if sweep, has := s.Annotations[LeftoversAnnotation]; has {
		if j.sweep, err = strconv.ParseBool(sweep); err != nil {
			refuse(field(LeftoversAnnotation), "%.60q is neither true nor false; correct it", sweep)
		}
	}
	if e := s.endpoint; !j.end && e != (capi.Endpoint{}) && !e.Valid() {
		refuse("spec.controlPlaneEndpoint", "nothing can be reached at host %.80q and port %d; set both, or neither, and the load balancer's are set", e.Host, e.Port)
	}
	switch {
	case len(problems) > 0:
	case j.end: // a deletion needs no valid spec, but its region becomes part of a host name
		if wrong := awsnet.CheckIdentity(j.region, j.cluster, j.uid); len(wrong) > 0 {
			refuse(field(NetworkAnnotation), "%s; set it to REGION/CLUSTER/UID, as the tags of the network have them", wrong[0])
		}
	default:
		_, problems = awsnet.Complete(j.spec, nil)
	}
	return j, problems
}

// field returns the path of an annotation.
func field(annotation string) string { return "metadata.annotations[" + annotation + "]" }
