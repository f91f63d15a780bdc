package aws

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// TestDropsFactsThatNoLabelCanHave: such a fact would make the API server refuse the Node's
// whole patch. The client drops it, logs it once, and keeps all other facts and instances.
func TestDropsFactsThatNoLabelCanHave(t *testing.T) {
	_, c := newAccount(t)
	log := logtest.Capture(t, 0)
	for _, bad := range []string{"a b", "-a", "a-", "a/b", "\n", "ü", strings.Repeat("a", 64), strings.Repeat("a", 1<<16)} {
		log.Take()
		for range 3 {
			i, err := c.instance(types.Instance{
				InstanceId: &[]string{"i-0123456789abcdef0"}[0], InstanceType: types.InstanceType(bad), State: &types.InstanceState{Name: types.InstanceStateNameRunning},
				Placement: &types.Placement{AvailabilityZone: &bad, AvailabilityZoneId: &bad},
			}, "1")
			if err != nil || i.Type != "" || i.Zone != "" || i.ZoneID != "" || i.ProviderID != "aws:////i-0123456789abcdef0" {
				t.Errorf("%.80q: %+v, %v", bad, i, err)
			}
		}
		lines := log.Take()
		if len(lines) > 3 || len(strings.Join(lines, "")) > 2000 {
			t.Errorf("%.80q: %d lines in the log", bad, len(lines))
		}
	}
	log.Take()
	good := "eu-central-1a"
	i, err := c.instance(types.Instance{
		InstanceId: &[]string{"i-0123456789abcdef0"}[0], InstanceType: "u-6tb1.metal", State: &types.InstanceState{Name: types.InstanceStateNameRunning},
		Placement: &types.Placement{AvailabilityZone: &good, AvailabilityZoneId: &good},
	}, "1")
	if err != nil || i.Type != "u-6tb1.metal" || i.Zone != good || i.ZoneID != good || len(log.Take()) != 0 {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestRegionThatNoLabelCanHaveIsRefused: the region becomes a label, too.
func TestRegionThatNoLabelCanHaveIsRefused(t *testing.T) {
	newAccount(t)
	parsed, _, err := ParseConfig("")
	if err != nil {
		t.Fatal(err)
	}
	parsed.Region = "eu-" + strings.Repeat("a", 64) + "-1"
	if _, err := New(t.Context(), Options{Config: parsed, Cluster: "prod", Agent: "test"}); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("%v", err)
	}
}
