package aws

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestNetworkWaitsForWhatALostAnswerCreated loses the answers of creations that AWS
// would repeat, while AWS does not yet show the new objects. A reading without the
// object is an error until AWS shows it, so no plan creates a twin.
func TestNetworkWaitsForWhatALostAnswerCreated(t *testing.T) {
	for action, o := range map[string]awsnet.Object{
		"CreateVpc": awsnet.VPC{IPv4: netip.MustParsePrefix("10.0.0.0/16")}, "CreateInternetGateway": awsnet.InternetGateway{}, "AllocateAddress": awsnet.Address{Name: "nat-a"},
	} {
		l := newNetworkLab(t)
		l.fake.Set(func(s *awstest.Settings) { s.Lag = time.Hour })
		l.fake.Inject(awstest.Fault{Action: action, Times: 1, Lose: true})
		tags := map[string]string{l.owner.Tag(): "owned", awsnet.UIDTag: l.owner.UID, awsnet.PartTag: o.Key().String()}
		step := awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Create, Key: o.Key()}, Tags: tags}
		_, err := l.client.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: action}, NetworkChange{Step: step, Object: o})
		wantKind(t, err, cloud.Unavailable)
		_, err = l.client.Network(t.Context(), l.scope())
		if wantKind(t, err, cloud.Pending); err == nil || !strings.Contains(err.Error(), o.Key().String()) {
			t.Errorf("%s: %v", action, err)
		}
		if _, err := l.client.Network(t.Context(), NetworkScope{Owner: awsnet.Owner{Cluster: "prod", UID: "uid-2"}}); err != nil {
			t.Errorf("%s: another owner's reading: %v", action, err)
		}
		l.fake.Advance(2 * time.Hour)
		if a := l.read(l.scope()); !shown(l.owner, o.Key(), a) {
			t.Errorf("%s: the reading does not show it", action)
		}
		if n := len(l.client.networks.doubts); n > 0 {
			t.Errorf("%s: %d doubts are left", action, n)
		}
	}
}

// TestNetworkDoubtsEnd checks that, if AWS created nothing, the reading succeeds after
// some time.
func TestNetworkDoubtsEnd(t *testing.T) {
	l := newNetworkLab(t)
	end := l.fake.Inject(awstest.Fault{Action: "CreateVpc", Answer: &awstest.Error{Status: 503, Code: "Unavailable", Message: "The server is overloaded."}})
	o := awsnet.VPC{IPv4: netip.MustParsePrefix("10.0.0.0/16")}
	create := func() error {
		_, err := l.client.ChangeNetwork(t.Context(), l.owner, awsnet.Call{Action: "CreateVpc"}, NetworkChange{Step: awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Create, Key: o.Key()}}, Object: o})
		return err
	}
	wantKind(t, create(), cloud.Unavailable)
	end()
	_, err := l.client.Network(t.Context(), l.scope())
	wantKind(t, err, cloud.Pending)
	for d := range l.client.networks.doubts {
		l.client.networks.doubts[d] = time.Now().Add(-2 * doubting)
	}
	l.read(l.scope())
	if err := create(); err != nil || len(l.client.networks.doubts) > 0 {
		t.Errorf("%v, %d doubts", err, len(l.client.networks.doubts))
	}
}
