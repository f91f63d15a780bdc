package awsnet_test

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestSweepKnowsWhatItDeletes sweeps two security groups of Services, one of which has
// a rule that names the other. The call that revokes the rule needs the ID of the first
// group, so the Binder must know groups that are ours only because of the sweep.
// Otherwise world.run fails.
func TestSweepKnowsWhatItDeletes(t *testing.T) {
	w := newWorld(t, 1)
	w.apply(w.want("network: {vpc: {cidrBlock: 10.0.0.0/24}}"))
	vpc := awsnet.Foreign(w.account.IDs(awsnet.KindVPC)[0])
	tags := map[string]string{"kubernetes.io/cluster/prod": "owned", "kubernetes.io/service-name": "default/web"}
	web := w.account.Put(awsnet.SecurityGroup{VPC: vpc, Title: "k8s-web"}, tags)
	db := w.account.Put(awsnet.SecurityGroup{VPC: vpc, Title: "k8s-db"}, tags)
	w.account.Put(awsnet.Rule{Owner: awsnet.Foreign(db), Group: awsnet.Foreign(web), Protocol: "tcp", From: 5432, To: 5432}, nil)
	p := awsnet.Destroy(w.owner, w.account.Read(), true)
	if p.Binder().ID(awsnet.Key{Kind: awsnet.KindSecurityGroup, Name: "of-service/" + db}) != db {
		t.Errorf("the Binder does not know %s", db)
	}
	w.destroy(true)
	w.empty()
}

// TestDeletionsNeedNothingThatAWSChose binds the deletions of a plan while the VPC has
// no block of IPv6. A subnet's deletion does not need the subnet's part of it.
func TestDeletionsNeedNothingThatAWSChose(t *testing.T) {
	b := awsnet.Plan{}.Binder()
	b.Learn(awsnet.VPC{}.Key(), "vpc-1", awsnet.Given{})
	s := awsnet.Subnet{Name: "a", VPC: awsnet.To(awsnet.KindVPC, "main"), IPv6: awsnet.Slice{Nth: 3}}
	if _, err := b.Bind(s); err == nil {
		t.Error("a subnet is created without its block")
	}
	if have := b.Have(s).(awsnet.Subnet); have.VPC != awsnet.Foreign("vpc-1") {
		t.Errorf("%v", have)
	}
}
