package cloudipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// cloudError returns an error of a kind.
func cloudError(k cloud.Kind) error {
	return &cloud.Error{Kind: k, Action: "instances.updateNetworkInterface", Text: "it says " + k.String()}
}

func TestAssignsBlocksAndAddsThemFirst(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		for _, name := range labtest.Names(8) {
			l.cloud.Add(name, "10.9.0.0/28") // a foreign alias
			l.AddNode(node1(name))
		}
		l.cloud.Add("worker-0", "10.9.0.0/28")
		l.API.Do(func() { l.API.Refuse = refuse("PATCH", 500) })
		l.Begin()
		l.Pass(10 * time.Second)
		for _, name := range labtest.Names(8) {
			if got := l.cloud.Aliases(name); len(got) != 2 || got[0] != "10.9.0.0/28" {
				t.Errorf("%s has %q", name, got)
			}
			l.wantNone(name)
		}
		l.API.Do(func() { l.API.Refuse = nil })
		l.Pass(2 * time.Minute)
		for _, name := range labtest.Names(8) {
			l.want(name, l.cloud.Aliases(name)[1])
		}
		l.wantDistinct(labtest.Names(8)...)
		if l.cloud.Changes() != 8 {
			t.Errorf("%d changes", l.cloud.Changes())
		}
		// The ninth Node finds no block.
		l.cloud.Add("late")
		l.AddNode(node1("late"))
		l.Pass(10 * time.Second)
		l.wantNone("late")
		l.WantEvent("late", notAvailable, "8 of 8 used", "use a larger range")
		if r := l.report(); r.Pools[0].Free != 0 || r.Waiting != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestSettledClusterIsLeftAlone(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		for i, name := range labtest.Names(8) {
			cidr := fmt.Sprintf("10.64.%d.0/24", i)
			l.cloud.Add(name, cidr)
			l.AddNode(node1(name, cidr), func(n *corev1.Node) {
				n.Status.Conditions[len(n.Status.Conditions)-1].Status = "False"
			})
		}
		l.Begin()
		l.Pass(time.Hour)
		if n := l.Patches(""); n > 0 || l.cloud.Changes() > 0 {
			t.Errorf("%d writes, %d changes", n, l.cloud.Changes())
		}
		if l.cloud.Reads() < 12 || l.cloud.Reads() > 14 {
			t.Errorf("%d lookups in an hour", l.cloud.Reads())
		}
	})
}

// TestContinuesAfterACrash: the controller completes what a crash left behind, an alias without
// podCIDRs or podCIDRs without an alias.
func TestContinuesAfterACrash(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		l.cloud.Add("worker-0", "10.64.5.0/24")
		l.AddNode(node1("worker-0"))
		l.cloud.Add("worker-1")
		l.AddNode(node1("worker-1", "10.64.0.0/24"))
		l.cloud.Add("worker-2")
		l.AddNode(node1("worker-2"))
		l.Begin()
		l.Pass(10 * time.Second)
		l.want("worker-0", "10.64.5.0/24")
		l.want("worker-1", "10.64.0.0/24")
		l.wantDistinct(labtest.Names(3)...)
		if l.cloud.Changes() != 2 {
			t.Errorf("%d changes", l.cloud.Changes())
		}
	})
}

// TestBlockInUseIsAvoided: the controller tries a block of a machine outside the cluster once,
// and then takes another one.
func TestBlockInUseIsAvoided(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		l.cloud.Add("database", "10.64.0.0/24", "10.64.1.0/25")
		l.cloud.Add("worker-0")
		l.AddNode(node1("worker-0"))
		l.Begin()
		l.Pass(time.Minute)
		l.want("worker-0", "10.64.2.0/24")
		l.WantEvent("worker-0", assignmentFailed, "10.64.0.0/24", "trying another block")
		if l.cloud.Changes() != 3 || l.report().Pools[0].Reserved != 2 {
			t.Errorf("%d changes, %+v", l.cloud.Changes(), l.report().Pools)
		}
		l.Pass(avoidTime)
		if got := l.report().Pools[0]; got.Reserved != 0 || got.Used != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestServiceRangesAreNotAssigned(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		l.cloud.Add("worker-0")
		l.AddNode(node1("worker-0"))
		l.Begin()
		l.Pass(10 * time.Second)
		l.want("worker-0", "10.64.4.0/24")
	}, func(o *Options) { o.Services = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/22")} })
}

// TestLateOrFailedChangesLoseNoBlock: however changes end, no block goes to two instances, and
// none is lost.
func TestLateOrFailedChangesLoseNoBlock(t *testing.T) {
	for kind, isMade := range map[cloud.Kind]bool{
		cloud.Pending: true, cloud.Unavailable: true, cloud.Throttled: false, cloud.Denied: false, cloud.Refused: false, cloud.Changed: false, cloud.Missing: false,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			inLab(t, FromCluster, func(l *lab) {
				for _, name := range labtest.Names(8) {
					l.cloud.Add(name)
					l.AddNode(node1(name))
				}
				tries := make(map[string]int)
				requests := make(map[string]map[string]bool)
				fails := func(c cloud.Change) error {
					if requests[c.ID] == nil {
						requests[c.ID] = make(map[string]bool)
					}
					requests[c.ID][c.Request] = true
					if tries[c.ID]++; tries[c.ID] <= 3 {
						return cloudError(kind)
					}
					return nil
				}
				l.cloud.Do(func() {
					if l.cloud.Fail = fails; isMade {
						l.cloud.Fail, l.cloud.Lose = nil, fails
					}
				})
				l.Begin()
				l.Pass(5 * time.Minute)
				for _, name := range labtest.Names(8) {
					l.want(name, l.cloud.Aliases(name)...)
				}
				l.wantDistinct(labtest.Names(8)...)
				for id, all := range requests {
					if want := map[bool]int{true: 1, false: 4}[isMade]; len(all) != want {
						t.Errorf("%s: %d requests in %d tries, want %d", id, len(all), tries[id], want)
					}
				}
				if r := l.report(); r.Pools[0].Used != 8 || r.Retrying > 0 || len(r.Findings) > 0 {
					t.Errorf("%+v", r)
				}
				if kind == cloud.Denied || kind == cloud.Refused {
					l.WantEvent("worker-0", assignmentFailed, "cannot add the alias range 10.64.", "it says")
				}
			})
		})
	}
}

// TestPendingChangeIsRepeatedUnchanged: the controller repeats a change that may have been made
// with the same request ID, until its outcome is known.
func TestPendingChangeIsRepeatedUnchanged(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		l.cloud.Add("worker-0")
		l.AddNode(node1("worker-0"))
		var sent []cloud.Change
		l.cloud.Do(func() {
			l.cloud.Fail = func(c cloud.Change) error {
				if sent = append(sent, c); len(sent) <= 3 {
					return cloudError(cloud.Pending)
				}
				return nil
			}
		})
		l.Begin()
		l.Pass(time.Minute)
		l.want("worker-0", "10.64.0.0/24")
		if len(sent) != 4 || slices.ContainsFunc(sent, func(c cloud.Change) bool { return c != sent[0] }) {
			t.Errorf("%+v", sent)
		}
		s, _ := l.Engine.State(l.Context())
		if n := s.Counts[controller.Count{Controller: l.c.Name(), Verb: controller.Patch, Outcome: controller.Begun}]; n != 3 {
			t.Errorf("%v", s.Counts)
		}
		if !s.Paused.IsZero() {
			t.Error("the cloud's failures keep writes to the API server back")
		}
	})
}

// TestFailingCloudDelaysNoOtherNode: while changes of the cloud fail, Nodes whose instances
// have aliases get their podCIDRs.
func TestFailingCloudDelaysNoOtherNode(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		for _, name := range labtest.Names(4) {
			l.cloud.Add(name)
			l.AddNode(node1(name))
		}
		l.cloud.Add("worker-9", "10.64.7.0/24")
		l.AddNode(node1("worker-9"))
		l.cloud.Do(func() { l.cloud.Fail = func(cloud.Change) error { return errors.New("connection refused") } })
		l.Begin()
		l.Pass(5 * time.Second)
		l.want("worker-9", "10.64.7.0/24")
	})
}

// TestLateChangeOfAnotherLeaderIsAdopted: a late change of the last leader arrives after the
// next one has chosen another block.
func TestLateChangeOfAnotherLeaderIsAdopted(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		l.cloud.Add("worker-0")
		l.cloud.Add("worker-1")
		l.AddNode(node1("worker-0"))
		read, err := l.cloud.Instances(l.Context(), []string{cloudtest.ID("worker-0"), cloudtest.ID("worker-1")})
		if err != nil {
			t.Fatal(err)
		}
		late := func(name, add string) error {
			id := cloudtest.ID(name)
			return l.cloud.AddAlias(l.Context(), cloud.Change{
				ID: id, Version: read[id].Version, Request: "late-" + name, Add: cloud.Alias{Range: netip.MustParsePrefix(add), From: cloudtest.Secondary},
			})
		}
		l.Begin()
		l.Pass(5 * time.Second)
		l.want("worker-0", "10.64.0.0/24")
		if err := late("worker-0", "10.64.1.0/24"); cloud.KindOf(err) != cloud.Changed {
			t.Errorf("%v", err)
		}
		if err := late("worker-1", "10.64.0.0/24"); cloud.KindOf(err) != cloud.Taken {
			t.Errorf("%v", err)
		}
		// The cloud makes this change before the Node exists.
		if err := late("worker-1", "10.64.3.0/24"); err != nil {
			t.Error(err)
		}
		l.AddNode(node1("worker-1"))
		l.Pass(5 * time.Second)
		l.want("worker-1", "10.64.3.0/24")
		l.wantDistinct(labtest.Names(2)...)
	})
}

// TestSecondTermFindsWhatTheFirstLeft: a second term knows nothing of the first one, and reads
// everything again.
func TestSecondTermFindsWhatTheFirstLeft(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		for _, name := range labtest.Names(8) {
			l.cloud.Add(name)
			l.AddNode(node1(name))
		}
		n := 0
		l.cloud.Do(func() {
			l.cloud.Lose = func(cloud.Change) error {
				if n++; n%2 == 0 {
					return cloudError(cloud.Unavailable)
				}
				return nil
			}
		})
		for range 4 {
			l.Begin()
			l.End()
		}
		l.Begin()
		l.Pass(time.Minute)
		for _, name := range labtest.Names(8) {
			l.want(name, l.cloud.Aliases(name)...)
		}
		l.wantDistinct(labtest.Names(8)...)
	})
}

// TestPodCIDRsOutsideThePoolAreNotAdded: the controller adds no podCIDR from outside the pool
// to an instance.
func TestPodCIDRsOutsideThePoolAreNotAdded(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		for name, cidr := range map[string]string{"worker-0": "10.99.0.0/24", "worker-1": "fd00::/64"} {
			l.cloud.Add(name)
			l.AddNode(node1(name, cidr))
		}
		l.Begin()
		l.Pass(time.Hour)
		for _, name := range labtest.Names(2) {
			l.WantEvent(name, mismatch, "not in the range of podCIDRs", "delete and re-create the Node")
			if !slices.Contains(l.codes(name), Mismatch) || !slices.Contains(l.codes(name), ipam.Outside) {
				t.Errorf("%v", l.codes(name))
			}
		}
		if l.cloud.Changes() > 0 {
			t.Errorf("%d changes", l.cloud.Changes())
		}
	})
}
