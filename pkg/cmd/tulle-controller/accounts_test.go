package main

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestUnusedRegionsAreDropped: an AWSCluster may name any region, so their clients must not add up.
// The counts of their requests stay, as those of a counter must.
func TestUnusedRegionsAreDropped(t *testing.T) {
	fake := awstest.New(t)
	fake.Setenv(t)
	a := &accounts{share: 1, regions: make(map[string]*regionClient), past: make(map[cloud.Call]int)}
	client := func(region string) *aws.Client {
		c, err := aws.New(t.Context(), aws.Options{Networks: true, Share: 1, Agent: "test", Config: aws.Config{Region: region}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now := time.Now()
	first, second := client("eu-central-1"), client("eu-west-1")
	if a.use("eu-central-1", nil, now) != nil || a.use("eu-central-1", first, now) != first || a.use("eu-central-1", second, now) != first {
		t.Fatal("a region has one client")
	}
	if _, err := first.NetworkZones(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := a.Calls()
	if a.use("eu-west-1", second, now.Add(regionIdle)); len(a.regions) != 2 {
		t.Errorf("%d regions", len(a.regions))
	}
	if a.use("eu-west-1", nil, now.Add(regionIdle+time.Second)) != second || len(a.regions) != 1 {
		t.Errorf("%d regions", len(a.regions))
	}
	after := a.Calls()
	for call, n := range before {
		if n == 0 || after[call] != n {
			t.Errorf("%v: %d requests became %d", call, n, after[call])
		}
	}
	if len(before) == 0 {
		t.Error("no request was counted")
	}
	if a.use("eu-central-1", nil, now.Add(2*regionIdle)) != nil {
		t.Error("a dropped client is used")
	}
}

// TestNetworksShareTheBudgetsOfTheCloud: in one region, AWS counts the requests of all
// controllers together.
func TestNetworksShareTheBudgetsOfTheCloud(t *testing.T) {
	awstest.New(t).Setenv(t)
	p, err := settingsOf(t, newCluster(t).flags("--cloud-provider=aws", "--cluster-name=prod", "--controllers=*,awscluster")...).connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	if of, is := p.cloud.(*aws.Client); !is || p.accounts.beside != of {
		t.Errorf("%T, and the accounts are beside %p", p.cloud, p.accounts.beside)
	}
}
