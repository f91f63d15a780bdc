package awscluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// TestNetworkIsBuiltKeptAndDeleted follows an AWSCluster through its life.
func TestNetworkIsBuiltKeptAndDeleted(t *testing.T) {
	for _, contract := range []capi.Contract{capi.Beta1, capi.Beta2} {
		inLab(t, func(l *lab) {
			l.define(contract)
			l.cluster("prod", `{}`)
			l.awsCluster("prod", small)
			l.Begin()
			l.Pass(2 * time.Minute)
			o := l.ready("prod")
			a := l.accounts[home]
			domains, ok := readDomains(o.status.Domains, contract)
			if want := []domain{{home + "a", true}, {home + "b", true}, {home + "c", true}}; !ok || !slices.Equal(domains, want) {
				t.Errorf("%s: the failure domains are %s", contract, o.status.Domains)
			}
			for _, c := range o.status.Conditions {
				if c.Type != pausedCondition && c.Status != capi.True || (c.Observed != 0) != (contract == capi.Beta2) || c.Reason == "" || c.Changed == "" {
					t.Errorf("%s: %+v", contract, c)
				}
			}
			for _, kind := range []string{"VpcReady", "SubnetsReady", "NatGatewaysReady", "RouteTablesReady", "ClusterSecurityGroupsReady", "LoadBalancerReady", "Paused"} {
				if l.condition("prod", kind) == "" {
					t.Errorf("%s: the condition %s is missing", contract, kind)
				}
			}

			// The first reading counts for the quotas. Later ones leave out what the network never had.
			a.Do(func() {
				first, last := Scope{Owner: l.owner("prod"), Carrier: true, Bastion: true, Count: true}, Scope{Owner: l.owner("prod")}
				if a.scopes[0] != first || a.scopes[len(a.scopes)-1] != last {
					t.Errorf("%s: read with %+v", contract, a.scopes)
				}
			})

			// Idle: one reading a minute, and no write anywhere.
			made, revision := a.made(), o.Metadata.ResourceVersion
			readings := a.count("Network")
			l.Pass(10 * time.Minute)
			if o, _ := l.get("prod"); o.Metadata.ResourceVersion != revision || a.made() != made || a.count("Network")-readings != 10 {
				t.Errorf("%s: idle: %s after %s, %d changes, %d readings", contract, o.Metadata.ResourceVersion, revision, a.made()-made, a.count("Network")-readings)
			}

			owner := l.owner("prod")
			l.delete("prod")
			l.Pass(2 * time.Minute)
			if o, exists := l.get("prod"); exists {
				t.Errorf("%s: after the deletion: %+v", contract, o.status)
			}
			if left := a.left(owner); len(left) > 0 {
				t.Errorf("%s: left over: %v", contract, left)
			}
		})
	}
}

// TestNothingIsDoneBeforeItIsDue: before the finalizer there is no call, and none without an
// owner, in a pause, or for what another program manages.
func TestNothingIsDoneBeforeItIsDue(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.accounts[home]
		l.awsCluster("prod", small)
		l.awsCluster("paused", small, `{"annotations": {"cluster.x-k8s.io/paused": ""}}`)
		l.awsCluster("managed", small, `{"annotations": {"cluster.x-k8s.io/managed-by": ""}}`)
		l.awsCluster("held", small)
		l.cluster("paused", `{}`)
		l.cluster("managed", `{}`)
		l.cluster("held", `{"paused": true}`)
		l.Begin()
		l.Pass(time.Minute)
		l.wants("prod", "Ready", "False", "WaitingForClusterOwner")
		l.wants("paused", "Paused", "True")
		l.wants("held", "Paused", "True")
		if o, _ := l.get("managed"); len(o.status.Conditions) > 0 || len(o.Metadata.Finalizers) > 0 {
			t.Errorf("managed by another program, and has %+v", o)
		}
		a.Do(func() {
			if len(a.calls) > 0 {
				t.Errorf("calls: %v", a.calls)
			}
			a.fail = func(call string) error {
				if call != "Zones" {
					return nil
				}
				for _, name := range []string{"prod", "held", "paused"} {
					o, _ := l.get(name)
					if i := o.Metadata.Annotations[NetworkAnnotation]; i != "" && !slices.Contains(o.Metadata.Finalizers, Finalizer) {
						t.Errorf("%s has %s without the finalizer", name, i)
					}
				}
				return nil
			}
		})
		l.cluster("prod", `{}`)
		l.cluster("held", `{}`)
		l.edit(awsPath("paused"), func(o map[string]any) { delete(o["metadata"].(map[string]any), "annotations") })
		l.Pass(3 * time.Minute)
		l.ready("prod")
		l.ready("held")
		l.ready("paused")
		l.wants("held", "Paused", "False")
	})
}

// TestWrongSpecHarmsNothing: the condition has the value and the fix, and the network stays.
func TestWrongSpecHarmsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.build()
		a := l.accounts[home]
		made := a.made()
		for spec, parts := range map[string][]string{
			`{"region": "us-east-1", "network": {"vpc": {"cidrBlock": "10.0.0.0/8"}}}`:                    {"InvalidSpec", "10.0.0.0/8", "network.vpc.cidrBlock"},
			`{"region": "us-east-1", "network": []}`:                                                      {"InvalidSpec", "correct it"},
			`{"region": "eu-west-1", "network": {"vpc": {"cidrBlock": "10.0.0.0/24"}}}`:                   {"InvalidSpec", "eu-west-1", "us-east-1"},
			`{"region": "us-east-1", "s3Bucket": {"name": "b"}}`:                                          {"InvalidSpec", "s3Bucket"},
			`{"region": "us-east-1", "identityRef": {"kind": "AWSClusterRoleIdentity", "name": "other"}}`: {"InvalidSpec", "AWSClusterRoleIdentity other"},
			`{"region": "us-east-1", "network": {"subnets": [{"id": "s", "cidrBlock": "10.0.0.0/25", "availabilityZone": "us-east-1z", "isPublic": true}], "vpc": {"cidrBlock": "10.0.0.0/24"}}}`: {"InvalidSpec", "us-east-1z"},
		} {
			l.spec("prod", spec)
			l.Pass(90 * time.Second)
			l.wants("prod", "Ready", append(parts, "False")...)
			if o, _ := l.get("prod"); !o.status.Ready {
				t.Errorf("%s: no longer provisioned", spec)
			}
		}
		if a.made() != made {
			t.Errorf("%d changes", a.made()-made)
		}
		l.spec("prod", small)
		l.Pass(90 * time.Second)
		l.ready("prod")
	})
}

// TestDriftIsRestored: what a person removed comes back within a minute, with an event, and
// what is foreign stays.
func TestDriftIsRestored(t *testing.T) {
	inLab(t, func(l *lab) {
		l.build()
		a := l.accounts[home]
		var foreign string
		a.Do(func() {
			for _, id := range a.model.IDs(awsnet.KindRoute) {
				if f := a.model.Get(id); !f.Fixed && strings.HasSuffix(id, "/0.0.0.0/0") {
					a.model.Drop(id)
					break
				}
			}
			vpc := a.model.IDs(awsnet.KindVPC)[0]
			foreign = a.model.Put(awsnet.SecurityGroup{VPC: awsnet.Foreign(vpc), Title: "mine"}, map[string]string{"Name": "mine"})
		})
		l.Pass(90 * time.Second)
		l.WantEvent("prod", "Restored", "create route/", "0.0.0.0/0")
		l.ready("prod")
		a.Do(func() {
			if a.model.Get(foreign).ID == "" {
				t.Error("the foreign group is gone")
			}
		})
	})
}

// TestPauseStopsARun: a pause in the middle lets what is in flight end, and no other call begins.
func TestPauseStopsARun(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.accounts[home]
		a.slow = time.Second
		l.cluster("prod", `{}`)
		l.awsCluster("prod", small)
		l.Begin()
		l.Pass(10 * time.Second)
		l.cluster("prod", `{"paused": true}`)
		l.Pass(5 * time.Second)
		made := a.made()
		if made == 0 {
			t.Fatal("nothing has begun")
		}
		l.wants("prod", "Paused", "True")
		l.delete("prod") // also a deletion waits
		l.Pass(5 * time.Minute)
		if a.made() != made {
			t.Errorf("%d calls in the pause", a.made()-made)
		}
		owner := l.owner("prod")
		l.cluster("prod", `{}`)
		l.Pass(5 * time.Minute)
		if _, exists := l.get("prod"); exists || len(a.left(owner)) > 0 {
			t.Errorf("left over: %v", a.left(owner))
		}
	})
}

// TestDeletionNamesWhatHolds: the finalizer stays, the condition and an event name the blocker,
// and the rest goes.
func TestDeletionNamesWhatHolds(t *testing.T) {
	inLab(t, func(l *lab) {
		l.build()
		a, owner := l.accounts[home], l.owner("prod")
		before := len(a.left(owner))
		a.Do(func() {
			subnet := a.model.IDs(awsnet.KindSubnet)[0]
			vpc := a.model.IDs(awsnet.KindVPC)[0]
			a.model.Holders = []awsnet.Holder{{ID: "eni-1", VPC: vpc, Subnet: subnet, Description: "ELB net/web/0123", Tags: map[string]string{"kubernetes.io/service-name": "default/web"}}}
		})
		l.delete("prod")
		l.Pass(3 * time.Minute)
		l.wants("prod", "Ready", "False", "DeletionBlocked", "eni-1", "default/web")
		l.wants("prod", "SubnetsReady", "False", "eni-1")
		l.WantWarning("prod", "DeletionBlocked", "eni-1", "default/web")
		if o, exists := l.get("prod"); !exists || !slices.Contains(o.Metadata.Finalizers, Finalizer) {
			t.Error("the finalizer is gone")
		}
		if n := len(a.left(owner)); n == 0 || n > before/2 {
			t.Errorf("%d of %d objects are left", n, before)
		}
		a.Do(func() { a.model.Holders = nil })
		l.Pass(3 * time.Minute)
		if _, exists := l.get("prod"); exists || len(a.left(owner)) > 0 {
			t.Errorf("left over: %v", a.left(owner))
		}
	})
}
