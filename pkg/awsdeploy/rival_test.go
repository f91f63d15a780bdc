package awsdeploy_test

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestSecondNetworkOfTwoRunsIsDeleted: two runs at once may each build a network for one cluster.
// The next run deletes one of them with everything in it, although its security groups name one
// another.
func TestSecondNetworkOfTwoRunsIsDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const alone = oneZone + "\n  controlPlaneLoadBalancer: {loadBalancerType: disabled}"
	first := l.build(alone)
	other := l.spec(alone)
	other.UID = "another-run"
	second, err := l.deployer().Build(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	parameters := []string{"Tag.1.Key", awsnet.UIDTag, "Tag.1.Value", l.spec(alone).UID}
	n := 0
	for _, f := range second.View.Holding.Ours {
		if f.Tags[awsnet.UIDTag] == other.UID && !strings.Contains(f.ID, "/") {
			n++
			l.do("CreateTags", "", append(parameters, "ResourceId.1", f.ID)...)
		}
	}
	if n < 15 {
		t.Fatalf("the second network has %d objects", n)
	}
	r := l.build(alone)
	if r.Done < n/2 {
		t.Errorf("%d of %d objects were deleted", r.Done, n)
	}
	if was, is := len(first.View.Holding.Ours), len(r.View.Holding.Ours); was != is || len(r.View.Holding.Foreign) > 0 {
		t.Errorf("%d objects became %d, foreign are %+v", was, is, r.View.Holding.Foreign)
	}
	if _, err := l.deployer().Destroy(t.Context(), awsdeploy.EndOf(l.spec(alone), false)); err != nil {
		t.Fatal(err)
	}
	l.wantNothing()
}
