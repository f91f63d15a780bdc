package awsnet_test

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestKeysOfHostileTags checks that a name has no newline, which would make two members
// of Refs of it, and a second line in a log.
func TestKeysOfHostileTags(t *testing.T) {
	for _, text := range []string{"subnet/a\nsubnet/b", "subnet/a\x00", "subnet/", "/a", "planet/a"} {
		if k, ok := awsnet.ParseKey(text); ok {
			t.Errorf("%q is %v", text, k)
		}
	}
	if k, ok := awsnet.ParseKey("rule/node/in/tcp/1-2/10.0.0.0/8"); !ok || k.Kind != awsnet.KindRule {
		t.Errorf("%v, %v", k, ok)
	}
}

// TestNoPlanWithoutUID checks that a cluster without a UID gets no plan: no object
// would be the cluster's, and each plan would create a whole network again.
func TestNoPlanWithoutUID(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want("network: {vpc: {cidrBlock: 10.0.0.0/24}}")
	p := awsnet.Diff(awsnet.Owner{Cluster: "prod"}, want, w.account.Read())
	if len(p.Steps) > 0 || len(p.Problems) != 1 || !strings.Contains(p.Problems[0].String(), "UID") {
		t.Errorf("%d steps, %v", len(p.Steps), p.Problems)
	}
}
