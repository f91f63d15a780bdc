package aws

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestNetworkOfAnotherClusterStaysRemembered changes one cluster's network. Readings of
// another cluster's network through the same Client stay short, and the next reading of
// the changed one is complete.
func TestNetworkOfAnotherClusterStaysRemembered(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	l.read(l.scope())
	cost := func(s NetworkScope) int {
		before := total(l.client)
		l.read(s)
		return total(l.client) - before
	}
	if n := cost(l.scope()); n > mostIdle {
		t.Fatalf("the network was not remembered: %d calls", n)
	}
	address := awsnet.Address{Name: "a"}
	change := func(o awsnet.Owner) {
		t.Helper()
		step := awsnet.Step{StepID: awsnet.StepID{Verb: awsnet.Create, Key: address.Key()}}
		if _, err := l.client.ChangeNetwork(t.Context(), o, awsnet.Call{Action: "AllocateAddress"}, NetworkChange{Step: step, Object: address}); err != nil {
			t.Fatal(err)
		}
	}
	change(awsnet.Owner{Cluster: "other", UID: "uid-2"})
	if n := cost(l.scope()); n > mostIdle {
		t.Errorf("after a change of another cluster's network, a reading takes %d calls", n)
	}
	change(awsnet.Owner{Cluster: "prod", UID: "uid-1", Adopt: "vpc-0123"})
	if n := cost(l.scope()); n <= mostIdle {
		t.Errorf("after a change of its own, a reading takes %d calls", n)
	}
}

// TestReadingThatCountsIsRemembered reads a network that has nothing to do with a scope that
// counts. The next reading builds on it and does not count.
func TestReadingThatCountsIsRemembered(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	l.client = fastClient(t) // as after a restart
	counting := l.scope()
	counting.Count = true
	want := l.read(counting)
	before := total(l.client)
	if got := l.read(l.scope()); !reflect.DeepEqual(got, want) {
		t.Errorf("without counting: %+v, want %+v", got, want)
	}
	if n := total(l.client) - before; n > mostIdle {
		t.Errorf("the second reading takes %d calls", n)
	}
}

// TestNetworkIsCheapBesideManyTargetGroups reads a network while Services have many
// target groups in its VPC and in others. A reading without a change stays short, and
// the Client remembers no target group of the other VPCs.
func TestNetworkIsCheapBesideManyTargetGroups(t *testing.T) {
	l := newNetworkLab(t)
	l.converge(threeZones)
	ours := l.id(l.ours(threeZones), awsnet.KindVPC, "main")
	other := l.fake.AddNetwork("172.20.0.0/16", 24, false).VPC
	for i := range 60 {
		vpc := ours
		if i%2 == 0 {
			vpc = other
		}
		l.do("CreateTargetGroup", "Name", fmt.Sprintf("foreign-%d", i), "Protocol", "TCP", "Port", "80", "VpcId", vpc, "TargetType", "instance")
	}
	l.client = fastClient(t)
	found := len(l.read(l.scope()).Found)
	for range 20 {
		before := total(l.client)
		if n := len(l.read(l.scope()).Found); n != found {
			t.Errorf("%d objects, and %d before", n, found)
		}
		if n := total(l.client) - before; n > mostIdle {
			t.Errorf("a reading without a change took %d calls", n)
		}
	}
	for _, r := range l.client.networks.last {
		if n := len(r.facts[part{name: partTargetGroups}].(targetGroupList)); n > 35 {
			t.Errorf("%d target groups are remembered", n)
		}
	}
}
