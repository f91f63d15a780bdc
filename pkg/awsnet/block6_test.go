package awsnet_test

import (
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestSecondBlockOfIPv6IsLeftAlone adds another block of IPv6 to the VPC, as a person
// may, or a repeated call whose answer was lost. Whatever the new block's ID is, the
// subnets keep theirs, and the plan is empty.
func TestSecondBlockOfIPv6IsLeftAlone(t *testing.T) {
	for _, id := range []string{"vpc-cidr-assoc-00000000", "vpc-cidr-assoc-ffffffff"} {
		w := newWorld(t, 1)
		want := w.want("network: {vpc: {cidrBlock: 10.0.0.0/24, ipv6: {}}}")
		w.apply(want)
		vpc := w.account.IDs(awsnet.KindVPC)[0]
		w.account.Set(awsnet.Found{
			ID: id, Object: awsnet.Block{VPC: awsnet.Foreign(vpc), Pool: awsnet.AmazonPool}, Given: awsnet.Given{Block: netip.MustParsePrefix("2600:1f18:fff:ff00::/56")},
		})
		a := w.account.Read()
		if p := awsnet.Diff(w.owner, want, a); len(p.Steps)+len(p.Problems) > 0 {
			t.Errorf("with %s: %s", id, summaries(p))
		}
		if h := awsnet.Sort(w.owner, want, a); h.ID(awsnet.Key{Kind: awsnet.KindBlock, Name: "ipv6"}) == id {
			t.Errorf("%s counts as the network's", id)
		}
		w.destroy(false)
		w.empty()
	}
}
