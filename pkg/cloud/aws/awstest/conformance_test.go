package awstest_test

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// row is a call and what AWS says to it. The rows of a scenario follow one another in
// one account.
type row struct {
	name string
	do   func(*world) string
	want string
	// moto, if set, is the answer of moto, which is known to be wrong. The test fails if
	// moto answers otherwise, so that the mark is removed when moto is corrected.
	moto string
}

// scenario is a sequence of rows that needs nothing of another one.
type scenario struct {
	name string
	rows []row
}

var scenarios = []scenario{identity, networks, tables, routes, refusals, instances, placing, describing, groups, gateways, nats, balancers, balancerChanges, targetGroups, targetsAndListeners, addresses, attributes, blocks, ways, associations, ruleChanges, ruleTags}

// TestFakeIsAsAWS makes every call of the conformance table with the real SDK.
func TestFakeIsAsAWS(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			f := awstest.New(t)
			f.Setenv(t)
			s.run(t, func(r row) string { return r.want })
		})
	}
}

func (s scenario) run(t *testing.T, want func(row) string) {
	w := newWorld(t)
	for _, r := range s.rows {
		if got := r.do(w); got != want(r) {
			t.Errorf("%s:\n got  %s\n want %s", r.name, got, want(r))
		}
	}
}
