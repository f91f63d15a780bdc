package awsnet_test

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// incumbent makes a network as Cluster API's AWS provider makes it: with that
// provider's tags only, and a table for each subnet.
func (w *world) incumbent() (vpc string) {
	w.apply(w.want(specs["three zones"]))
	for _, f := range w.account.Read().Found {
		if f.Fixed {
			continue
		}
		delete(f.Tags, awsnet.UIDTag)
		delete(f.Tags, awsnet.PartTag)
		if r, is := f.Object.(awsnet.Route); is {
			r.Blackhole = false
			f.Object = r
		}
		w.account.Set(f)
	}
	vpc = w.account.IDs(awsnet.KindVPC)[0]
	igw := w.account.IDs(awsnet.KindInternetGateway)[0]
	for _, id := range w.account.IDs(awsnet.KindAssociation)[:2] {
		f := w.account.Get(id)
		a := f.Object.(awsnet.Association)
		if !w.account.Get(a.Subnet.ID).Object.(awsnet.Subnet).PublicIPs {
			continue
		}
		table := w.account.Put(awsnet.RouteTable{VPC: awsnet.Foreign(vpc)}, map[string]string{prodTag: "owned"})
		w.account.Put(awsnet.Route{Table: awsnet.Foreign(table), To: anywhere, Via: awsnet.Foreign(igw)}, nil)
		a.Table = awsnet.Foreign(table)
		f.Object = a
		w.account.Set(f)
	}
	return vpc
}

// TestAdoptsANetworkOfClusterAPI shows that a network which the Spec declares as this
// cluster's becomes ours by changes of tags alone, except that surplus tables are
// deleted.
func TestAdoptsANetworkOfClusterAPI(t *testing.T) {
	for seed := range uint64(6) {
		w := newWorld(t, seed)
		vpc := w.incumbent()
		kinds := []awsnet.Kind{awsnet.KindVPC, awsnet.KindSubnet, awsnet.KindInternetGateway, awsnet.KindNATGateway, awsnet.KindAddress, awsnet.KindSecurityGroup, awsnet.KindBalancer, awsnet.KindTargetGroup, awsnet.KindListener, awsnet.KindEndpoint}
		var before []string
		for _, k := range kinds {
			before = append(before, w.account.IDs(k)...)
		}
		want := w.want("network: {vpc: {cidrBlock: 10.0.0.0/24, id: " + vpc + ", tags: {" + prodTag + ": owned}}}")
		w.owner.Adopt = vpc
		a := w.account.Read()
		for _, s := range awsnet.Diff(w.owner, want, a).Steps {
			for _, c := range s.Calls {
				if !strings.HasSuffix(c.Action, "Tags") && s.Key.Kind != awsnet.KindAssociation && s.Key.Kind != awsnet.KindRouteTable {
					t.Errorf("%s: %s", s.Summary, c)
				}
			}
		}
		w.apply(want)
		w.exact(want)
		var after []string
		for _, k := range kinds {
			after = append(after, w.account.IDs(k)...)
		}
		if strings.Join(before, " ") != strings.Join(after, " ") {
			t.Errorf("%v\nbecame %v", before, after)
		}
		w.destroy(false)
		w.empty()
	}
}

// TestAdoptsNothingWithoutTheSpec shows that objects are not adopted because of the
// cluster's name alone.
func TestAdoptsNothingWithoutTheSpec(t *testing.T) {
	w := newWorld(t, 1)
	w.incumbent()
	for _, adopt := range []string{"", "vpc-0000ffff"} {
		w.owner.Adopt = adopt
		if p := awsnet.Destroy(w.owner, w.account.Read(), true); len(p.Steps) > 0 {
			t.Errorf("%q: %s", adopt, summaries(p))
		}
	}
}
