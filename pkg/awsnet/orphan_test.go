package awsnet_test

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestNetworkIsRebuiltBesideItsTargetGroups deletes everything except the target
// groups, which AWS keeps when a person deletes their VPC. The new network gets new
// target groups: the old ones' names are taken, and their VPC cannot be changed.
func TestNetworkIsRebuiltBesideItsTargetGroups(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want("network: {vpc: {cidrBlock: 10.0.0.0/24}}")
	w.apply(want)
	for _, f := range w.account.Read().Found {
		if _, group := f.Object.(awsnet.TargetGroup); !group {
			w.account.Drop(f.ID)
		}
	}
	if p := w.apply(want); len(p.Problems) > 0 {
		t.Error(p.Problems)
	}
	w.exact(want)
}
