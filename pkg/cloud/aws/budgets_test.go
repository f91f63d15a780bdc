package aws

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// TestBudgetsLeaveHalfToOthers: the client uses half of the published rates. Of routes, it may
// use the whole bucket at once, and half of the tokens that return.
func TestBudgetsLeaveHalfToOthers(t *testing.T) {
	for action, want := range map[string][2]cloud.Budget{
		describeInstances: {{Burst: 50, Rate: 10}, {Burst: 200, Rate: 40}},
		describeTables:    {{Burst: 50, Rate: 10}, {Burst: 200, Rate: 40}},
		createRoute:       {{Burst: 50, Rate: 2.5}, {Burst: 100, Rate: 10}},
		replaceRoute:      {{Burst: 50, Rate: 2.5}, {Burst: 100, Rate: 10}},
		deleteRoute:       {{Burst: 50, Rate: 2.5}, {Burst: 100, Rate: 10}},
		modifyInterface:   {{Burst: 50, Rate: 2.5}, {Burst: 200, Rate: 10}},
		createSubnet:      {{Burst: 25, Rate: 2.5}, {Burst: 100, Rate: 10}},
		createNAT:         {{Burst: 5, Rate: 0.5}, {Burst: 20, Rate: 2}},
		deleteNAT:         {{Burst: 5, Rate: 0.5}, {Burst: 20, Rate: 2}},
		runInstances:      {{Burst: 2.5, Rate: 1}, {Burst: 10, Rate: 4}},
		getQuota:          {{Burst: 2, Rate: 0.5}, {Burst: 8, Rate: 2}},
	} {
		for i, share := range []float64{defaultShare, 2} {
			if got := budgetOf(action, share); got != want[i] {
				t.Errorf("%s at %v: %+v, want %+v", action, share, got, want[i])
			}
		}
	}
	if got := budgetOf(getQuota, 0.01); got.Burst != 1 || got.Rate != 0.01 {
		t.Errorf("%+v", got)
	}
}
