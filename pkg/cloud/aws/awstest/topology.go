package awstest

import (
	"regexp"
	"slices"
)

// mostPlaced is how many IDs a request for the topology may name.
const mostPlaced = 100

// layered are the types of instances whose places in the network AWS describes.
var layered = regexp.MustCompile(`^(hpc|trn|p)[0-9]+[a-z]*(-[a-z0-9]+)?\.[0-9a-z]+$`)

// describeTopology answers with the network nodes above running instances, from the top. It omits
// instances of types without a place.
func describeTopology(r *request) error {
	if n := len(r.form.texts("InstanceId")); n > mostPlaced {
		return bad("InvalidParameterValue", "The request names %d instances, and the maximum is %d", n, mostPlaced)
	}
	k := *instanceKind
	k.least, k.most = 1, 100
	k.by = attributes[*instance]{
		"availability-zone": instanceKind.by["availability-zone"],
		"instance-type":     instanceKind.by["instance-type"],
		"zone-id":           func(_ *request, i *instance) []string { return one(i.zone.id) },
	}
	found, next, err := pick(r, &r.instances, &k)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(i *instance) bool { return i.state != running || !layered.MatchString(i.itype) })
	x := r.x
	items(x, "instanceSet", found, func(i *instance) {
		x.text("instanceId", i.id)
		x.text("instanceType", i.itype)
		x.text("availabilityZone", i.zone.name)
		x.text("zoneId", i.zone.id)
		items(x, "networkNodeSet", i.networkNodes(), func(node string) { x.b = append(x.b, node...) })
	})
	x.text("nextToken", next)
	return nil
}

// networkNodes returns the network nodes above an instance, from the top. Those of the first two
// layers serve the whole zone.
func (i *instance) networkNodes() []string {
	return []string{"nn-" + i.zone.id + "-1", "nn-" + i.zone.id + "-2", "nn-" + i.id[len(i.id)-2:]}
}
