package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestNetworkNowKnowsWhatPlansWaitFor reads every object that can be pending or being deleted,
// alone and together: one that NetworkNow did not know would fail the waits for all others.
func TestNetworkNowKnowsWhatPlansWaitFor(t *testing.T) {
	l := newNetworkLab(t)
	l.bastion = true
	l.converge(dualStack)
	kinds := make(map[string]awsnet.Kind)
	distinct := make(map[awsnet.Kind]bool)
	for _, f := range l.read(l.scope()).Found {
		switch kind := awsnet.KindOf(f.Object); kind {
		case awsnet.KindAddress, awsnet.KindRouteTable, awsnet.KindRoute, awsnet.KindSecurityGroup, awsnet.KindRule, awsnet.KindTargetGroup, awsnet.KindListener:
			// AWS makes and deletes these at once.
		default:
			kinds[f.ID], distinct[kind] = kind, true
		}
	}
	if len(distinct) != 10 {
		t.Errorf("the network has only %v", distinct)
	}
	var all []string
	for id, kind := range kinds {
		all = append(all, id)
		if now, err := l.client.NetworkNow(t.Context(), id); err != nil || len(now) != 1 || awsnet.KindOf(now[id].Object) != kind {
			t.Errorf("%s %s: %v %v", kind, id, now, err)
		}
	}
	if now, err := l.client.NetworkNow(t.Context(), all...); err != nil || len(now) != len(all) {
		t.Errorf("%d of %d objects: %v", len(now), len(all), err)
	}
	if now, err := l.client.NetworkNow(t.Context(), "igw-0", "eigw-0", "cagw-0", "rtbassoc-0"); err != nil || len(now) > 0 {
		t.Errorf("what does not exist: %v, %v", now, err)
	}
}

// TestNetworkNowShowsWhatIsGone: AWS shows deleted NAT gateways for an hour.
func TestNetworkNowShowsWhatIsGone(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	id := l.find(l.ours(threeZones), awsnet.KindNATGateway, "").ID
	l.do("DeleteNatGateway", "NatGatewayId", id)
	if now, err := l.client.NetworkNow(t.Context(), id); err != nil || now[id].State != awsnet.Gone {
		t.Errorf("%v %+v", err, now)
	}
}

// TestCountsEndWithAChange: after a change, NetworkUsage counts again.
func TestCountsEndWithAChange(t *testing.T) {
	l := newNetworkLab(t)
	l.client.networks.counted(map[awsnet.Kind]int{awsnet.KindAddress: 4})
	if n, known := l.client.networks.countOf(awsnet.KindAddress); n != 4 || !known {
		t.Errorf("%d, %v", n, known)
	}
	l.client.networks.changed(awsnet.Owner{Cluster: "other", UID: "uid-2"})
	if _, known := l.client.networks.countOf(awsnet.KindAddress); known {
		t.Error("a count from before a change is used")
	}
}

// TestPoolOf: only addresses of the account's own pool have one.
func TestPoolOf(t *testing.T) {
	for pool, want := range map[string]string{"amazon": "", "": "", "ipv4pool-ec2-0123abcd": "ipv4pool-ec2-0123abcd"} {
		if got := poolOf(types.Address{PublicIpv4Pool: aws.String(pool)}); got != want {
			t.Errorf("%q: %q", pool, got)
		}
	}
}
